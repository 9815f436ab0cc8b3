//! One execution: in detail, after this process ran it, and its steps.

use crate::commands::prelude::*;
use crate::config::Output;
use crate::declared::Definitions;
use crate::output::Column;
use crate::report::printable;
use tidemill_api::execution::{ExecutionContexts, ExecutionDetail, ExecutionOwner, steps_to_show};
use tidemill_domain::job::{BatchStatus, ExecutionId, ExitStatus};
use tidemill_domain::time::Timestamp;
use tidemill_engine::EngineError;
use tidemill_engine::job::ExecutionEnd;
use tidemill_server::api::execution;
use tidemill_store::job::StepRecord;
use tidemill_store::{Store, StoreError};

pub(super) async fn show(id: ExecutionId, with_contexts: bool, context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let now = tx.now().await?;
    let (mut report, steps) = execution::report(&mut tx, id).await?;
    if with_contexts {
        report.contexts = Some(execution::contexts(&mut tx, id, &steps).await?);
    }
    match context.output() {
        Output::Json | Output::Jsonl => context.print_one("tidemill.execution_detail/v1", &report),
        Output::Csv => print_steps(&steps, now, context),
        Output::Table => {
            write_stdout(printable(&about(&report.detail)))?;
            print_steps(&steps, now, context)?;
            write_stdout(printable(&rest(&steps, report.contexts.as_ref())))
        }
    }
}

/// The text above the table of steps.
fn about(detail: &ExecutionDetail) -> String {
    let execution = &detail.execution;
    let time = |at: Option<Timestamp>| at.map_or_else(|| "-".to_owned(), |at| at.to_string());
    let launched_by = execution.launched_by.as_deref().unwrap_or("unknown (written by Spring Batch)");
    let mut lines = vec![
        format!("execution {} of job {}, instance {}", execution.id, execution.job, execution.instance),
        format!("  status      {} (exit code {})", execution.status, execution.exit_code),
        format!("  created     {}", execution.created_at),
        format!("  started     {}", time(execution.started_at)),
        format!("  ended       {}", time(execution.ended_at)),
        format!("  launched by {launched_by}"),
    ];
    lines.extend(detail.owner.as_ref().map(|owner| format!("  process     {}", owner_text(owner))));
    if let Some(stop) = &detail.stop_request {
        let reason = stop.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        lines.push(format!("  stop        requested {} by {}{reason}", stop.at, stop.by));
    }
    if execution.crash_restarts > 0 {
        lines.push(format!("  restarts    {} after crashes", execution.crash_restarts));
    }
    if detail.is_restart_due {
        lines.push("  restart     pending; the next process that has the job restarts it".to_owned());
    }
    for parameter in &detail.parameters {
        let identity = if parameter.is_identifying { "" } else { ", not identifying" };
        let (name, value, kind) = (&parameter.name, &parameter.value, &parameter.kind);
        lines.push(format!("  parameter   {name}={value} ({kind}{identity})"));
    }
    if !execution.exit_description.is_empty() {
        lines.push(format!("  message     {}", execution.exit_description));
    }
    format!("{}\n\n", lines.join("\n"))
}

fn owner_text(owner: &ExecutionOwner) -> String {
    let lease = if owner.holds_lease { ", holds the lease" } else { "" };
    match (&owner.name, owner.state) {
        (Some(name), Some(state)) => format!("{} ({name}), {state}{lease}", owner.process),
        _ => format!("{}, ended long ago{lease}", owner.process),
    }
}

/// The text below the table of steps: delivery guarantees, errors and contexts.
fn rest(steps: &[StepRecord], contexts: Option<&ExecutionContexts>) -> String {
    let mut text = String::new();
    for step in steps {
        if let Some(delivery) = step.delivery.as_deref() {
            let meaning =
                if delivery == "at-least-once" { ": a crash can repeat up to one chunk" } else { "" };
            text.push_str(&format!("\nstep {} delivers {delivery}{meaning}\n", step.name));
        }
        if !step.exit.description.is_empty() {
            let (name, code, description) = (&step.name, &step.exit.code, &step.exit.description);
            text.push_str(&format!("\nstep {name} ended {code}: {description}\n"));
        }
    }
    if let Some(contexts) = contexts {
        text.push_str(&format!("\ncontext of the execution: {}\n", contexts.job.to_text()));
        for (name, context) in &contexts.steps {
            text.push_str(&format!("\ncontext of step {name}: {}\n", context.to_text()));
        }
    }
    text
}

pub(super) async fn report(
    id: ExecutionId,
    ended: Result<ExecutionEnd, EngineError>,
    store: &Store,
    definitions: &Definitions,
    context: &Context,
) -> Result<Exit> {
    let restart = format!("{} job restart {id}{}", context.program, definitions.flag);
    let end = ended.map_err(|error| {
        let what = format!("execution {id} was lost: this process could not renew its lease in time");
        let fix = format!(
            "committed chunks are kept; as soon as `tidemill executions {id}` shows the execution as FAILED, \
             resume it with `{restart}`"
        );
        Failure::new(error.code(), what, fix).because(error)
    })?;
    let mut tx = store.read().await?;
    let now = tx.now().await?;
    let (report, steps) = execution::report(&mut tx, id).await?;
    match context.output() {
        Output::Csv | Output::Table => print_steps(&steps, now, context)?,
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
            let place = failed(steps).map(|step| format!(" in step {}", step.name)).unwrap_or_default();
            let what = format!("execution {id} of job {job} failed{place}");
            let code = end.code.unwrap_or(Code::ExecutionFailed);
            let fix = format!("fix the cause, then {resume}");
            let failure = Failure::new(code, what, fix).because(cause(end, steps));
            Err(failure.ending(Exit::ExecutionFailed.number()))
        }
    }
}

pub(super) async fn read_steps(id: ExecutionId, store: &Store) -> Result<Vec<StepRecord>, StoreError> {
    let mut tx = store.read().await?;
    tx.jobs().steps(id).await
}

fn failed(steps: &[StepRecord]) -> Option<&StepRecord> {
    steps.iter().find(|step| step.status.is_unsuccessful())
}

/// Why an execution did not complete: the error of the step that failed first, or its own.
pub(super) fn cause<'a>(end: &'a ExecutionEnd, steps: &'a [StepRecord]) -> &'a str {
    failed(steps).map_or(&end.exit.description, |step| &step.exit.description)
}

/// Prints the steps as a table or as CSV. A table leaves out completed partitions if there are many.
fn print_steps(steps: &[StepRecord], now: Timestamp, context: &Context) -> Result<Exit> {
    let output = context.output();
    let shown = if output == Output::Table { steps_to_show(steps) } else { steps.iter().collect() };
    let shown: Vec<(&StepRecord, Timestamp)> = shown.into_iter().map(|step| (step, now)).collect();
    let columns: &[Column<(&StepRecord, Timestamp)>] = &[
        ("step", |(step, _)| json!(step.name)),
        ("status", |(step, _)| json!(step.status.as_str())),
        ("read", |(step, _)| json!(step.counters.read)),
        ("write", |(step, _)| json!(step.counters.write)),
        ("filter", |(step, _)| json!(step.counters.filter)),
        ("read_skip", |(step, _)| json!(step.counters.read_skip)),
        ("process_skip", |(step, _)| json!(step.counters.process_skip)),
        ("write_skip", |(step, _)| json!(step.counters.write_skip)),
        ("commit", |(step, _)| json!(step.counters.commit)),
        ("rollback", |(step, _)| json!(step.counters.rollback)),
        ("total_items", |(step, _)| json!(step.total_items)),
        ("delivery", |(step, _)| json!(step.delivery)),
        ("seconds", |(step, now)| json!(seconds(step, *now))),
    ];
    let in_table = "step status read write filter? read_skip? process_skip? write_skip? commit? rollback? \
                    total_items?? delivery?? seconds";
    let listing = Listing::of("tidemill.step/v1", "No steps have run.", &shown, columns);
    listing.showing(in_table).print(output)?;
    let left_out = steps.len() - shown.len();
    if left_out > 0 {
        context.note(&format!("{left_out} completed partitions are not shown; -o json shows all"));
    }
    Ok(Exit::Ok)
}

/// The duration of a step, or how long it has been running, to a tenth of a second.
fn seconds(step: &StepRecord, now: Timestamp) -> Option<f64> {
    let end = step.ended_at.or_else(|| step.status.is_running().then_some(now))?;
    let took = end.since(step.started_at?);
    Some((took.as_secs_f64() * 10.0).round() / 10.0)
}
