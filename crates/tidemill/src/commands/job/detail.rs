//! All about one execution.

use super::{list, step};
use crate::config::Output;
use crate::context::Context;
use crate::output::{print_object, write_stdout};
use crate::report::{Failure, printable};
use serde_json::{Map, Value, json};
use tidemill_domain::code::Exit;
use tidemill_domain::job::ExecutionId;
use tidemill_domain::time::Timestamp;
use tidemill_engine::job::JobError;
use tidemill_store::job::{ExecutionDetail, Owner, StepRecord, StoredContext};
use tidemill_store::{StoreError, Tx};

/// What the execution and its steps remember.
struct Contexts {
    job: Value,
    steps: Vec<(String, Value)>,
}

pub(super) async fn show(id: ExecutionId, with_contexts: bool, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let now = tx.now().await?;
    let found = tx.jobs().execution(id).await?;
    let steps = tx.jobs().steps(id).await?;
    let contexts = if with_contexts { Some(contexts(id, &steps, &mut tx).await?) } else { None };
    let detail = found.ok_or(JobError::UnknownExecution(id))?;
    match context.output() {
        output @ (Output::Json | Output::Jsonl) => {
            print_object(&object(&detail, &steps, contexts.as_ref(), now), output)
        }
        Output::Csv => step::listing(&steps).print(Output::Csv),
        Output::Table => {
            write_stdout(printable(&about(&detail, now)))?;
            step::print_for_people(&steps, context)?;
            write_stdout(printable(&rest(&steps, contexts.as_ref())))
        }
    }
}

async fn contexts(id: ExecutionId, steps: &[StepRecord], tx: &mut Tx) -> Result<Contexts, StoreError> {
    let job = value(tx.jobs().job_context(id).await?);
    let mut of_steps = Vec::with_capacity(steps.len());
    for step in steps {
        of_steps.push((step.name.clone(), value(tx.jobs().step_context(step.id).await?)));
    }
    Ok(Contexts { job, steps: of_steps })
}

/// A context as JSON; one of another make as the text that it is.
fn value(context: Option<StoredContext>) -> Value {
    match context {
        None => Value::Null,
        Some(StoredContext::Foreign(text)) => Value::String(text),
        Some(StoredContext::Ours(context)) => {
            let values = context.iter().map(|(key, value)| (key.to_owned(), value.clone()));
            Value::Object(values.collect::<Map<_, _>>())
        }
    }
}

fn object(
    detail: &ExecutionDetail,
    steps: &[StepRecord],
    contexts: Option<&Contexts>,
    now: Timestamp,
) -> Value {
    let execution = &detail.execution;
    let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
    let mut object = json!({
        "schema": "tidemill.execution_detail/v1",
        "execution": execution.id.get(),
        "instance": execution.instance.get(),
        "job": execution.job,
        "status": execution.status.as_str(),
        "exit_code": execution.exit.code,
        "exit_description": execution.exit.description,
        "created_at": execution.created_at.to_string(),
        "started_at": time(execution.started_at),
        "ended_at": time(execution.ended_at),
        "launched_by": execution.launched_by,
        "is_foreign": execution.is_foreign,
        "crash_restarts": execution.crash_restarts,
        "on_crash": detail.on_crash.map(|on_crash| on_crash.as_str()),
        "is_restart_due": detail.is_restart_due,
        "owner": detail.owner.as_ref().map(|owner| json!({
            "process": owner.id.to_string(),
            "name": owner.process.as_ref().map(|process| &process.identity.name),
            "state": owner.process.as_ref().map(|process| process.state.word(now)),
            "holds_lease": owner.holds_lease,
        })),
        "stop_request": detail.stop.as_ref().map(|stop| json!({
            "at": stop.at.to_string(),
            "by": stop.by,
            "reason": stop.reason,
        })),
        "parameters": detail.parameters.iter().map(list::parameter).collect::<Vec<_>>(),
        "steps": steps.iter().map(step::object).collect::<Vec<_>>(),
    });
    if let Some(contexts) = contexts {
        let of_steps = contexts.steps.iter().map(|(name, value)| (name.clone(), value.clone()));
        object["contexts"] = json!({ "job": contexts.job, "steps": Value::Object(of_steps.collect()) });
    }
    object
}

/// What stands above the steps.
fn about(detail: &ExecutionDetail, now: Timestamp) -> String {
    let execution = &detail.execution;
    let time = |at: Option<Timestamp>| at.map_or_else(|| "-".to_owned(), |at| at.to_string());
    let mut lines = vec![
        format!("execution {} of job {}, instance {}", execution.id, execution.job, execution.instance),
        format!("  status      {} (exit code {})", execution.status, execution.exit.code),
        format!("  created     {}", execution.created_at),
        format!("  started     {}", time(execution.started_at)),
        format!("  ended       {}", time(execution.ended_at)),
        format!(
            "  launched by {}",
            execution.launched_by.as_deref().unwrap_or("nobody knows: Spring Batch has written it")
        ),
    ];
    lines.extend(detail.owner.as_ref().map(|owner| format!("  process     {}", owner_words(owner, now))));
    if let Some(stop) = &detail.stop {
        let reason = stop.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        lines.push(format!("  stop wanted {} by {}{reason}", stop.at, stop.by));
    }
    if execution.crash_restarts > 0 {
        lines.push(format!("  restarted   {} times after a crash", execution.crash_restarts));
    }
    if detail.is_restart_due {
        lines.push("  restart     due, by the next process that has the job".to_owned());
    }
    for parameter in &detail.parameters {
        let identity = if parameter.is_identifying { "" } else { ", not identifying" };
        let kind = list::type_word(parameter);
        lines.push(format!("  parameter   {}={} ({kind}{identity})", parameter.name, parameter.value));
    }
    if !execution.exit.description.is_empty() {
        lines.push(format!("  said        {}", execution.exit.description));
    }
    format!("{}\n\n", lines.join("\n"))
}

fn owner_words(owner: &Owner, now: Timestamp) -> String {
    let lease = if owner.holds_lease { ", holds the lease" } else { "" };
    match &owner.process {
        Some(process) => {
            format!("{} ({}), {}{lease}", owner.id, process.identity.name, process.state.word(now))
        }
        None => format!("{}, ended long ago{lease}", owner.id),
    }
}

/// What stands below the steps: promises, reasons, and what is remembered.
fn rest(steps: &[StepRecord], contexts: Option<&Contexts>) -> String {
    let mut text = String::new();
    for step in steps {
        if let Some(delivery) = step.delivery.as_deref() {
            let meaning =
                if delivery == "at-least-once" { ": up to one chunk may repeat after a crash" } else { "" };
            text.push_str(&format!("\nstep {} delivers {delivery}{meaning}\n", step.name));
        }
        if !step.exit.description.is_empty() {
            text.push_str(&format!(
                "\nstep {} ended {}: {}\n",
                step.name, step.exit.code, step.exit.description
            ));
        }
    }
    if let Some(contexts) = contexts {
        text.push_str(&format!("\nthe execution remembers {:#}\n", contexts.job));
        for (name, value) in &contexts.steps {
            text.push_str(&format!("\nstep {name} remembers {value:#}\n"));
        }
    }
    text
}
