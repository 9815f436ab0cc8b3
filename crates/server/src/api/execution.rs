//! Executions: runs of jobs, with their steps.

pub mod content;
pub mod log;
pub mod operate;

use crate::api::{QueryString, id, limit};
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Given};
use std::collections::BTreeMap;
use tidemill_api::Page;
use tidemill_api::execution::{
    Execution, ExecutionContext, ExecutionContexts, ExecutionDetail, ExecutionReport, ListExecutions, Step,
};
use tidemill_domain::job::{BatchStatus, ExecutionId, InstanceId, check_name};
use tidemill_engine::job::JobError;
use tidemill_store::job::{self as store, ExecutionFilter, StepRecord};
use tidemill_store::{StoreError, Tx};

/// List executions, the newest first.
#[utoipa::path(get, path = "/api/v1/executions", operation_id = "list_executions", params(ListExecutions), responses((status = 200, body = Page<Execution>)))]
pub(crate) async fn list(
    Given(state): Given<State>,
    QueryString(query): QueryString<ListExecutions>,
) -> Result<Json<Page<Execution>>, Problem> {
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
    let mut tx = state.read().await?;
    let records = tx.jobs().executions(&filter, before.map(ExecutionId::new), limit + 1).await?;
    Ok(Json(Page::of(&records, limit, |record| record.id.get())))
}

/// Show an execution with its parameters and its process.
#[utoipa::path(get, path = "/api/v1/executions/{id}", operation_id = "get_execution", params(("id" = i64, Path, description = "Id of the execution")), responses((status = 200, body = ExecutionDetail)))]
pub(crate) async fn show(
    Given(state): Given<State>,
    Path(text): Path<String>,
) -> Result<Json<ExecutionDetail>, Problem> {
    let id = ExecutionId::new(id(&text)?);
    let mut tx = state.read().await?;
    let now = tx.now().await?;
    let detail = find(&mut tx, id).await?;
    Ok(Json(ExecutionDetail::from((&detail, now))))
}

/// List the steps of an execution in the order in which they started.
#[utoipa::path(get, path = "/api/v1/executions/{id}/steps", operation_id = "list_steps", params(("id" = i64, Path, description = "Id of the execution")), responses((status = 200, body = Page<Step>)))]
pub(crate) async fn steps(
    Given(state): Given<State>,
    Path(text): Path<String>,
) -> Result<Json<Page<Step>>, Problem> {
    let id = ExecutionId::new(id(&text)?);
    let mut tx = state.read().await?;
    let steps = tx.jobs().steps(id).await?;
    if steps.is_empty() {
        find(&mut tx, id).await?;
    }
    Ok(Json(Page::whole(&steps)))
}

/// The execution with this id.
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

/// The contexts of an execution and its steps.
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
