//! Statements on `batch_job_execution_params`.

use crate::row::job::ParameterRow;
use crate::statement::{column, list, statements};

statements! {
    fn job_parameter_insert(rows: &[ParameterRow]) -> () {
        postgres {
            bind(
                column(rows, |row| row.job_execution_id), column(rows, |row| row.parameter_name.as_str()),
                column(rows, |row| row.parameter_type.as_str()),
                column(rows, |row| row.parameter_value.as_str()),
                column(rows, |row| row.identifying.as_str()),
            )
            "insert into batch_job_execution_params
                 (job_execution_id, parameter_name, parameter_type, parameter_value, identifying)
             select *
             from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[])"
        }
        sqlite {
            for row in rows
            bind(
                row.job_execution_id, &row.parameter_name, &row.parameter_type, &row.parameter_value,
                &row.identifying,
            )
            "insert into batch_job_execution_params
                 (job_execution_id, parameter_name, parameter_type, parameter_value, identifying)
             values ($1, $2, $3, $4, $5)"
        }
    }

    /// The parameters of all these executions.
    fn job_parameter_of_executions(executions: &[i64]) -> Vec<ParameterRow> {
        bind(list(executions))
        "select job_execution_id as job_execution_id, parameter_name as parameter_name,
                parameter_type as parameter_type, coalesce(parameter_value, '') as parameter_value,
                identifying as identifying
         from batch_job_execution_params
         where job_execution_id {in $1}
         order by job_execution_id, parameter_name {collate C}"
    }
}
