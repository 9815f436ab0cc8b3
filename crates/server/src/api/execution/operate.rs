//! What an operator may do to an execution: stop it, go on with it, give it up, declare it over.

use super::Execution;
use crate::access::Principal;
use crate::api::job::launch::{How, LaunchRequest, accept};
use crate::api::{Body, id};
use crate::mutation;
use crate::problem::Problem;
use crate::state::State;
use axum::Extension;
use axum::extract::{Path, State as Given};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidemill_domain::audit::{self, Actor, AuditEntry};
use tidemill_domain::job::ExecutionId;
use tidemill_engine::job::JobError;
use tidemill_store::job::{ExecutionDetail, Operated};
use tidemill_store::{StoreError, Tx};
use utoipa::ToSchema;

/// An order that needs no reason.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OptionalReason {
    /// Why, for those who wonder later.
    pub(crate) reason: Option<String>,
}

/// A restart that is wanted.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Restart {
    /// Why, for those who wonder later.
    reason: Option<String>,
    /// Go on although the definition of the job has changed since.
    #[serde(default)]
    accept_change: bool,
}

/// An order that needs a reason.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Why, for those who wonder later.
    pub(crate) reason: String,
}

/// Asks an execution to stop at the end of its chunk, wherever it runs.
#[utoipa::path(post, path = "/api/v1/executions/{id}/stop", params(("id" = i64, Path, description = "Its id")), request_body = OptionalReason, responses((status = 202, body = Execution), (status = 404, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody)))]
pub(crate) async fn stop(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    headers: HeaderMap,
    Body(body): Body<OptionalReason>,
) -> Result<Response, Problem> {
    let id = ExecutionId::new(id(&text)?);
    let reason = body.reason.as_deref().map(checked).transpose()?;
    let what = format!("POST /api/v1/executions/{id}/stop {}", json!(body));
    let asked = ExecutionRequest { state: &state, principal: &principal, headers: &headers, what, id };
    operate(asked, StatusCode::ACCEPTED, async |tx, actor| tx.jobs().request_stop(id, actor, reason).await)
        .await
}

/// Gives up an execution that ended without success: its instance is never restarted.
#[utoipa::path(post, path = "/api/v1/executions/{id}/abandon", params(("id" = i64, Path, description = "Its id")), request_body = Order, responses((status = 200, body = Execution), (status = 404, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody)))]
pub(crate) async fn abandon(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    headers: HeaderMap,
    Body(body): Body<Order>,
) -> Result<Response, Problem> {
    let id = ExecutionId::new(id(&text)?);
    let reason = checked(&body.reason)?;
    let what = format!("POST /api/v1/executions/{id}/abandon {}", json!(body));
    let asked = ExecutionRequest { state: &state, principal: &principal, headers: &headers, what, id };
    operate(asked, StatusCode::OK, async |tx, actor| tx.jobs().abandon_execution(id, actor, reason).await)
        .await
}

/// Declares an execution over that nobody runs any more, so that it can be restarted.
#[utoipa::path(post, path = "/api/v1/executions/{id}/recover", params(("id" = i64, Path, description = "Its id")), request_body = Order, responses((status = 200, body = Execution), (status = 404, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody)))]
pub(crate) async fn recover(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    headers: HeaderMap,
    Body(body): Body<Order>,
) -> Result<Response, Problem> {
    let id = ExecutionId::new(id(&text)?);
    let reason = checked(&body.reason)?;
    let what = format!("POST /api/v1/executions/{id}/recover {}", json!(body));
    let asked = ExecutionRequest { state: &state, principal: &principal, headers: &headers, what, id };
    operate(asked, StatusCode::OK, async |tx, actor| tx.jobs().recover_execution(id, actor, reason).await)
        .await
}

/// Goes on with an execution that failed or was stopped: a new execution of the same instance, in this server.
#[utoipa::path(post, path = "/api/v1/executions/{id}/restart", params(("id" = i64, Path, description = "Its id")), request_body = Restart, responses((status = 202, body = Execution), (status = 404, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody), (status = 503, body = crate::problem::ProblemBody)))]
pub(crate) async fn restart(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    headers: HeaderMap,
    Body(body): Body<Restart>,
) -> Result<Response, Problem> {
    let id = ExecutionId::new(id(&text)?);
    let reason = body.reason.as_deref().map(checked).transpose()?;
    let what = format!("POST /api/v1/executions/{id}/restart {}", json!(body));
    let asked = ExecutionRequest { state: &state, principal: &principal, headers: &headers, what, id };
    accept(restart_wanted(asked, reason, body.accept_change).await?).await
}

/// The launch that goes on with an execution.
pub(crate) async fn restart_wanted(
    asked: ExecutionRequest<'_>,
    reason: Option<&str>,
    accept_change: bool,
) -> Result<LaunchRequest, Problem> {
    let ExecutionRequest { state, principal, headers, what, id } = asked;
    let found = find(state, id).await?;
    let entry = reason.map(|reason| {
        AuditEntry::new(principal.actor(), "execution.restart", &format!("execution/{id}")).because(reason)
    });
    Ok(LaunchRequest {
        what,
        parameters: found.job_parameters()?,
        how: How::Restart,
        job: found.execution.job,
        accept_change,
        audit: entry,
        state: state.clone(),
        principal: principal.clone(),
        headers: headers.clone(),
    })
}

/// A request about an execution.
pub(crate) struct ExecutionRequest<'a> {
    pub(crate) state: &'a State,
    pub(crate) principal: &'a Principal,
    pub(crate) headers: &'a HeaderMap,
    /// The whole request as text.
    pub(crate) what: String,
    pub(crate) id: ExecutionId,
}

/// Gives an order, and answers with the execution as it is then. Whoever is limited to some jobs may give orders about
/// their executions only.
pub(crate) async fn operate(
    asked: ExecutionRequest<'_>,
    status: StatusCode,
    give: impl AsyncFnOnce(&mut Tx, &Actor) -> Result<Operated, StoreError>,
) -> Result<Response, Problem> {
    let ExecutionRequest { state, principal, headers, what, id } = asked;
    let object = format!("job/{}", find(state, id).await?.execution.job);
    let actor = principal.actor();
    mutation::run(state, principal, &object, headers, &what, async |tx| {
        match give(tx, &actor).await? {
            Operated::Done { .. } => {}
            Operated::Refused(refusal) => return Err(JobError::NotAllowed { id, refusal }.into()),
            Operated::NoSuchExecution => return Err(JobError::UnknownExecution(id).into()),
        }
        let after = tx.jobs().execution(id).await?.ok_or(JobError::UnknownExecution(id))?;
        Ok((status, json!(Execution::from(after.execution))))
    })
    .await
}

async fn find(state: &State, id: ExecutionId) -> Result<ExecutionDetail, Problem> {
    let mut tx = state.read().await?;
    let found = tx.jobs().execution(id).await?;
    Ok(found.ok_or(JobError::UnknownExecution(id))?)
}

/// A reason that says something and fits into the audit log.
pub(crate) fn checked(reason: &str) -> Result<&str, Problem> {
    audit::reason(reason).map_err(|bad| Problem::bad_request(bad.to_string(), bad.fix()))
}
