//! Statements on `demo_payment`, which the demo creates for itself.

use sqlx::PgConnection;

pub(crate) async fn create_payments(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query(
        "create table demo_payment (
             id bigint not null,
             account text,
             cents bigint
         )",
    )
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn count_payments(connection: &mut PgConnection) -> Result<(i64, i64), sqlx::Error> {
    sqlx::query_as(
        "select count(*), count(distinct id)
         from demo_payment",
    )
    .fetch_one(connection)
    .await
}
