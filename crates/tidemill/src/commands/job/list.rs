//! `job list`, `job show` and the list of executions.

use super::Executions;
use crate::config::Output;
use crate::context::Context;
use crate::output::{Listing, print_object, write_stdout};
use crate::report::Failure;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tidemill_domain::code::Exit;
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::parameter::ParameterType;
use tidemill_engine::job::Job;
use tidemill_store::job::{ExecutionFilter, InstanceRecord, JobRecord, LastExecution, ParameterRecord};

/// The jobs of this program, and those that the database knows.
pub(super) async fn jobs(limit: u32, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let known = tx.jobs().list(limit).await?;
    let mut all: BTreeMap<String, Option<JobRecord>> =
        context.jobs().names().into_iter().map(|name| (name, None)).collect();
    all.extend(known.into_iter().map(|job| (job.name.clone(), Some(job))));
    let columns = &["job", "registered", "instances", "last_execution", "last_status", "last_at"];
    let mut listing = Listing::new(
        "tidemill.job/v1",
        columns,
        "This program has no jobs, and none has run on this database: `App::new().job(…)` registers one, \
         `--jobs DIR` names a folder of job files.",
    );
    for (name, record) in all.into_iter().take(limit as usize) {
        let mut row = vec![json!(name), json!(context.jobs().get(&name).is_ok())];
        row.push(json!(record.as_ref().map_or(0, |record| record.instances)));
        row.extend(last(record.and_then(|record| record.last)));
        listing.push(row);
    }
    listing.print(context.output())
}

/// One job, as this program defines it and as the database knows it.
pub(super) async fn one(name: &str, limit: u32, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let instances = tx.jobs().instances(name, None, limit).await?;
    let job = match context.jobs().get(name) {
        Ok(job) => Some(job),
        Err(unknown) if instances.is_empty() => return Err(unknown.into()),
        Err(_) => None,
    };
    match context.output() {
        Output::Json | Output::Jsonl => {
            let object = json!({
                "schema": "tidemill.job_detail/v1",
                "job": name,
                "definition": job.map(definition),
                "instances": instances.iter().map(instance).collect::<Vec<_>>(),
            });
            print_object(&object, context.output())
        }
        output @ (Output::Table | Output::Csv) => {
            if output == Output::Table {
                write_stdout(about(name, job))?;
            }
            instance_listing(&instances).print(output)
        }
    }
}

pub(super) async fn executions(arguments: Executions, context: &Context) -> Result<Exit, Failure> {
    let filter =
        ExecutionFilter { job: arguments.job, status: arguments.status, instance: arguments.instance };
    let mut tx = context.read().await?;
    let executions = tx.jobs().executions(&filter, arguments.before, arguments.limit).await?;
    context.list("tidemill.execution/v1", "There is no such execution.", &executions).columns(&[
        ("execution", |execution| json!(execution.id.get())),
        ("job", |execution| json!(execution.job)),
        ("instance", |execution| json!(execution.instance.get())),
        ("status", |execution| json!(execution.status.as_str())),
        ("exit_code", |execution| json!(execution.exit.code)),
        ("created_at", |execution| json!(execution.created_at.to_string())),
        ("ended_at", |execution| json!(execution.ended_at.map(|at| at.to_string()))),
        ("launched_by", |execution| json!(execution.launched_by)),
    ])
}

fn last(last: Option<LastExecution>) -> [Value; 3] {
    [
        json!(last.map(|last| last.id.get())),
        json!(last.map(|last| last.status.as_str())),
        json!(last.map(|last| last.created_at.to_string())),
    ]
}

/// What this program says about a job, for people.
fn about(name: &str, job: Option<&Job>) -> String {
    let Some(job) = job else { return format!("job {name} is not one of this program's\n\n") };
    let mut text = format!("job {name}\n  after a crash: {}\n", crash_words(job.crash_policy()));
    if !job.is_restartable() {
        text.push_str("  runs once per instance, without restarts\n");
    }
    for step in job.steps() {
        text.push_str(&format!("  step {} ({})\n", step.name(), step.type_word()));
    }
    for parameter in job.parameters() {
        let need = if parameter.is_required { "required" } else { "optional" };
        let identity = if parameter.is_identifying { "identifying" } else { "not identifying" };
        text.push_str(&format!(
            "  parameter {} ({}, {need}, {identity})\n",
            parameter.name,
            parameter.kind.as_str()
        ));
    }
    text.push('\n');
    text
}

pub(super) fn crash_words(on_crash: OnCrash) -> String {
    match on_crash {
        OnCrash::Fail => "fails, and an operator decides".to_owned(),
        OnCrash::Restart { limit } => format!("is restarted by itself, {limit} times at most"),
    }
}

/// What this program says about a job, for programs.
fn definition(job: &Job) -> Value {
    json!({
        "is_restartable": job.is_restartable(),
        "on_crash": job.crash_policy().as_str(),
        "crash_restarts_max": job.crash_policy().limit(),
        "steps": job.steps().iter().map(|step| json!({ "name": step.name(), "type": step.type_word() })).collect::<Vec<_>>(),
        "parameters": job.parameters().iter().map(|parameter| json!({
            "name": parameter.name,
            "type": parameter.kind.as_str(),
            "is_required": parameter.is_required,
            "is_identifying": parameter.is_identifying,
        })).collect::<Vec<_>>(),
    })
}

fn instance_listing(instances: &[InstanceRecord]) -> Listing {
    Listing::of("tidemill.instance/v1", "It has not been launched yet.", instances).columns(&[
        ("instance", |instance| json!(instance.id.get())),
        ("parameters", |instance| json!(words(&instance.parameters))),
        ("executions", |instance| json!(instance.executions)),
        ("last_execution", |instance| json!(instance.last.map(|last| last.id.get()))),
        ("last_status", |instance| json!(instance.last.map(|last| last.status.as_str()))),
        ("last_at", |instance| json!(instance.last.map(|last| last.created_at.to_string()))),
    ])
}

fn instance(record: &InstanceRecord) -> Value {
    json!({
        "instance": record.id.get(),
        "key": record.key,
        "executions": record.executions,
        "last_execution": record.last.map(|last| last.id.get()),
        "last_status": record.last.map(|last| last.status.as_str()),
        "last_at": record.last.map(|last| last.created_at.to_string()),
        "parameters": record.parameters.iter().map(parameter).collect::<Vec<_>>(),
    })
}

pub(super) fn parameter(parameter: &ParameterRecord) -> Value {
    json!({
        "name": parameter.name,
        "value": parameter.value,
        "type": type_word(parameter),
        "is_identifying": parameter.is_identifying,
    })
}

/// Our word for the type; that of Java for a type that only Java knows.
pub(super) fn type_word(parameter: &ParameterRecord) -> String {
    let ours = parameter.class.parse::<ParameterType>();
    ours.map_or_else(|_| parameter.class.clone(), |kind| kind.as_str().to_owned())
}

/// The identifying parameters on one line.
fn words(parameters: &[ParameterRecord]) -> String {
    let identifying = parameters.iter().filter(|parameter| parameter.is_identifying);
    identifying
        .map(|parameter| format!("{}={}", parameter.name, parameter.value))
        .collect::<Vec<_>>()
        .join(" ")
}
