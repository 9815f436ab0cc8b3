//! Statements on `batch_job_execution_context` and `batch_step_execution_context`. The long column has the whole
//! text when the short one has only its beginning.

use super::ContextColumns;
use crate::statement::statements;

statements! {
    fn job_context_insert_of_job(execution: i64, context: &ContextColumns<'_>) -> () {
        bind(execution, &context.short, context.long)
        "insert into batch_job_execution_context (job_execution_id, short_context, serialized_context)
         values ($1, $2, $3)"
    }

    fn job_context_save_of_job(execution: i64, context: &ContextColumns<'_>) -> () {
        bind(execution, &context.short, context.long)
        "update batch_job_execution_context
         set short_context = $2, serialized_context = $3
         where job_execution_id = $1"
    }

    fn job_context_of_job(execution: i64) -> Option<String> {
        "select coalesce(serialized_context, short_context)
         from batch_job_execution_context
         where job_execution_id = $1"
    }

    fn job_context_insert_of_step(step: i64, context: &ContextColumns<'_>) -> () {
        bind(step, &context.short, context.long)
        "insert into batch_step_execution_context (step_execution_id, short_context, serialized_context)
         values ($1, $2, $3)"
    }

    fn job_context_save_of_step(step: i64, context: &ContextColumns<'_>) -> () {
        bind(step, &context.short, context.long)
        "update batch_step_execution_context
         set short_context = $2, serialized_context = $3
         where step_execution_id = $1"
    }

    fn job_context_of_step(step: i64) -> Option<String> {
        "select coalesce(serialized_context, short_context)
         from batch_step_execution_context
         where step_execution_id = $1"
    }
}
