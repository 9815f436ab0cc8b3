//! How an execution ended: what was counted, the exit code, and for one that did not complete what helps.

use super::step;
use crate::config::Output;
use crate::context::Context;
use crate::declared::Definitions;
use crate::output::print_object;
use crate::report::Failure;
use serde_json::json;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::job::{BatchStatus, ExecutionId, ExitStatus};
use tidemill_engine::EngineError;
use tidemill_engine::job::{ExecutionEnd, JobError};
use tidemill_store::Store;
use tidemill_store::job::{ExecutionRecord, StepRecord};

pub(super) async fn tell(
    id: ExecutionId,
    ended: Result<ExecutionEnd, EngineError>,
    store: &Store,
    definitions: &Definitions,
    context: &Context,
) -> Result<Exit, Failure> {
    let restart = format!("{} job restart {id}{}", context.program(), definitions.flag());
    let end = ended.map_err(|error| lost(id, &error, &restart))?;
    let mut tx = store.read().await?;
    let found = tx.jobs().execution(id).await?.map(|found| found.execution);
    let steps = tx.jobs().steps(id).await?;
    let execution = found.ok_or(JobError::UnknownExecution(id))?;
    print(&execution, &steps, context)?;
    verdict(&end, &execution.job, &steps, &restart)
}

fn print(execution: &ExecutionRecord, steps: &[StepRecord], context: &Context) -> Result<(), Failure> {
    let output = context.output();
    let printed = match output {
        Output::Csv => step::listing(steps).print(output),
        Output::Table => step::print_for_people(steps, context),
        Output::Json | Output::Jsonl => {
            let object = json!({
                "schema": "tidemill.job_run/v1",
                "execution": execution.id.get(),
                "instance": execution.instance.get(),
                "job": execution.job,
                "status": execution.status.as_str(),
                "exit_code": execution.exit.code,
                "exit_description": execution.exit.description,
                "started_at": execution.started_at.map(|at| at.to_string()),
                "ended_at": execution.ended_at.map(|at| at.to_string()),
                "steps": steps.iter().map(step::object).collect::<Vec<_>>(),
            });
            print_object(&object, output)
        }
    };
    printed?;
    let (id, job, status) = (execution.id, &execution.job, execution.status);
    context.note(&format!("execution {id} of job {job} ended {status}"));
    if execution.exit.code == ExitStatus::NOOP {
        context.note("nothing was left to do; to do it again, use --next or another identifying parameter");
    }
    Ok(())
}

/// The exit code, which follows the status alone; what did not complete is reported with what helps.
fn verdict(end: &ExecutionEnd, job: &str, steps: &[StepRecord], restart: &str) -> Result<Exit, Failure> {
    let id = end.execution;
    let go_on = format!("`{restart}` goes on from the last chunk that committed");
    match end.status {
        BatchStatus::Completed => Ok(Exit::Ok),
        BatchStatus::Stopped => {
            let what = format!("execution {id} of job {job} was stopped before it was done");
            Err(Failure::new(Code::ExecutionStopped, what, go_on))
        }
        BatchStatus::Abandoned => {
            let what = format!("execution {id} of job {job} was abandoned");
            let fix = "launch the job with other identifying parameters to do the work anew";
            Err(Failure::new(Code::ExecutionAbandoned, what, fix))
        }
        BatchStatus::Failed
        | BatchStatus::Unknown
        | BatchStatus::Starting
        | BatchStatus::Started
        | BatchStatus::Stopping => {
            let failed = steps.iter().find(|step| step.status.is_unsuccessful());
            let what = match failed {
                Some(step) => format!("execution {id} of job {job} failed in step {}", step.name),
                None => format!("execution {id} of job {job} failed"),
            };
            let why = failed.map_or(&end.exit.description, |step| &step.exit.description);
            let code = end.code.unwrap_or(Code::ExecutionFailed);
            let fix = format!("mend the cause; then {go_on}");
            Err(Failure::new(code, what, fix).because(why).ending(Exit::ExecutionFailed))
        }
    }
}

/// This process lost the right to act for the execution while it ran.
fn lost(id: ExecutionId, error: &EngineError, restart: &str) -> Failure {
    let fix = format!(
        "what has committed stands; `{restart}` goes on from there as soon as the execution counts as failed, \
         which `tidemill executions {id}` shows"
    );
    let what = format!("execution {id} was lost: this process could not renew its lease in time");
    Failure::new(error.code(), what, fix).because(&error.to_string())
}
