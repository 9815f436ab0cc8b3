//! Actions on executions: stop, restart, abandon and recover.

use super::find;
use crate::api::job::launch::{LaunchKind, LaunchRequest, respond};
use crate::api::{Body, id};
use crate::mutation::Caller;
use crate::operate::{ActionRequest, Outcome, checked};
use crate::problem::Problem;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use tidemill_api::execution::{Execution, RestartExecution};
use tidemill_domain::action::Action;
use tidemill_domain::audit::AuditEntry;
use tidemill_domain::job::{BatchStatus, ExecutionId};
use tidemill_engine::job::JobError;
use tidemill_store::Tx;
use tidemill_store::job::ExecutionChanged;

/// Stops, abandons or recovers an execution and answers with its new state. Scopes name the job.
pub(crate) async fn perform(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    let id = ExecutionId::new(request.id()?);
    let job = find(tx, id).await?.execution.job;
    request.check_scope(&format!("job/{job}"))?;
    let (actor, reason) = (request.actor(), request.required_reason());
    let (status, operated) = match request.action {
        Action::ExecutionStop => {
            (StatusCode::ACCEPTED, tx.jobs().request_stop(id, &actor, request.reason).await?)
        }
        Action::ExecutionAbandon => (StatusCode::OK, tx.jobs().abandon_execution(id, &actor, reason).await?),
        Action::ExecutionRecover => (StatusCode::OK, tx.jobs().recover_execution(id, &actor, reason).await?),
        _ => return Err(request.mistaken()),
    };
    change(id, operated)?;
    Ok((status, json!(Execution::from(&find(tx, id).await?.execution))))
}

/// The status before and after an action, or why it was refused.
pub fn change(id: ExecutionId, operated: ExecutionChanged) -> Result<(BatchStatus, BatchStatus), JobError> {
    match operated {
        ExecutionChanged::Done { from, to } => Ok((from, to)),
        ExecutionChanged::Refused(refusal) => Err(JobError::NotAllowed { id, refusal }),
        ExecutionChanged::NoSuchExecution => Err(JobError::UnknownExecution(id)),
    }
}

/// Restarts an execution. It has its own handler because the launch continues after the transaction.
pub(crate) async fn restart(
    caller: Caller,
    Path(text): Path<String>,
    Body(body): Body<RestartExecution>,
) -> Result<Response, Problem> {
    let id = ExecutionId::new(id(&text)?);
    let what = format!("POST /api/v1/executions/{id}/restart {}", json!(body));
    respond(restart_request(caller, what, id, &body).await?).await
}

/// The launch that restarts an execution. `what` is the whole request as text.
pub(crate) async fn restart_request(
    caller: Caller,
    what: String,
    id: ExecutionId,
    body: &RestartExecution,
) -> Result<LaunchRequest, Problem> {
    let reason = body.reason.as_deref().map(checked).transpose()?;
    let mut tx = caller.state.read().await?;
    let found = find(&mut tx, id).await?;
    drop(tx);
    let (actor, action) = (caller.principal.actor(), Action::ExecutionRestart.as_str());
    let audit =
        reason.map(|reason| AuditEntry::new(actor, action, &format!("execution/{id}")).because(reason));
    Ok(LaunchRequest {
        caller,
        what,
        kind: LaunchKind::Restart,
        parameters: found.job_parameters()?,
        job: found.execution.job,
        accept_change: body.accept_change,
        audit,
    })
}
