//! What an operator may do with renders: give one up, try it again, take it from a worker that has vanished; and let all
//! workers look.

use super::{RenderRow, find, object, unknown};
use crate::access::Principal;
use crate::api::execution::operate::{Order, Wish, checked};
use crate::api::{Body, id};
use crate::mutation;
use crate::problem::Problem;
use crate::state::State;
use axum::Extension;
use axum::extract::{Path, State as Given};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::json;
use tidemill_domain::audit::Actor;
use tidemill_domain::render::{Policy, RenderId};
use tidemill_store::render::{Ordered, RENDER_WAITING};
use tidemill_store::{StoreError, Tx};

/// Gives a render up. What a node is rendering goes on there, and its file is thrown away.
#[utoipa::path(post, path = "/api/v1/renders/{id}/cancel", params(("id" = i64, Path, description = "Its id")), request_body = Order, responses((status = 200, body = RenderRow), (status = 202, body = RenderRow), (status = 404, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody)))]
pub(crate) async fn cancel(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    headers: HeaderMap,
    Body(body): Body<Order>,
) -> Result<Response, Problem> {
    let id = RenderId::new(id(&text)?);
    let reason = checked(&body.reason)?;
    let what = format!("POST /api/v1/renders/{id}/cancel {}", json!(body));
    let asked = Asked { state: &state, principal: &principal, headers: &headers, what, id };
    operate(asked, async |tx, actor| tx.cancel_render(id, actor, Some(reason)).await).await
}

/// Tries a render again at once that failed, was cancelled, or waits for another attempt.
#[utoipa::path(post, path = "/api/v1/renders/{id}/retry", params(("id" = i64, Path, description = "Its id")), request_body = Order, responses((status = 200, body = RenderRow), (status = 404, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody)))]
pub(crate) async fn retry(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    headers: HeaderMap,
    Body(body): Body<Order>,
) -> Result<Response, Problem> {
    let id = RenderId::new(id(&text)?);
    let reason = checked(&body.reason)?;
    let what = format!("POST /api/v1/renders/{id}/retry {}", json!(body));
    let asked = Asked { state: &state, principal: &principal, headers: &headers, what, id };
    operate(asked, async |tx, actor| tx.retry_render(id, actor, Some(reason)).await).await
}

/// Takes a render from a worker that has vanished, without waiting for the next look.
#[utoipa::path(post, path = "/api/v1/renders/{id}/recover", params(("id" = i64, Path, description = "Its id")), request_body = Order, responses((status = 200, body = RenderRow), (status = 404, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody)))]
pub(crate) async fn recover(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Path(text): Path<String>,
    headers: HeaderMap,
    Body(body): Body<Order>,
) -> Result<Response, Problem> {
    let id = RenderId::new(id(&text)?);
    let reason = checked(&body.reason)?;
    let policy: &Policy = &state.inner().parts.render.policy;
    let what = format!("POST /api/v1/renders/{id}/recover {}", json!(body));
    let asked = Asked { state: &state, principal: &principal, headers: &headers, what, id };
    operate(asked, async |tx, actor| tx.recover_render(id, policy, actor, Some(reason)).await).await
}

/// Lets all workers look for renders at once.
#[utoipa::path(post, path = "/api/v1/renders/poll", request_body = Wish, responses((status = 202)))]
pub(crate) async fn poll(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    Body(body): Body<Wish>,
) -> Result<Response, Problem> {
    let what = format!("POST /api/v1/renders/poll {}", json!(body));
    mutation::run(&state, &principal, "render/poll", &headers, &what, async |tx| {
        tx.wake(RENDER_WAITING);
        Ok((StatusCode::ACCEPTED, json!({})))
    })
    .await
}

/// A request about a render.
struct Asked<'a> {
    state: &'a State,
    principal: &'a Principal,
    headers: &'a HeaderMap,
    /// The whole request as text.
    what: String,
    id: RenderId,
}

/// Gives an order, and answers with the render as it is then: 202 while its worker has yet to hear of it. Whoever is
/// limited to some compositions may give orders about their renders only.
async fn operate(
    asked: Asked<'_>,
    give: impl AsyncFnOnce(&mut Tx, &Actor) -> Result<Ordered, StoreError>,
) -> Result<Response, Problem> {
    let Asked { state, principal, headers, what, id } = asked;
    let actor = principal.actor();
    mutation::run_finding(state, principal, headers, &what, async |tx| {
        let before = find(tx, id).await?;
        principal.check_scope(&object(before.composition.as_deref()))?;
        match give(tx, &actor).await? {
            Ordered::Done { record, .. } => {
                let is_heard =
                    record.render.cancel_requested_at.is_none() || record.render.status.is_terminal();
                let status = if is_heard { StatusCode::OK } else { StatusCode::ACCEPTED };
                Ok((status, json!(RenderRow::from(*record))))
            }
            Ordered::Refused(refusal) => {
                Err(Problem::new(refusal.code(), format!("render {id}: {refusal}"), refusal.fix()))
            }
            Ordered::NoSuchRender => Err(unknown(id)),
        }
    })
    .await
}
