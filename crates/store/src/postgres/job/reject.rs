//! Statements on `tidemill_reject`.

use crate::codec::DbTime;
use crate::job::RejectRow;
use crate::row::job::StoredRejectRow;
use sqlx::PgConnection;

pub(crate) async fn insert(
    connection: &mut PgConnection,
    step: i64,
    rows: &[RejectRow],
    now: DbTime,
) -> Result<(), sqlx::Error> {
    for row in rows {
        sqlx::query(
            "insert into tidemill_reject (step_execution_id, at, phase, kind, error, place, item)
             values ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(step)
        .bind(now)
        .bind(row.phase)
        .bind(&row.kind)
        .bind(&row.error)
        .bind(&row.place)
        .bind(&row.item)
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

/// In the order in which they were left out.
pub(crate) async fn list(
    connection: &mut PgConnection,
    step: i64,
    after: i64,
    limit: i64,
) -> Result<Vec<StoredRejectRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, at, phase, kind, error, place, item
         from tidemill_reject
         where step_execution_id = $1
           and id > $2
         order by id
         limit $3",
    )
    .bind(step)
    .bind(after)
    .bind(limit)
    .fetch_all(connection)
    .await
}
