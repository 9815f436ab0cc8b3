//! Statements on `batch_job_execution_params`.

use crate::job::record::ParameterRow;
use crate::statement::{column, list, statements};
use tidemill_domain::job::JobParameter;

fn identifying(parameter: &JobParameter) -> &'static str {
    if parameter.is_identifying { "Y" } else { "N" }
}

statements! {
    fn job_parameter_insert(execution: i64, parameters: &[(&str, &JobParameter)]) -> () {
        postgres {
            bind(
                execution, column(parameters, |(name, _)| *name),
                column(parameters, |(_, parameter)| parameter.value.java_class()),
                column(parameters, |(_, parameter)| parameter.value.stored_text()),
                column(parameters, |(_, parameter)| identifying(parameter)),
            )
            "insert into batch_job_execution_params
                 (job_execution_id, parameter_name, parameter_type, parameter_value, identifying)
             select $1, new.name, new.type, new.value, new.identifying
             from unnest($2::text[], $3::text[], $4::text[], $5::text[]) as new (name, type, value, identifying)"
        }
        sqlite {
            for (name, parameter) in parameters
            bind(
                execution, name, parameter.value.java_class(), parameter.value.stored_text(),
                identifying(parameter),
            )
            "insert into batch_job_execution_params
                 (job_execution_id, parameter_name, parameter_type, parameter_value, identifying)
             values ($1, $2, $3, $4, $5)"
        }
    }

    fn job_parameter_of_executions(executions: &[i64]) -> Vec<ParameterRow> {
        bind(list(executions))
        "select job_execution_id as job_execution_id, parameter_name as parameter_name,
                parameter_type as parameter_type, coalesce(parameter_value, '') as parameter_value,
                identifying as identifying
         from batch_job_execution_params where job_execution_id {in $1}
         order by job_execution_id, parameter_name {collate C}"
    }
}
