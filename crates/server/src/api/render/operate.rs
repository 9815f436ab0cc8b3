//! What an operator may do with renders: give one up, try it again, take it from a worker that has vanished; and let all
//! workers look.

use super::{RenderRow, find, object, unknown};
use crate::access::Principal;
use crate::api::execution::operate::{OptionalReason, Order, checked};
use crate::api::{Body, id};
use crate::mutation::{self, Caller};
use crate::problem::Problem;
use crate::state::State;
use axum::Extension;
use axum::extract::{Path, State as Given};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::json;
use tidemill_domain::render::RenderId;
use tidemill_store::render::{Ordered, RENDER_WAITING};

tidemill_domain::words! {
    /// What can be done with one render.
    pub(crate) enum Verb {
        Cancel = "cancel",
        /// Try it again at once.
        Retry = "retry",
        /// Take it from a worker that has vanished.
        Recover = "recover",
    }
}

/// Gives a render up. What a node is rendering goes on there, and its file is thrown away.
#[utoipa::path(post, path = "/api/v1/renders/{id}/cancel", params(("id" = i64, Path, description = "Its id")), request_body = Order, responses((status = 200, body = RenderRow), (status = 202, body = RenderRow), (status = 404, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody)))]
pub(crate) async fn cancel(
    caller: Caller,
    Path(text): Path<String>,
    Body(body): Body<Order>,
) -> Result<Response, Problem> {
    by_api(Verb::Cancel, &caller, &text, &body).await
}

/// Tries a render again at once that failed, was cancelled, or waits for another attempt.
#[utoipa::path(post, path = "/api/v1/renders/{id}/retry", params(("id" = i64, Path, description = "Its id")), request_body = Order, responses((status = 200, body = RenderRow), (status = 404, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody)))]
pub(crate) async fn retry(
    caller: Caller,
    Path(text): Path<String>,
    Body(body): Body<Order>,
) -> Result<Response, Problem> {
    by_api(Verb::Retry, &caller, &text, &body).await
}

/// Takes a render from a worker that has vanished, without waiting for the next look.
#[utoipa::path(post, path = "/api/v1/renders/{id}/recover", params(("id" = i64, Path, description = "Its id")), request_body = Order, responses((status = 200, body = RenderRow), (status = 404, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody)))]
pub(crate) async fn recover(
    caller: Caller,
    Path(text): Path<String>,
    Body(body): Body<Order>,
) -> Result<Response, Problem> {
    by_api(Verb::Recover, &caller, &text, &body).await
}

async fn by_api(verb: Verb, caller: &Caller, text: &str, body: &Order) -> Result<Response, Problem> {
    let (Given(state), Extension(principal), headers) = caller;
    let id = RenderId::new(id(text)?);
    let what = format!("POST /api/v1/renders/{id}/{} {}", verb.as_str(), json!(body));
    operate(RenderRequest { state, principal, headers, what, verb, id, reason: &body.reason }).await
}

/// Lets all workers look for renders at once.
#[utoipa::path(post, path = "/api/v1/renders/poll", request_body = OptionalReason, responses((status = 202)))]
pub(crate) async fn poll(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    headers: HeaderMap,
    Body(body): Body<OptionalReason>,
) -> Result<Response, Problem> {
    let what = format!("POST /api/v1/renders/poll {}", json!(body));
    mutation::run(&state, &principal, "render/poll", &headers, &what, async |tx| {
        tx.wake(RENDER_WAITING);
        Ok((StatusCode::ACCEPTED, json!({})))
    })
    .await
}

/// A request about a render, by a program or by a form.
#[derive(Debug)]
pub(crate) struct RenderRequest<'a> {
    pub(crate) state: &'a State,
    pub(crate) principal: &'a Principal,
    pub(crate) headers: &'a HeaderMap,
    /// The whole request as text.
    pub(crate) what: String,
    pub(crate) verb: Verb,
    pub(crate) id: RenderId,
    pub(crate) reason: &'a str,
}

/// Gives an order, and answers with the render as it is then: 202 while its worker has yet to hear of it. Whoever is
/// limited to some compositions may give orders about their renders only.
pub(crate) async fn operate(asked: RenderRequest<'_>) -> Result<Response, Problem> {
    let RenderRequest { state, principal, headers, what, verb, id, reason } = asked;
    let (actor, reason) = (principal.actor(), Some(checked(reason)?));
    mutation::run_finding(state, principal, headers, &what, async |tx| {
        let before = find(tx, id).await?;
        principal.check_scope(&object(before.composition.as_deref()))?;
        let ordered = match verb {
            Verb::Cancel => tx.renders().cancel(id, &actor, reason).await?,
            Verb::Retry => tx.renders().retry(id, &actor, reason).await?,
            Verb::Recover => {
                tx.renders().recover(id, &state.inner().parts.render.policy, &actor, reason).await?
            }
        };
        match ordered {
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
