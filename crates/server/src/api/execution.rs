//! Executions: runs of jobs, with their steps.

pub mod content;
pub mod operate;

use crate::api::{QueryString, id, limit, page_of};
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Given};
use serde::{Deserialize, Serialize};
use tidemill_domain::job::parameter::ParameterType;
use tidemill_domain::job::{BatchStatus, ExecutionId, InstanceId, check_name};
use tidemill_domain::time::Timestamp;
use tidemill_engine::job::JobError;
use tidemill_store::job::{
    ExecutionDetail as Detail, ExecutionFilter, ExecutionRecord, ParameterRecord, StepRecord,
};
use utoipa::{IntoParams, ToSchema};

/// What to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListExecutions {
    /// At most so many; 50 when not given, 500 at most.
    limit: Option<u32>,
    /// Only executions older than this one: the last id of the page before.
    before: Option<i64>,
    /// Only those of this job.
    job: Option<String>,
    /// Only those in this status, such as `FAILED`.
    status: Option<String>,
    /// Only those of this instance.
    instance: Option<i64>,
}

/// A run of a job.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Execution {
    /// Its id.
    id: i64,
    /// Name of the job.
    job: String,
    /// Of which instance.
    instance: i64,
    /// `STARTING`, `STARTED`, `STOPPING`, `STOPPED`, `COMPLETED`, `FAILED`, `ABANDONED` or `UNKNOWN`.
    status: String,
    /// How it ended, in a word.
    exit_code: String,
    /// How it ended, in words.
    exit_description: String,
    /// When it was made.
    created_at: String,
    /// When it began.
    started_at: Option<String>,
    /// When it ended.
    ended_at: Option<String>,
    /// Who launched it; nobody knows for one of Spring Batch's.
    launched_by: Option<String>,
    /// Whether Spring Batch has written it.
    is_foreign: bool,
    /// How many restarts without a person's doing led to it.
    crash_restarts: u32,
}

/// A page of executions.
#[derive(Debug, Serialize, ToSchema)]
pub struct Executions {
    /// The newest first.
    items: Vec<Execution>,
    /// Ask with `before` this for the next page; none when this was the last.
    next: Option<i64>,
}

/// All about one run of a job.
#[derive(Debug, Serialize, ToSchema)]
pub struct ExecutionDetail {
    /// The run.
    execution: Execution,
    /// Its parameters.
    parameters: Vec<Parameter>,
    /// The process that runs or ran it; nobody knows for one of Spring Batch's.
    owner: Option<Owner>,
    /// Who wanted it to stop.
    stop_request: Option<StopRequest>,
    /// What is done when its process dies: `fail` or `restart`.
    on_crash: Option<String>,
    /// Whether it is to be restarted by itself.
    is_restart_due: bool,
}

/// A parameter of an execution.
#[derive(Debug, Serialize, ToSchema)]
pub struct Parameter {
    /// Its name.
    name: String,
    /// Its value as text.
    value: String,
    /// `string`, `long`, `double`, `date`, `time` or `datetime`; another name of Java's for what only Java knows.
    #[serde(rename = "type")]
    kind: String,
    /// Whether it tells one instance from another.
    is_identifying: bool,
}

/// The process that runs or ran an execution.
#[derive(Debug, Serialize, ToSchema)]
pub struct Owner {
    /// Its id.
    process: String,
    /// What it is called; unknown long after its end.
    name: Option<String>,
    /// Where it is: `live`, `lapsed`, `dead` or `stopped`; unknown long after its end.
    state: Option<String>,
    /// Whether the execution is its own now.
    holds_lease: bool,
}

/// Somebody's wish that an execution should stop.
#[derive(Debug, Serialize, ToSchema)]
pub struct StopRequest {
    /// When it was made.
    at: String,
    /// By whom.
    by: String,
    /// And why.
    reason: Option<String>,
}

/// A run of a step.
#[derive(Debug, Serialize, ToSchema)]
pub struct Step {
    /// Its id.
    id: i64,
    /// Its name.
    name: String,
    /// Its status.
    status: String,
    /// How it ended, in a word.
    exit_code: String,
    /// How it ended, in words.
    exit_description: String,
    /// What it has counted.
    counters: StepCounters,
    /// How many items there are in all, where that is known.
    total_items: Option<u64>,
    /// What its writer promises: `exactly-once`, or `at-least-once` when up to one chunk may repeat after a crash.
    delivery: Option<String>,
    /// The process that runs or ran it last, if it is a partition.
    process: Option<String>,
    /// When it began.
    started_at: Option<String>,
    /// When it ended.
    ended_at: Option<String>,
}

/// What a step has counted.
#[derive(Debug, Serialize, ToSchema)]
pub struct StepCounters {
    /// Items read.
    read: u64,
    /// Items written.
    write: u64,
    /// Items that a processor dropped on purpose.
    filter: u64,
    /// Reads that failed and were skipped.
    read_skip: u64,
    /// Items skipped because processing them failed.
    process_skip: u64,
    /// Items skipped because writing them failed.
    write_skip: u64,
    /// Chunks committed.
    commit: u64,
    /// Chunks rolled back.
    rollback: u64,
}

/// The steps of an execution.
#[derive(Debug, Serialize, ToSchema)]
pub struct Steps {
    /// In the order in which they were started.
    items: Vec<Step>,
}

impl From<ExecutionRecord> for Execution {
    fn from(record: ExecutionRecord) -> Self {
        Self {
            id: record.id.get(),
            job: record.job,
            instance: record.instance.get(),
            status: record.status.as_str().to_owned(),
            exit_code: record.exit.code,
            exit_description: record.exit.description,
            created_at: record.created_at.to_string(),
            started_at: record.started_at.map(|at| at.to_string()),
            ended_at: record.ended_at.map(|at| at.to_string()),
            launched_by: record.launched_by,
            is_foreign: record.is_foreign,
            crash_restarts: record.crash_restarts,
        }
    }
}

impl From<ParameterRecord> for Parameter {
    fn from(record: ParameterRecord) -> Self {
        let kind = record.class.parse::<ParameterType>();
        Self {
            name: record.name,
            value: record.value,
            kind: kind.map_or(record.class, |kind| kind.as_str().to_owned()),
            is_identifying: record.is_identifying,
        }
    }
}

impl From<StepRecord> for Step {
    fn from(record: StepRecord) -> Self {
        let counters = record.counters;
        Self {
            id: record.id.get(),
            name: record.name,
            status: record.status.as_str().to_owned(),
            exit_code: record.exit.code,
            exit_description: record.exit.description,
            counters: StepCounters {
                read: counters.read,
                write: counters.write,
                filter: counters.filter,
                read_skip: counters.read_skip,
                process_skip: counters.process_skip,
                write_skip: counters.write_skip,
                commit: counters.commit,
                rollback: counters.rollback,
            },
            total_items: record.total_items,
            delivery: record.delivery,
            process: record.process,
            started_at: record.started_at.map(|at| at.to_string()),
            ended_at: record.ended_at.map(|at| at.to_string()),
        }
    }
}

impl ExecutionDetail {
    pub(crate) fn of(detail: Detail, now: Timestamp) -> Self {
        Self {
            execution: detail.execution.into(),
            parameters: detail.parameters.into_iter().map(Parameter::from).collect(),
            owner: detail.owner.map(|owner| Owner {
                process: owner.id.to_string(),
                state: owner.process.as_ref().map(|process| process.state.word(now).to_owned()),
                name: owner.process.map(|process| process.identity.name),
                holds_lease: owner.holds_lease,
            }),
            stop_request: detail.stop.map(|stop| StopRequest {
                at: stop.at.to_string(),
                by: stop.by,
                reason: stop.reason,
            }),
            on_crash: detail.on_crash.map(|on_crash| on_crash.as_str().to_owned()),
            is_restart_due: detail.is_restart_due,
        }
    }
}

/// The executions of all jobs.
#[utoipa::path(get, path = "/api/v1/executions", params(ListExecutions), responses((status = 200, body = Executions)))]
pub(crate) async fn list(
    Given(state): Given<State>,
    QueryString(asked): QueryString<ListExecutions>,
) -> Result<Json<Executions>, Problem> {
    let limit = limit(asked.limit)?;
    let number = |asked: Option<i64>| asked.map(|number| id(&number.to_string())).transpose();
    let (before, instance) = (number(asked.before)?, number(asked.instance)?);
    let bad = |why: String| Problem::bad_request(why, "see /openapi.json for what can be asked");
    if let Some(job) = &asked.job {
        check_name(job).map_err(|error| bad(format!("job: {error}")))?;
    }
    let status = asked.status.as_deref().map(str::parse::<BatchStatus>).transpose();
    let filter = ExecutionFilter {
        job: asked.job,
        status: status.map_err(|error| bad(format!("status: {error}")))?,
        instance: instance.map(InstanceId::new),
    };
    let mut tx = state.read().await?;
    let records = tx.jobs().executions(&filter, before.map(ExecutionId::new), limit + 1).await?;
    let (items, next) = page_of(records, limit, |record| record.id.get());
    Ok(Json(Executions { items, next }))
}

/// One execution, with its parameters and the process that runs it.
#[utoipa::path(get, path = "/api/v1/executions/{id}", params(("id" = i64, Path, description = "Its id")), responses((status = 200, body = ExecutionDetail), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn show(
    Given(state): Given<State>,
    Path(text): Path<String>,
) -> Result<Json<ExecutionDetail>, Problem> {
    let id = ExecutionId::new(id(&text)?);
    let mut tx = state.read().await?;
    let now = tx.now().await?;
    let found = tx.jobs().execution(id).await?;
    let detail = found.ok_or(JobError::UnknownExecution(id))?;
    Ok(Json(ExecutionDetail::of(detail, now)))
}

/// The steps of one execution.
#[utoipa::path(get, path = "/api/v1/executions/{id}/steps", params(("id" = i64, Path, description = "Its id")), responses((status = 200, body = Steps), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn steps(
    Given(state): Given<State>,
    Path(text): Path<String>,
) -> Result<Json<Steps>, Problem> {
    let id = ExecutionId::new(id(&text)?);
    let mut tx = state.read().await?;
    let steps = tx.jobs().steps(id).await?;
    let is_known = !steps.is_empty() || tx.jobs().execution(id).await?.is_some();
    if !is_known {
        return Err(JobError::UnknownExecution(id).into());
    }
    Ok(Json(Steps { items: steps.into_iter().map(Step::from).collect() }))
}
