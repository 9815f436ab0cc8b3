//! The end of an execution that this process ran: its steps, the exit code, and how to resume it.

use super::step;
use crate::config::Output;
use crate::context::Context;
use crate::declared::Definitions;
use crate::report::{Failure, Result};
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::job::{BatchStatus, ExecutionId, ExitStatus};
use tidemill_engine::EngineError;
use tidemill_engine::job::ExecutionEnd;
use tidemill_server::api::execution;
use tidemill_store::Store;
use tidemill_store::job::StepRecord;

pub(super) async fn report(
    id: ExecutionId,
    ended: Result<ExecutionEnd, EngineError>,
    store: &Store,
    definitions: &Definitions,
    context: &Context,
) -> Result<Exit> {
    let restart = format!("{} job restart {id}{}", context.program(), definitions.flag());
    let end = ended.map_err(|error| lost(id, &error, &restart))?;
    let mut tx = store.read().await?;
    let now = tx.now().await?;
    let (report, steps) = execution::report(&mut tx, id).await?;
    match context.output() {
        Output::Csv | Output::Table => step::print(&steps, now, context)?,
        Output::Json | Output::Jsonl => context.print_one("tidemill.job_run/v1", &report)?,
    };
    let (job, status) = (&report.detail.execution.job, report.detail.execution.status);
    context.note(&format!("execution {id} of job {job} ended {status}"));
    if report.detail.execution.exit_code == ExitStatus::NOOP {
        let why = &report.detail.execution.exit_description;
        let again = "run it as a new instance with --next, or change an identifying parameter";
        context.note(&format!("{why}; {again}"));
    }
    verdict(&end, job, &steps, &restart)
}

/// The exit code, which depends on the status alone.
fn verdict(end: &ExecutionEnd, job: &str, steps: &[StepRecord], restart: &str) -> Result<Exit> {
    let id = end.execution;
    let resume = format!("resume after the last committed chunk with `{restart}`");
    match end.status {
        BatchStatus::Completed => Ok(Exit::Ok),
        BatchStatus::Stopped => {
            let what = format!("execution {id} of job {job} was stopped before it completed");
            Err(Failure::new(Code::ExecutionStopped, what, resume))
        }
        BatchStatus::Abandoned => {
            let what = format!("execution {id} of job {job} was abandoned");
            let fix = "launch the job with other identifying parameters to start again";
            Err(Failure::new(Code::ExecutionAbandoned, what, fix))
        }
        BatchStatus::Failed
        | BatchStatus::Unknown
        | BatchStatus::Starting
        | BatchStatus::Started
        | BatchStatus::Stopping => {
            let place = step::failed(steps).map(|step| format!(" in step {}", step.name)).unwrap_or_default();
            let what = format!("execution {id} of job {job} failed{place}");
            let code = end.code.unwrap_or(Code::ExecutionFailed);
            let fix = format!("fix the cause, then {resume}");
            let failure = Failure::new(code, what, fix).because(step::cause(end, steps));
            Err(failure.ending(Exit::ExecutionFailed))
        }
    }
}

/// This process lost the lease of the execution while it ran.
fn lost(id: ExecutionId, error: &EngineError, restart: &str) -> Failure {
    let fix = format!(
        "committed chunks are kept; as soon as `tidemill executions {id}` shows the execution as FAILED, \
         resume it with `{restart}`"
    );
    let what = format!("execution {id} was lost: this process could not renew its lease in time");
    Failure::new(error.code(), what, fix).because(&error.to_string())
}
