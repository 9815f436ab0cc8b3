//! Jobs: those that this server can launch, and those that the database knows.

pub mod launch;

use crate::api::{Answer, List, QueryString, Read, id, limit};
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Given};
use std::collections::BTreeMap;
use tidemill_api::Page;
use tidemill_api::job::{
    Job, JobDefinition, JobDetail, JobInstance, LastExecution, ListInstances, ListJobs, ParameterDefinition,
    StepDefinition,
};
use tidemill_domain::job::{InstanceId, check_name};
use tidemill_engine::job::{self as engine, JobError, JobRegistry};
use tidemill_store::Tx;
use tidemill_store::job::{ExecutionFilter, JobRecord};

/// List the jobs that this server can launch or that have run.
#[utoipa::path(get, path = "/api/v1/jobs", operation_id = "list_jobs", params(ListJobs), responses((status = 200, body = Page<Job>)))]
pub(crate) async fn list(
    Given(state): Given<State>,
    QueryString(query): QueryString<ListJobs>,
    Read(mut tx): Read,
) -> List<Job> {
    let limit = limit(query.limit)?;
    let records = tx.jobs().list(limit).await?;
    let all = with_registered(records, &state.launcher().jobs());
    Ok(Json(Page::whole(all.into_iter().take(limit as usize))))
}

/// Show a job.
#[utoipa::path(get, path = "/api/v1/jobs/{name}", operation_id = "get_job", params(("name" = String, Path, description = "Name of the job")), responses((status = 200, body = JobDetail)))]
pub(crate) async fn show(
    Given(state): Given<State>,
    Path(name): Path<String>,
    Read(mut tx): Read,
) -> Answer<JobDetail> {
    Ok(Json(detail(&mut tx, checked(&name)?, &state.launcher().jobs()).await?))
}

/// List the instances of a job, the newest first.
#[utoipa::path(get, path = "/api/v1/jobs/{name}/instances", operation_id = "list_job_instances", params(("name" = String, Path, description = "Name of the job"), ListInstances), responses((status = 200, body = Page<JobInstance>)))]
pub(crate) async fn instances(
    Given(state): Given<State>,
    Path(name): Path<String>,
    QueryString(query): QueryString<ListInstances>,
    Read(mut tx): Read,
) -> List<JobInstance> {
    let name = checked(&name)?;
    let limit = limit(query.limit)?;
    let before = query.before.map(|before| id(&before.to_string())).transpose()?.map(InstanceId::new);
    let records = tx.jobs().instances(name, before, limit + 1).await?;
    if records.is_empty() && before.is_none() {
        state.launcher().jobs().get(name)?;
    }
    Ok(Json(Page::of(&records, limit, |record| record.id.get())))
}

/// The jobs of the database and those of this program, by name; true for jobs that this program can launch.
pub fn with_registered(records: Vec<JobRecord>, jobs: &JobRegistry) -> Vec<(JobRecord, bool)> {
    let never_ran = |name: String| (name.clone(), JobRecord { name, instances: 0, last: None });
    let mut all: BTreeMap<String, JobRecord> = jobs.names().into_iter().map(never_ran).collect();
    all.extend(records.into_iter().map(|job| (job.name.clone(), job)));
    all.into_values()
        .map(|job| (jobs.get(&job.name).is_ok(), job))
        .map(|(is_ours, job)| (job, is_ours))
        .collect()
}

/// Jobs that are read to suggest one of them.
const KNOWN_MAX: u32 = 500;

/// A job that this program can launch or that has run. The error suggests such a job.
#[crate::boxed]
pub async fn detail(tx: &mut Tx, name: &str, jobs: &JobRegistry) -> Result<JobDetail, JobError> {
    let of_job = ExecutionFilter { job: Some(name.to_owned()), ..ExecutionFilter::default() };
    let last = tx.jobs().executions(&of_job, None, 1).await?.into_iter().next();
    let definition = match jobs.get(name) {
        Ok(job) => Some(definition(job)),
        Err(JobError::UnknownJob { name, mut known }) if last.is_none() => {
            known.extend(tx.jobs().list(KNOWN_MAX).await?.into_iter().map(|job| job.name));
            return Err(JobError::UnknownJob { name, known });
        }
        Err(_) => None,
    };
    let last = last.map(|last| LastExecution {
        execution: last.id.get(),
        status: last.status.as_str(),
        created_at: last.created_at,
    });
    Ok(JobDetail { name: name.to_owned(), last, definition })
}

fn definition(job: &engine::Job) -> JobDefinition {
    let step = |step: &engine::Step| StepDefinition { name: step.name().to_owned(), kind: step.type_word() };
    JobDefinition {
        is_restartable: job.is_restartable(),
        on_crash: job.crash_policy().as_str(),
        crash_restarts_max: job.crash_policy().limit(),
        steps: job.steps().into_iter().map(step).collect(),
        parameters: job.parameters().iter().map(ParameterDefinition::from).collect(),
    }
}

/// Refuses what cannot be the name of a job or schedule, before the database is asked for it.
pub(super) fn checked(name: &str) -> Result<&str, Problem> {
    match check_name(name) {
        Ok(()) => Ok(name),
        Err(bad) => Err(Problem::bad_request(bad.to_string(), "use a name that the list shows")),
    }
}
