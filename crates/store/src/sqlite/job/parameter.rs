//! Statements on `batch_job_execution_params`.

use crate::row::job::ParameterRow;
use sqlx::SqliteConnection;

pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    rows: &[ParameterRow],
) -> Result<(), sqlx::Error> {
    for row in rows {
        sqlx::query(
            "insert into batch_job_execution_params
                 (job_execution_id, parameter_name, parameter_type, parameter_value, identifying)
             values ($1, $2, $3, $4, $5)",
        )
        .bind(row.job_execution_id)
        .bind(&row.parameter_name)
        .bind(&row.parameter_type)
        .bind(&row.parameter_value)
        .bind(&row.identifying)
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

/// The parameters of all these executions. A list cannot be bound, so they travel as the text of one.
pub(crate) async fn of_executions(
    connection: &mut SqliteConnection,
    executions: &[i64],
) -> Result<Vec<ParameterRow>, sqlx::Error> {
    sqlx::query_as(
        "select job_execution_id as job_execution_id, parameter_name as parameter_name,
                parameter_type as parameter_type,
                coalesce(parameter_value, '') as parameter_value, identifying as identifying
         from batch_job_execution_params
         where job_execution_id in (select value from json_each($1))
         order by job_execution_id, parameter_name",
    )
    .bind(list(executions))
    .fetch_all(connection)
    .await
}

/// Numbers as the text of a list, for `json_each`.
pub(super) fn list(numbers: &[i64]) -> String {
    let texts: Vec<String> = numbers.iter().map(i64::to_string).collect();
    format!("[{}]", texts.join(","))
}
