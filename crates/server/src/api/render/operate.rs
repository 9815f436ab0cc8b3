//! What an operator may do with renders: give one up, try it again, take it from a worker that has vanished; and let all
//! workers look.

use super::{find, object, unknown};
use crate::operate::{ActionRequest, Outcome};
use crate::problem::Problem;
use axum::http::StatusCode;
use serde_json::json;
use tidemill_api::render::Render;
use tidemill_domain::action::Action;
use tidemill_domain::render::RenderId;
use tidemill_store::Tx;
use tidemill_store::render::{Ordered, RENDER_WAITING};

/// Cancels, retries or recovers a render, and answers with it as it is then: 202 while its worker has yet to hear of it.
/// Whoever is limited to some compositions may do so with their renders only.
pub(crate) async fn perform(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    let id = RenderId::new(request.id()?);
    let before = find(tx, id).await?;
    request.check_scope(&object(before.composition.as_deref()))?;
    let (actor, reason) = (request.actor(), request.reason);
    let ordered = match request.action {
        Action::RenderCancel => tx.renders().cancel(id, &actor, reason).await?,
        Action::RenderRetry => tx.renders().retry(id, &actor, reason).await?,
        Action::RenderRecover => {
            let policy = &request.caller.state.inner().parts.render.policy;
            tx.renders().recover(id, policy, &actor, reason).await?
        }
        _ => return Err(request.mistaken()),
    };
    match ordered {
        Ordered::Done { record, .. } => {
            let is_heard = record.render.cancel_requested_at.is_none() || record.render.status.is_terminal();
            let status = if is_heard { StatusCode::OK } else { StatusCode::ACCEPTED };
            Ok((status, json!(Render::from(&*record))))
        }
        Ordered::Refused(refusal) => {
            Err(Problem::new(refusal.code(), format!("render {id}: {refusal}"), refusal.fix()))
        }
        Ordered::NoSuchRender => Err(unknown(id)),
    }
}

pub(crate) fn poll(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    request.check_scope("render/poll")?;
    tx.wake(RENDER_WAITING);
    Ok((StatusCode::ACCEPTED, json!({})))
}
