//! The output of the command and Spark steps of an execution.

use super::find;
use crate::api::{Id, QueryString};
use crate::problem::Problem;
use crate::state::State;
use axum::extract::State as Given;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use tidemill_api::execution::ReadLogs;
use tidemill_domain::code::Code;
use tidemill_domain::job::{ExecutionId, StepExecutionId};
use tidemill_engine::job::command::log::FILE_BYTES_MAX;
use tidemill_engine::job::{LogFolder, LogPart, LogPlace};
use tidemill_store::job::{StepRecord, StoredContext};
use tidemill_store::{StoreError, Tx};

/// Print the output of the command and Spark steps of an execution, at most 16 MiB: the last lines of each step.
#[utoipa::path(get, path = "/api/v1/executions/{id}/logs", operation_id = "get_execution_logs", params(("id" = i64, Path, description = "Id of the execution"), ReadLogs), responses((status = 200, body = String, content_type = "text/plain")))]
pub(crate) async fn logs(
    Given(state): Given<State>,
    Id(id): Id,
    QueryString(query): QueryString<ReadLogs>,
) -> Result<Response, Problem> {
    let text = text_of(&state, ExecutionId::new(id), query.step.as_deref()).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
}

/// The output as a file.
pub(crate) async fn download(
    state: Given<State>,
    Id(id): Id,
    query: QueryString<ReadLogs>,
) -> Result<impl IntoResponse, Problem> {
    let file = format!("attachment; filename=\"execution-{id}.log\"");
    Ok(([(header::CONTENT_DISPOSITION, file)], logs(state, Id(id), query).await?))
}

async fn text_of(state: &State, id: ExecutionId, name: Option<&str>) -> Result<String, Problem> {
    let mut tx = state.read().await?;
    find(&mut tx, id).await?;
    let mut steps = tx.jobs().steps(id).await?;
    steps.retain(|step| is_selected(step, name));
    if let (Some(_), true) = (name, steps.is_empty()) {
        return Err(Problem::not_found("this step of this execution"));
    }
    let ids = steps.iter().map(|step| step.id).collect();
    let bytes_each = FILE_BYTES_MAX / steps.len().max(1) as u64;
    let parts = tails(state.launcher().log_folder(), id, ids, bytes_each).await;
    let is_one = name.is_some() && steps.len() == 1;
    let mut text = String::new();
    let mut missing = Vec::new();
    for (step, part) in steps.iter().zip(parts) {
        match part {
            Some(part) if is_one => text = part.text(),
            Some(part) => text.push_str(&format!("==> step {} <==\n{}", step.name, part.text())),
            None => missing.extend(place(&mut tx, step.id).await?.map(|place| place.advice(&step.name))),
        }
    }
    match missing.into_iter().next() {
        Some(advice) if text.is_empty() => {
            Err(Problem::new(Code::OutputElsewhere, "this machine does not have the output", advice))
        }
        _ => Ok(text),
    }
}

/// The last output of these steps in their order, at most `bytes_each` per step; none where this machine has no file.
pub(crate) async fn tails(
    folder: Option<&LogFolder>,
    execution: ExecutionId,
    steps: Vec<StepExecutionId>,
    bytes_each: u64,
) -> Vec<Option<LogPart>> {
    let (count, folder) = (steps.len(), folder.cloned());
    let read = move || {
        let tail = |step| {
            folder.as_ref()?.tail(execution, step, bytes_each).unwrap_or_else(|error| {
                tracing::warn!(%error, "the output of step {step} cannot be read");
                None
            })
        };
        steps.into_iter().map(tail).collect()
    };
    tokio::task::spawn_blocking(read).await.unwrap_or_else(|_| vec![None; count])
}

/// Whether a step is the one of this name, or a partition of it.
pub fn is_selected(step: &StepRecord, name: Option<&str>) -> bool {
    name.is_none_or(|name| step.name == name || step.name.split(':').next() == Some(name))
}

/// Where the output of a step was written; none if it kept none.
#[crate::boxed]
pub async fn place(tx: &mut Tx, step: StepExecutionId) -> Result<Option<LogPlace>, StoreError> {
    Ok(match tx.jobs().step_context(step).await? {
        Some(StoredContext::Readable(context)) => LogPlace::of(&context, step),
        _ => None,
    })
}
