//! Counting ids on SQLite, which has no sequences: a table with one row stands for each, under the name that Spring
//! Batch gives it.

use sqlx::SqliteConnection;

/// Takes the next id from the table of a sequence, and removes those before it.
async fn next(
    connection: &mut SqliteConnection,
    insert: &'static str,
    delete: &'static str,
) -> Result<i64, sqlx::Error> {
    let id: i64 = sqlx::query_scalar(insert).fetch_one(&mut *connection).await?;
    sqlx::query(delete).bind(id).execute(connection).await?;
    Ok(id)
}

pub(super) async fn next_instance(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    let insert = "insert into batch_job_seq default values returning id";
    next(connection, insert, "delete from batch_job_seq where id < $1").await
}

pub(super) async fn next_execution(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    let insert = "insert into batch_job_execution_seq default values returning id";
    next(connection, insert, "delete from batch_job_execution_seq where id < $1").await
}

pub(super) async fn next_step(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    let insert = "insert into batch_step_execution_seq default values returning id";
    next(connection, insert, "delete from batch_step_execution_seq where id < $1").await
}

/// The first of so many ids in a row.
pub(super) async fn next_steps(connection: &mut SqliteConnection, count: usize) -> Result<i64, sqlx::Error> {
    let first = next_step(&mut *connection).await?;
    let last = first + i64::try_from(count).unwrap_or(i64::MAX - first).max(1) - 1;
    if last > first {
        sqlx::query("delete from batch_step_execution_seq").execute(&mut *connection).await?;
        sqlx::query("insert into batch_step_execution_seq (id) values ($1)")
            .bind(last)
            .execute(connection)
            .await?;
    }
    Ok(first)
}
