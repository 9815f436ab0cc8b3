//! Statements on `batch_job_execution_params`.

use crate::row::job::ParameterRow;
use sqlx::PgConnection;

pub(crate) async fn insert(connection: &mut PgConnection, rows: &[ParameterRow]) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into batch_job_execution_params
             (job_execution_id, parameter_name, parameter_type, parameter_value, identifying)
         select *
         from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[])",
    )
    .bind(rows.iter().map(|row| row.job_execution_id).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.parameter_name.as_str()).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.parameter_type.as_str()).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.parameter_value.as_str()).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.identifying.as_str()).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

/// The parameters of all these executions.
pub(crate) async fn of_executions(
    connection: &mut PgConnection,
    executions: &[i64],
) -> Result<Vec<ParameterRow>, sqlx::Error> {
    sqlx::query_as(
        "select job_execution_id, parameter_name, parameter_type,
                coalesce(parameter_value, '') as parameter_value, identifying
         from batch_job_execution_params
         where job_execution_id = any($1)
         order by job_execution_id, parameter_name collate \"C\"",
    )
    .bind(executions)
    .fetch_all(connection)
    .await
}
