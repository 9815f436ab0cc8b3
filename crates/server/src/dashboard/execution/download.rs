//! All about an execution as a file, in the words of the API.

use crate::api::execution::content::Context;
use crate::api::execution::{ExecutionDetail, Step};
use crate::api::id;
use crate::problem::Problem;
use crate::state::State;
use axum::extract::{Path, State as Given};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tidemill_domain::job::ExecutionId;
use tidemill_engine::job::JobError;

pub(crate) async fn file(Given(state): Given<State>, Path(text): Path<String>) -> Result<Response, Problem> {
    let id = ExecutionId::new(id(&text)?);
    let mut tx = state.read().await?;
    let now = tx.now().await?;
    let detail = tx.jobs().execution(id).await?.ok_or(JobError::UnknownExecution(id))?;
    let steps = tx.jobs().steps(id).await?;
    let job = tx.jobs().job_context(id).await?.map(Context::from);
    let mut contexts = Map::new();
    for step in &steps {
        let context = tx.jobs().step_context(step.id).await?.map(Context::from);
        contexts.insert(step.name.clone(), json!(context));
    }
    let steps: Vec<Step> = steps.into_iter().map(Step::from).collect();
    let mut whole = json!(ExecutionDetail::of(detail, now));
    if let Value::Object(members) = &mut whole {
        members.insert("steps".to_owned(), json!(steps));
        members.insert("contexts".to_owned(), json!({ "job": job, "steps": contexts }));
    }
    let name = format!("attachment; filename=\"execution-{id}.json\"");
    let headers =
        [(header::CONTENT_TYPE, "application/json".to_owned()), (header::CONTENT_DISPOSITION, name)];
    Ok((headers, format!("{whole:#}\n")).into_response())
}
