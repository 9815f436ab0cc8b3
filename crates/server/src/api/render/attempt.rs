//! What was tried with a render, and what has happened to it.

use super::find;
use crate::api::id;
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Given};
use tidemill_api::Page;
use tidemill_api::render::{RenderAttempt, RenderTransition};
use tidemill_domain::render::RenderId;

/// What was tried with a render.
#[utoipa::path(get, path = "/api/v1/renders/{id}/attempts", params(("id" = i64, Path, description = "Its id")), responses((status = 200, body = Page<RenderAttempt>), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn list(
    Given(state): Given<State>,
    Path(text): Path<String>,
) -> Result<Json<Page<RenderAttempt>>, Problem> {
    let id = RenderId::new(id(&text)?);
    let mut tx = state.read().await?;
    find(&mut tx, id).await?;
    let attempts = tx.renders().attempts(id).await?;
    Ok(Json(Page::whole(&attempts)))
}

/// What has happened to a render: every change of its status, also by SQL.
#[utoipa::path(get, path = "/api/v1/renders/{id}/audit", params(("id" = i64, Path, description = "Its id")), responses((status = 200, body = Page<RenderTransition>), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn audit(
    Given(state): Given<State>,
    Path(text): Path<String>,
) -> Result<Json<Page<RenderTransition>>, Problem> {
    let id = RenderId::new(id(&text)?);
    let mut tx = state.read().await?;
    find(&mut tx, id).await?;
    let transitions = tx.renders().transitions(id).await?;
    Ok(Json(Page::whole(&transitions)))
}
