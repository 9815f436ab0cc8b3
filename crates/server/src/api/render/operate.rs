//! Actions on renders: cancel, retry, recover, and wake all workers.

use super::{find, object, unknown};
use crate::operate::{ActionRequest, Outcome};
use crate::problem::Problem;
use axum::http::StatusCode;
use serde_json::json;
use tidemill_api::render::Render;
use tidemill_domain::action::Action;
use tidemill_domain::render::RenderId;
use tidemill_store::Tx;
use tidemill_store::render::{RENDER_WAITING, RenderChanged};

/// Cancels, retries or recovers a render, and responds with it: 202 while its worker does not know yet. A token can be
/// limited to some compositions.
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
        RenderChanged::Done { record, .. } => {
            let is_done = record.render.cancel_requested_at.is_none() || record.render.status.is_terminal();
            let status = if is_done { StatusCode::OK } else { StatusCode::ACCEPTED };
            Ok((status, json!(Render::from(&*record))))
        }
        RenderChanged::Refused(refusal) => {
            Err(Problem::new(refusal.code(), format!("render {id}: {refusal}"), refusal.fix()))
        }
        RenderChanged::NoSuchRender => Err(unknown(id)),
    }
}

pub(crate) fn poll(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    request.check_scope("render/poll")?;
    tx.wake(RENDER_WAITING);
    Ok((StatusCode::ACCEPTED, json!({})))
}
