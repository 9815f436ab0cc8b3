//! Executions: runs of jobs, with their steps, contexts and rejected items.

pub mod log;
pub mod operate;

use crate::api::{Answer, Id, List, QueryString, Read, id, limit};
use crate::problem::Problem;
use axum::Json;
use axum::extract::Path;
use std::collections::BTreeMap;
use tidemill_api::Page;
use tidemill_api::execution::{
    Execution, ExecutionContext, ExecutionContexts, ExecutionDetail, ExecutionReport, ListExecutions,
    ListRejects, Reject, Step,
};
use tidemill_domain::job::{BatchStatus, ExecutionId, InstanceId, StepExecutionId, check_name};
use tidemill_engine::job::JobError;
use tidemill_store::job::{self as store, ExecutionFilter, StepRecord};
use tidemill_store::{StoreError, Tx};

/// List executions, the newest first.
#[utoipa::path(get, path = "/api/v1/executions", operation_id = "list_executions", params(ListExecutions), responses((status = 200, body = Page<Execution>)))]
pub(crate) async fn list(
    QueryString(query): QueryString<ListExecutions>,
    Read(mut tx): Read,
) -> List<Execution> {
    let limit = limit(query.limit)?;
    let number = |number: Option<i64>| number.map(|number| id(&number.to_string())).transpose();
    let (before, instance) = (number(query.before)?, number(query.instance)?);
    let bad = |why: String| Problem::bad_request(why, "see the filters of this list in /openapi.json");
    if let Some(job) = &query.job {
        check_name(job).map_err(|error| bad(format!("job: {error}")))?;
    }
    let status = query.status.as_deref().map(str::parse::<BatchStatus>).transpose();
    let filter = ExecutionFilter {
        job: query.job,
        status: status.map_err(|error| bad(format!("status: {error}")))?,
        instance: instance.map(InstanceId::new),
    };
    let records = tx.jobs().executions(&filter, before.map(ExecutionId::new), limit + 1).await?;
    Ok(Json(Page::of(&records, limit, |record| record.id.get())))
}

/// Show an execution with its parameters and its process.
#[utoipa::path(get, path = "/api/v1/executions/{id}", operation_id = "get_execution", params(("id" = i64, Path, description = "Id of the execution")), responses((status = 200, body = ExecutionDetail)))]
pub(crate) async fn show(Id(id): Id, Read(mut tx): Read) -> Answer<ExecutionDetail> {
    let now = tx.now().await?;
    let detail = find(&mut tx, ExecutionId::new(id)).await?;
    Ok(Json(ExecutionDetail::from((&detail, now))))
}

/// List the steps of an execution in the order in which they started.
#[utoipa::path(get, path = "/api/v1/executions/{id}/steps", operation_id = "list_steps", params(("id" = i64, Path, description = "Id of the execution")), responses((status = 200, body = Page<Step>)))]
pub(crate) async fn steps(Id(id): Id, Read(mut tx): Read) -> List<Step> {
    let id = ExecutionId::new(id);
    let steps = tx.jobs().steps(id).await?;
    if steps.is_empty() {
        find(&mut tx, id).await?;
    }
    Ok(Json(Page::whole(&steps)))
}

/// Show the context of an execution.
#[utoipa::path(get, path = "/api/v1/executions/{id}/context", operation_id = "get_execution_context", params(("id" = i64, Path, description = "Id of the execution")), responses((status = 200, body = ExecutionContext)))]
pub(crate) async fn job_context(Id(id): Id, Read(mut tx): Read) -> Answer<ExecutionContext> {
    let id = ExecutionId::new(id);
    let context = tx.jobs().job_context(id).await?.ok_or(JobError::UnknownExecution(id))?;
    Ok(Json(context.into()))
}

/// Show the context of a step.
#[utoipa::path(get, path = "/api/v1/executions/{id}/steps/{step}/context", operation_id = "get_step_context", params(("id" = i64, Path, description = "Id of the execution"), ("step" = i64, Path, description = "Id of the step")), responses((status = 200, body = ExecutionContext)))]
pub(crate) async fn step_context(
    Path((execution, step)): Path<(String, String)>,
    Read(mut tx): Read,
) -> Answer<ExecutionContext> {
    let step = find_step(&execution, &step, &mut tx).await?;
    let found = tx.jobs().step_context(step).await?;
    Ok(Json(found.map(ExecutionContext::from).unwrap_or_default()))
}

/// List the items that a step skipped, if it keeps them in the database.
#[utoipa::path(get, path = "/api/v1/executions/{id}/steps/{step}/rejects", operation_id = "list_rejects", params(("id" = i64, Path, description = "Id of the execution"), ("step" = i64, Path, description = "Id of the step"), ListRejects), responses((status = 200, body = Page<Reject>)))]
pub(crate) async fn rejects(
    Path((execution, step)): Path<(String, String)>,
    QueryString(query): QueryString<ListRejects>,
    Read(mut tx): Read,
) -> List<Reject> {
    let limit = limit(query.limit)?;
    let step = find_step(&execution, &step, &mut tx).await?;
    let records = tx.jobs().rejects(step, query.after.unwrap_or(0), limit + 1).await?;
    Ok(Json(Page::of(&records, limit, |record| record.id)))
}

/// The step with this id, if it belongs to this execution.
async fn find_step(execution: &str, step: &str, tx: &mut Tx) -> Result<StepExecutionId, Problem> {
    let (execution, step) = (ExecutionId::new(id(execution)?), StepExecutionId::new(id(step)?));
    let is_known = tx.jobs().steps(execution).await?.iter().any(|known| known.id == step);
    if is_known { Ok(step) } else { Err(Problem::not_found("this step of this execution")) }
}

#[crate::boxed]
pub async fn find(tx: &mut Tx, id: ExecutionId) -> Result<store::ExecutionDetail, JobError> {
    tx.jobs().execution(id).await?.ok_or(JobError::UnknownExecution(id))
}

/// The execution with its steps, without contexts.
#[crate::boxed]
pub async fn report(tx: &mut Tx, id: ExecutionId) -> Result<(ExecutionReport, Vec<StepRecord>), JobError> {
    let now = tx.now().await?;
    let detail = find(tx, id).await?;
    let steps = tx.jobs().steps(id).await?;
    Ok((ExecutionReport::new(&detail, &steps, now), steps))
}

#[crate::boxed]
pub async fn contexts(
    tx: &mut Tx,
    id: ExecutionId,
    steps: &[StepRecord],
) -> Result<ExecutionContexts, StoreError> {
    let job = tx.jobs().job_context(id).await?.map(ExecutionContext::from).unwrap_or_default();
    let mut of_steps = BTreeMap::new();
    for step in steps {
        let context = tx.jobs().step_context(step.id).await?.map(ExecutionContext::from);
        of_steps.insert(step.name.clone(), context.unwrap_or_default());
    }
    Ok(ExecutionContexts { job, steps: of_steps })
}
