//! What an operator may do to an execution: stop it, go on with it, give it up, declare it over.

use super::Execution;
use crate::api::job::launch::{How, LaunchRequest, accept};
use crate::api::{Body, id};
use crate::mutation::Caller;
use crate::operate::{ActionRequest, Outcome, checked};
use crate::problem::Problem;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidemill_domain::action::Action;
use tidemill_domain::audit::AuditEntry;
use tidemill_domain::job::ExecutionId;
use tidemill_engine::job::JobError;
use tidemill_store::Tx;
use tidemill_store::job::Operated;
use utoipa::ToSchema;

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

/// Stops, abandons or recovers an execution, and answers with it as it is then. Whoever is limited to some jobs may do so
/// with their executions only.
pub(crate) async fn perform(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    let id = ExecutionId::new(request.id()?);
    let unknown = || JobError::UnknownExecution(id);
    let found = tx.jobs().execution(id).await?.ok_or_else(unknown)?;
    request.check_scope(&format!("job/{}", found.execution.job))?;
    let (actor, reason) = (request.actor(), request.required_reason());
    let (status, operated) = match request.action {
        Action::ExecutionStop => {
            (StatusCode::ACCEPTED, tx.jobs().request_stop(id, &actor, request.reason).await?)
        }
        Action::ExecutionAbandon => (StatusCode::OK, tx.jobs().abandon_execution(id, &actor, reason).await?),
        Action::ExecutionRecover => (StatusCode::OK, tx.jobs().recover_execution(id, &actor, reason).await?),
        _ => return Err(request.mistaken()),
    };
    match operated {
        Operated::Done { .. } => {}
        Operated::Refused(refusal) => return Err(JobError::NotAllowed { id, refusal }.into()),
        Operated::NoSuchExecution => return Err(unknown().into()),
    }
    let after = tx.jobs().execution(id).await?.ok_or_else(unknown)?;
    Ok((status, json!(Execution::from(after.execution))))
}

/// Goes on with an execution. It has a handler of its own, because a launch runs on after its transaction.
pub(crate) async fn restart(
    caller: Caller,
    Path(text): Path<String>,
    Body(body): Body<Restart>,
) -> Result<Response, Problem> {
    let id = ExecutionId::new(id(&text)?);
    let reason = body.reason.as_deref().map(checked).transpose()?;
    let what = format!("POST /api/v1/executions/{id}/restart {}", json!(body));
    let asked = RestartRequest { caller, what, id, accept_change: body.accept_change };
    accept(asked.launch(reason).await?).await
}

/// A request to restart an execution, by a program or by a form.
#[derive(Debug)]
pub(crate) struct RestartRequest {
    pub(crate) caller: Caller,
    /// The whole request as text.
    pub(crate) what: String,
    pub(crate) id: ExecutionId,
    pub(crate) accept_change: bool,
}

impl RestartRequest {
    /// The launch that goes on with the execution.
    pub(crate) async fn launch(self, reason: Option<&str>) -> Result<LaunchRequest, Problem> {
        let Self { caller, what, id, accept_change } = self;
        let mut tx = caller.state.read().await?;
        let found = tx.jobs().execution(id).await?.ok_or(JobError::UnknownExecution(id))?;
        drop(tx);
        let (actor, action) = (caller.principal.actor(), Action::ExecutionRestart.as_str());
        let audit =
            reason.map(|reason| AuditEntry::new(actor, action, &format!("execution/{id}")).because(reason));
        let (parameters, job) = (found.job_parameters()?, found.execution.job);
        Ok(LaunchRequest { caller, what, how: How::Restart, job, parameters, accept_change, audit })
    }
}
