//! Jobs: what this server can launch, and what the database knows.

pub mod launch;

use crate::api::execution::Parameter;
use crate::api::{QueryString, id, limit, page_of};
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Given};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tidemill_domain::job::{InstanceId, check_name};
use tidemill_engine::job::{Job as Defined, JobError};
use tidemill_store::job::{ExecutionFilter, InstanceRecord, JobRecord, LastExecution};
use utoipa::{IntoParams, ToSchema};

/// What to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListJobs {
    /// At most so many; 50 when not given, 500 at most.
    limit: Option<u32>,
}

/// Which page of the instances to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListInstances {
    /// At most so many; 50 when not given, 500 at most.
    limit: Option<u32>,
    /// Only instances older than this one: the last id of the page before.
    before: Option<i64>,
}

/// A job.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Job {
    /// Its name.
    name: String,
    /// Whether this server can launch it.
    is_registered: bool,
    /// How many sets of identifying parameters it was launched with; counted up to 1000.
    instances: u64,
    /// Its last execution.
    last: Option<Last>,
}

/// A list of jobs.
#[derive(Debug, Serialize, ToSchema)]
pub struct Jobs {
    /// By name.
    items: Vec<Job>,
}

/// The last execution of a job or instance.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Last {
    /// Its id.
    execution: i64,
    /// Its status.
    status: String,
    /// When it was made.
    created_at: String,
}

/// A job with what this server knows of its making.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobDetail {
    /// Its name.
    name: String,
    /// Its last execution.
    last: Option<Last>,
    /// How it is made; none when this server cannot launch it.
    definition: Option<Definition>,
}

/// How a job is made.
#[derive(Debug, Serialize, ToSchema)]
pub struct Definition {
    /// Whether an instance that did not complete can be launched again.
    is_restartable: bool,
    /// What is done when the process that runs it dies: `fail` or `restart`.
    on_crash: String,
    /// How often it is restarted by itself in one instance.
    crash_restarts_max: u32,
    /// Its steps, in order.
    steps: Vec<DefinedStep>,
    /// The parameters that it asks for; any are accepted when there are none.
    parameters: Vec<DefinedParameter>,
}

/// A step of a job.
#[derive(Debug, Serialize, ToSchema)]
pub struct DefinedStep {
    /// Its name.
    name: String,
    /// `chunk` or `tasklet`.
    #[serde(rename = "type")]
    kind: String,
}

/// A parameter that a job asks for.
#[derive(Debug, Serialize, ToSchema)]
pub struct DefinedParameter {
    /// Its name.
    name: String,
    /// `string`, `long`, `double`, `date`, `time` or `datetime`.
    #[serde(rename = "type")]
    kind: String,
    /// Whether the job cannot run without it.
    is_required: bool,
    /// Whether it tells one instance from another.
    is_identifying: bool,
}

/// A job with one set of identifying parameters.
#[derive(Debug, Serialize, ToSchema)]
pub struct Instance {
    /// Its id.
    id: i64,
    /// Name of the job.
    job: String,
    /// The hash of its identifying parameters.
    key: String,
    /// How many executions it has; counted up to 1000.
    executions: u64,
    /// The last of them.
    last: Option<Last>,
    /// The parameters of that one.
    parameters: Vec<Parameter>,
}

/// A page of instances.
#[derive(Debug, Serialize, ToSchema)]
pub struct Instances {
    /// The newest first.
    items: Vec<Instance>,
    /// Ask with `before` this for the next page; none when this was the last.
    next: Option<i64>,
}

impl From<LastExecution> for Last {
    fn from(last: LastExecution) -> Self {
        Self {
            execution: last.id.get(),
            status: last.status.as_str().to_owned(),
            created_at: last.created_at.to_string(),
        }
    }
}

impl From<InstanceRecord> for Instance {
    fn from(record: InstanceRecord) -> Self {
        Self {
            id: record.id.get(),
            job: record.job,
            key: record.key,
            executions: record.executions,
            last: record.last.map(Last::from),
            parameters: record.parameters.into_iter().map(Parameter::from).collect(),
        }
    }
}

impl From<&Defined> for Definition {
    fn from(job: &Defined) -> Self {
        let steps = job.steps().into_iter();
        let parameters = job.parameters().iter();
        Self {
            is_restartable: job.is_restartable(),
            on_crash: job.crash_policy().as_str().to_owned(),
            crash_restarts_max: job.crash_policy().limit(),
            steps: steps
                .map(|step| DefinedStep { name: step.name().to_owned(), kind: step.type_word().to_owned() })
                .collect(),
            parameters: parameters
                .map(|parameter| DefinedParameter {
                    name: parameter.name.clone(),
                    kind: parameter.kind.as_str().to_owned(),
                    is_required: parameter.is_required,
                    is_identifying: parameter.is_identifying,
                })
                .collect(),
        }
    }
}

/// The jobs that this server can launch, and those that were launched at some time.
#[utoipa::path(get, path = "/api/v1/jobs", params(ListJobs), responses((status = 200, body = Jobs)))]
pub(crate) async fn list(
    Given(state): Given<State>,
    QueryString(asked): QueryString<ListJobs>,
) -> Result<Json<Jobs>, Problem> {
    let limit = limit(asked.limit)?;
    let mut tx = state.read().await?;
    let known = tx.jobs().list(limit).await?;
    let ours = state.launcher().jobs();
    let mut all: BTreeMap<String, Option<JobRecord>> =
        ours.names().into_iter().map(|name| (name, None)).collect();
    all.extend(known.into_iter().map(|job| (job.name.clone(), Some(job))));
    let items = all.into_iter().take(limit as usize).map(|(name, record)| Job {
        is_registered: ours.get(&name).is_ok(),
        instances: record.as_ref().map_or(0, |record| record.instances),
        last: record.and_then(|record| record.last).map(Last::from),
        name,
    });
    Ok(Json(Jobs { items: items.collect() }))
}

/// One job.
#[utoipa::path(get, path = "/api/v1/jobs/{name}", params(("name" = String, Path, description = "Its name")), responses((status = 200, body = JobDetail), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn show(
    Given(state): Given<State>,
    Path(name): Path<String>,
) -> Result<Json<JobDetail>, Problem> {
    let name = checked(name)?;
    let of_job = ExecutionFilter { job: Some(name.clone()), ..ExecutionFilter::default() };
    let mut tx = state.read().await?;
    let last = tx.jobs().executions(&of_job, None, 1).await?.into_iter().next();
    let definition = match state.launcher().jobs().get(&name) {
        Ok(job) => Some(Definition::from(job)),
        Err(unknown) if last.is_none() => return Err(unknown.into()),
        Err(_) => None,
    };
    let last = last.map(|last| Last {
        execution: last.id.get(),
        status: last.status.as_str().to_owned(),
        created_at: last.created_at.to_string(),
    });
    Ok(Json(JobDetail { name, last, definition }))
}

/// The instances of one job.
#[utoipa::path(get, path = "/api/v1/jobs/{name}/instances", params(("name" = String, Path, description = "Its name"), ListInstances), responses((status = 200, body = Instances), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn instances(
    Given(state): Given<State>,
    Path(name): Path<String>,
    QueryString(asked): QueryString<ListInstances>,
) -> Result<Json<Instances>, Problem> {
    let name = checked(name)?;
    let limit = limit(asked.limit)?;
    let before = asked.before.map(|before| id(&before.to_string())).transpose()?.map(InstanceId::new);
    let mut tx = state.read().await?;
    let records = tx.jobs().instances(&name, before, limit + 1).await?;
    if records.is_empty() && before.is_none() {
        state.launcher().jobs().get(&name)?;
    }
    let (items, next) = page_of(records, limit, |record| record.id.get());
    Ok(Json(Instances { items, next }))
}

/// A name of the path, if it can be the name of a job at all.
fn checked(name: String) -> Result<String, Problem> {
    match check_name(&name) {
        Ok(()) => Ok(name),
        Err(bad) => Err(Problem::bad_request(bad.to_string(), "use the name as the list of jobs tells it")),
    }
}

/// The definition of a job that this server can launch.
fn defined<'a>(state: &'a State, name: &str) -> Result<&'a Defined, JobError> {
    state.launcher().jobs().get(name)
}
