//! Renders: order, inspect and change them. Their data has a permission of its own.

pub mod batch;
pub mod composition;
pub mod selection;

use crate::api::{Answer, Body, Id, List, QueryString, Read, limit};
use crate::mutation::Caller;
use crate::operate::{ActionBody, ActionRequest, Outcome, Parameters, checked};
use crate::problem::{Problem, ProblemBody};
use axum::Json;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use tidemill_api::Page;
use tidemill_api::render::{
    ApproveRender, CorrectRender, ListRenders, OrderRender, OrderedRender, RejectRender, Render,
    RenderAttempt, RenderData, RenderPlan, RenderTransition, RenderWorker,
};
use tidemill_domain::action::Action;
use tidemill_domain::code::Code;
use tidemill_domain::render::output::BadBroadcastDate;
use tidemill_domain::render::{BroadcastDate, RenderId, Status};
use tidemill_domain::time::Timestamp;
use tidemill_engine::render::gauge::WORKER_SEEN_WITHIN;
use tidemill_engine::render::{BadMaterial, Correction, Material};
use tidemill_store::Tx;
use tidemill_store::render::{
    NewRender, RENDER_WAITING, RenderChanged, RenderFilter, RenderRecord, Submitted,
};

/// Order a render. Invalid data is refused at once, not when a worker claims the render.
#[utoipa::path(post, path = "/api/v1/renders", operation_id = "order_render", request_body = OrderRender, responses((status = 201, body = OrderedRender), (status = 200, body = OrderedRender), (status = 400, body = ProblemBody), (status = 404, body = ProblemBody)))]
pub(crate) async fn order(caller: Caller, Body(body): Body<OrderRender>) -> Result<Response, Problem> {
    let what = format!("POST /api/v1/renders {}", json!(body));
    let text = body.gfx_data.to_string();
    let broadcast_date = body.broadcast_date.as_deref().map(date).transpose()?;
    let deadline = body.deadline.as_deref().map(instant).transpose()?;
    caller
        .run_finding(&what, async |tx| {
            let material = Material::read(tx, &text, body.composition.as_deref()).await?;
            caller.principal.check_scope(&object(Some(&material.profile.composition)))?;
            // Only workers have the allow list.
            material.check(None)?;
            let warnings = material.warnings();
            let order = NewRender {
                composition: Some(material.profile.composition),
                data: material.data,
                cue_item: body.cue_item,
                priority: body.priority,
                deadline,
                broadcast_date,
            };
            let submitted = tx.renders().submit(&order, &caller.principal.actor()).await?;
            let is_new = matches!(submitted, Submitted::New(_));
            let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
            Ok((status, json!(OrderedRender { id: submitted.id().get(), is_new, warnings })))
        })
        .await
}

/// Check a request for a render without ordering it.
#[utoipa::path(post, path = "/api/v1/renders/plan", operation_id = "plan_render", request_body = OrderRender, responses((status = 200, body = RenderPlan), (status = 400, body = ProblemBody), (status = 404, body = ProblemBody)))]
pub(crate) async fn plan(caller: Caller, Body(body): Body<OrderRender>) -> Answer<RenderPlan> {
    let text = body.gfx_data.to_string();
    let mut tx = caller.state.read().await?;
    let material = Material::read(&mut tx, &text, body.composition.as_deref()).await?;
    caller.principal.check_scope(&object(Some(&material.profile.composition)))?;
    material.check(None)?;
    let warnings = material.warnings();
    Ok(Json(RenderPlan { composition: material.profile.composition, warnings }))
}

/// List renders, newest first, without their data.
#[utoipa::path(get, path = "/api/v1/renders", operation_id = "list_renders", params(ListRenders), responses((status = 200, body = Page<Render>)))]
pub(crate) async fn list(QueryString(query): QueryString<ListRenders>, Read(mut tx): Read) -> List<Render> {
    let limit = limit(query.limit)?;
    let filter = RenderFilter {
        status: query.status.as_deref().map(status).transpose()?,
        composition: query.composition,
        worker: query.worker,
        date: query.date.as_deref().map(date).transpose()?,
        batch: query.batch.map(RenderId::new),
        late_at: if query.late { Some(tx.now().await?) } else { None },
        ended_after: None,
    };
    let records = tx.renders().list(&filter, query.before.map(RenderId::new), limit + 1).await?;
    Ok(Json(Page::of(&records, limit, |record| record.id().get())))
}

/// Show a render, without its data.
#[utoipa::path(get, path = "/api/v1/renders/{id}", operation_id = "get_render", params(("id" = i64, Path, description = "Id of the render")), responses((status = 200, body = Render), (status = 404, body = ProblemBody)))]
pub(crate) async fn show(Id(id): Id, Read(mut tx): Read) -> Answer<Render> {
    Ok(Json(Render::from(&find(&mut tx, RenderId::new(id)).await?)))
}

/// Show the data of a render.
#[utoipa::path(get, path = "/api/v1/renders/{id}/data", operation_id = "get_render_data", params(("id" = i64, Path, description = "Id of the render")), responses((status = 200, body = RenderData), (status = 404, body = ProblemBody)))]
pub(crate) async fn data(Id(id): Id, Read(mut tx): Read) -> Answer<RenderData> {
    let id = RenderId::new(id);
    let data = tx.renders().data(id).await?.ok_or_else(|| unknown(id))?;
    let gfx_data = serde_json::from_str(&data).map_err(|_| {
        let detail = "the data of the render is not JSON";
        Problem::new(Code::BadRenderData, detail, "submit the render again with valid JSON")
    })?;
    Ok(Json(RenderData { gfx_data }))
}

/// List the attempts of a render.
#[utoipa::path(get, path = "/api/v1/renders/{id}/attempts", operation_id = "list_render_attempts", params(("id" = i64, Path, description = "Id of the render")), responses((status = 200, body = Page<RenderAttempt>), (status = 404, body = ProblemBody)))]
pub(crate) async fn attempts(Id(id): Id, Read(mut tx): Read) -> List<RenderAttempt> {
    let id = find(&mut tx, RenderId::new(id)).await?.id();
    Ok(Json(Page::whole(&tx.renders().attempts(id).await?)))
}

/// List the status changes of a render, including changes by SQL.
#[utoipa::path(get, path = "/api/v1/renders/{id}/audit", operation_id = "list_render_transitions", params(("id" = i64, Path, description = "Id of the render")), responses((status = 200, body = Page<RenderTransition>), (status = 404, body = ProblemBody)))]
pub(crate) async fn audit(Id(id): Id, Read(mut tx): Read) -> List<RenderTransition> {
    let id = find(&mut tx, RenderId::new(id)).await?.id();
    Ok(Json(Page::whole(&tx.renders().transitions(id).await?)))
}

/// List the workers that sent a heartbeat within the last minute.
#[utoipa::path(get, path = "/api/v1/render-workers", operation_id = "list_render_workers", responses((status = 200, body = Page<RenderWorker>)))]
pub(crate) async fn workers(Read(mut tx): Read) -> List<RenderWorker> {
    let workers = tx.renders().workers(WORKER_SEEN_WITHIN).await?;
    Ok(Json(Page::whole(&workers)))
}

impl ActionBody for CorrectRender {
    fn read(&self) -> Result<(Option<&str>, Parameters), Problem> {
        let correction = Correction {
            data: self.gfx_data.as_ref().map(ToString::to_string),
            set: self.set.clone().into_iter().collect(),
            revision: self.revision,
        };
        Ok((self.reason.as_deref().map(checked).transpose()?, Parameters::Correction(correction)))
    }
}

impl ActionBody for ApproveRender {
    fn read(&self) -> Result<(Option<&str>, Parameters), Problem> {
        Ok((self.reason.as_deref().map(checked).transpose()?, Parameters::Revision(self.revision)))
    }
}

impl ActionBody for RejectRender {
    fn read(&self) -> Result<(Option<&str>, Parameters), Problem> {
        Ok((Some(checked(&self.reason)?), Parameters::Revision(self.revision)))
    }
}

/// Cancels, approves, rejects, retries, prioritizes, corrects or recovers a render, and responds with it: 202 while its worker
/// does not know yet. A token can be limited to some compositions.
pub(crate) async fn perform(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    let id = RenderId::new(request.id()?);
    let before = find(tx, id).await?;
    request.check_scope(&object(before.composition.as_deref()))?;
    let (actor, reason) = (request.actor(), request.reason);
    let ordered = match (request.action, &request.parameters) {
        (Action::RenderCorrect, Parameters::Correction(correction)) => {
            // Only workers have the allow list.
            correction.apply(tx, id, None, &actor, reason).await?.changed
        }
        (Action::RenderRecover, _) => {
            let policy = &request.caller.state.inner().parts.render.policy;
            tx.renders().recover(id, policy, &actor, reason).await?
        }
        (Action::RenderApprove, Parameters::Revision(revision)) => {
            tx.renders().approve(id, *revision, &actor, reason).await?
        }
        (Action::RenderReject, Parameters::Revision(revision)) => {
            tx.renders().reject(id, *revision, &actor, request.required_reason()).await?
        }
        (Action::RenderPrioritize, Parameters::Priority(change)) => {
            selection::change(request, id, Some(*change), tx).await?
        }
        _ => selection::change(request, id, None, tx).await?,
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

pub(crate) async fn find(tx: &mut Tx, id: RenderId) -> Result<RenderRecord, Problem> {
    tx.renders().find(id).await?.ok_or_else(|| unknown(id))
}

pub(crate) fn unknown(id: RenderId) -> Problem {
    Problem::new(Code::RenderNotFound, format!("there is no render {id}"), "see the list of renders")
}

pub(crate) fn unknown_batch(id: RenderId) -> Problem {
    let fix = "use the number that the order of the batch returned";
    Problem::new(Code::RenderNotFound, format!("there is no batch {id}"), fix)
}

/// The object of a render for scopes of tokens.
pub(crate) fn object(composition: Option<&str>) -> String {
    format!("render/{}", composition.unwrap_or_default())
}

pub(crate) fn status(text: &str) -> Result<Status, Problem> {
    text.parse().map_err(|_| {
        let words = Status::ALL.map(Status::as_str).join(", ");
        Problem::bad_request("unknown status", format!("use one of {words}"))
    })
}

pub(crate) fn date(text: &str) -> Result<BroadcastDate, Problem> {
    text.parse()
        .map_err(|bad: BadBroadcastDate| Problem::new(bad.code(), bad.to_string(), "use the form 2026-11-15"))
}

pub(crate) fn instant(text: &str) -> Result<Timestamp, Problem> {
    text.parse()
        .map_err(|_| Problem::bad_request("deadline is not a time", "use the form 2026-11-15T18:00:00Z"))
}

impl From<BadMaterial> for Problem {
    fn from(bad: BadMaterial) -> Self {
        match bad {
            BadMaterial::Store(error) => error.into(),
            other => Self::new(other.code(), other.problems().join("; "), other.fix()),
        }
    }
}
