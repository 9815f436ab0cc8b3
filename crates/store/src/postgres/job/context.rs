//! Statements on `batch_job_execution_context` and `batch_step_execution_context`. The long column has the whole
//! text when the short one has only its beginning.

use crate::tx::ContextColumns;
use sqlx::PgConnection;

pub(crate) async fn insert_of_job(
    connection: &mut PgConnection,
    execution: i64,
    context: &ContextColumns<'_>,
) -> Result<(), sqlx::Error> {
    let statement =
        "insert into batch_job_execution_context (job_execution_id, short_context, serialized_context)
         values ($1, $2, $3)";
    write(connection, statement, execution, context).await
}

pub(crate) async fn save_of_job(
    connection: &mut PgConnection,
    execution: i64,
    context: &ContextColumns<'_>,
) -> Result<(), sqlx::Error> {
    let statement = "update batch_job_execution_context
         set short_context = $2, serialized_context = $3
         where job_execution_id = $1";
    write(connection, statement, execution, context).await
}

pub(crate) async fn of_job(
    connection: &mut PgConnection,
    execution: i64,
) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar(
        "select coalesce(serialized_context, short_context)
         from batch_job_execution_context
         where job_execution_id = $1",
    )
    .bind(execution)
    .fetch_optional(connection)
    .await
}

pub(crate) async fn insert_of_step(
    connection: &mut PgConnection,
    step: i64,
    context: &ContextColumns<'_>,
) -> Result<(), sqlx::Error> {
    let statement =
        "insert into batch_step_execution_context (step_execution_id, short_context, serialized_context)
         values ($1, $2, $3)";
    write(connection, statement, step, context).await
}

pub(crate) async fn of_step(connection: &mut PgConnection, step: i64) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar(
        "select coalesce(serialized_context, short_context)
         from batch_step_execution_context
         where step_execution_id = $1",
    )
    .bind(step)
    .fetch_optional(connection)
    .await
}

/// Runs one of the statements that write a context: of which it is, and its two columns.
async fn write(
    connection: &mut PgConnection,
    statement: &'static str,
    id: i64,
    context: &ContextColumns<'_>,
) -> Result<(), sqlx::Error> {
    sqlx::query(statement).bind(id).bind(&context.short).bind(context.long).execute(connection).await?;
    Ok(())
}
