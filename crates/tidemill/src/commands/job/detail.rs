//! One execution in detail.

use super::step;
use crate::config::Output;
use crate::context::Context;
use crate::output::write_stdout;
use crate::report::{Result, printable};
use tidemill_api::execution::{ExecutionContexts, ExecutionDetail, ExecutionOwner};
use tidemill_domain::code::Exit;
use tidemill_domain::job::ExecutionId;
use tidemill_domain::time::Timestamp;
use tidemill_server::api::execution::{contexts, report};
use tidemill_store::job::StepRecord;

pub(super) async fn show(id: ExecutionId, with_contexts: bool, context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let now = tx.now().await?;
    let (mut report, steps) = report(&mut tx, id).await?;
    if with_contexts {
        report.contexts = Some(contexts(&mut tx, id, &steps).await?);
    }
    match context.output() {
        Output::Json | Output::Jsonl => context.print_one("tidemill.execution_detail/v1", &report),
        Output::Csv => step::print(&steps, now, context),
        Output::Table => {
            write_stdout(printable(&about(&report.detail)))?;
            step::print(&steps, now, context)?;
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
