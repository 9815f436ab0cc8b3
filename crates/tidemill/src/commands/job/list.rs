//! `job list`, `job show` and the list of executions.

use super::Executions;
use crate::commands::prelude::*;
use crate::config::Output;
use crate::output::Column;
use tidemill_api::execution::Execution;
use tidemill_api::job::{Job, JobDetail, JobInstance, on_crash_text};
use tidemill_server::api::job::{detail, with_registered};
use tidemill_store::job::ExecutionFilter;

pub(super) async fn jobs(limit: u32, context: &Context) -> Result<Exit> {
    context.warn_of_invalid_files();
    let mut tx = context.read().await?;
    let all = with_registered(tx.jobs().list(limit + 1).await?, &context.definitions.jobs);
    let empty =
        "No jobs. Register one with `App::new().job(…)`, or pass a folder of job files with `--jobs DIR`.";
    let columns = "name is_registered? instances? last.execution last.status last.created_at";
    context.print_page::<Job, _>("tidemill.job/v1", empty, all, columns, limit, "")
}

pub(super) async fn one(name: &str, limit: u32, context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let job = detail(&mut tx, name, &context.definitions.jobs).await?;
    let instances = tx.jobs().instances(name, None, limit + 1).await?;
    let mut instances: Vec<JobInstance> = instances.iter().map(JobInstance::from).collect();
    let mut listing = instance_listing(&instances);
    let rest = listing.cut(limit, "");
    instances.truncate(limit as usize);
    match context.output() {
        Output::Json | Output::Jsonl => {
            let mut object = json!(job);
            object["instances"] = json!(instances);
            context.print_one("tidemill.job_detail/v1", &object)
        }
        output => {
            if output == Output::Table {
                write_stdout(about(&job))?;
            }
            listing.print(output)?;
            rest.into_iter().for_each(|rest| context.note(&rest));
            Ok(Exit::Ok)
        }
    }
}

pub(super) async fn executions(arguments: Executions, context: &Context) -> Result<Exit> {
    let filter =
        ExecutionFilter { job: arguments.job, status: arguments.status, instance: arguments.instance };
    let mut tx = context.read().await?;
    let executions = tx.jobs().executions(&filter, arguments.before, arguments.limit + 1).await?;
    let columns = "id job instance? status exit_code? created_at ended_at launched_by?";
    let (schema, empty) = ("tidemill.execution/v1", "No executions.");
    context.print_page::<Execution, _>(schema, empty, &executions, columns, arguments.limit, "--before")
}

fn about(job: &JobDetail) -> String {
    let name = &job.name;
    let Some(definition) = &job.definition else { return format!("job {name} (not in this program)\n\n") };
    let on_crash = on_crash_text(definition.crash_restarts_max);
    let mut text = format!("job {name}\n  after a crash: {on_crash}\n");
    if !definition.is_restartable {
        text.push_str("  runs once per instance, without restarts\n");
    }
    for step in &definition.steps {
        text.push_str(&format!("  step {} ({})\n", step.name, step.kind));
    }
    for parameter in &definition.parameters {
        let need = if parameter.is_required { "required" } else { "optional" };
        let identity = if parameter.is_identifying { "identifying" } else { "not identifying" };
        text.push_str(&format!("  parameter {} ({}, {need}, {identity})\n", parameter.name, parameter.kind));
    }
    text.push('\n');
    text
}

fn instance_listing(instances: &[JobInstance]) -> Listing {
    let columns: &[Column<JobInstance>] = &[
        ("id", |instance| json!(instance.id)),
        ("parameters", |instance| json!(identity(instance))),
        ("executions", |instance| json!(instance.executions)),
        ("last_execution", |instance| json!(instance.last.as_ref().map(|last| last.execution))),
        ("last_status", |instance| json!(instance.last.as_ref().map(|last| last.status))),
        ("last_created_at", |instance| json!(instance.last.as_ref().map(|last| last.created_at))),
    ];
    Listing::of("tidemill.instance/v1", "No instances.", instances, columns)
}

fn identity(instance: &JobInstance) -> String {
    let identifying = instance.parameters.iter().filter(|parameter| parameter.is_identifying);
    let parts = identifying.map(|parameter| format!("{}={}", parameter.name, parameter.value));
    parts.collect::<Vec<_>>().join(" ")
}
