//! Renders: ordering them and looking at them. What a render shows is told of one at a time, to those who may see
//! payloads.

pub mod attempt;
pub mod mapping;
pub mod operate;
pub mod profile;
pub mod worker;

use crate::api::{Body, QueryString, id, limit, page_of};
use crate::mutation::Caller;
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Given};
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidemill_domain::code::Code;
use tidemill_domain::lease::Lease;
use tidemill_domain::render::output::BadBroadcastDate;
use tidemill_domain::render::{BroadcastDate, RenderId, Status};
use tidemill_domain::time::Timestamp;
use tidemill_engine::render::{BadMaterial, Material};
use tidemill_store::Tx;
use tidemill_store::render::{NewRender, RenderFilter, RenderRecord, Submitted};
use utoipa::{IntoParams, ToSchema};

/// A render that is wanted.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OrderRender {
    /// What it shows: `composition_name`, `slots`, `single_fields`, `flags`.
    #[schema(value_type = Object)]
    gfx_data: Value,
    /// The composition, if the data does not name it.
    composition: Option<String>,
    /// What it is ordered for; the same data for the same thing is not ordered twice.
    cue_item: Option<String>,
    /// The higher, the sooner; 0 when not given.
    #[serde(default)]
    priority: i32,
    /// When it is on air.
    deadline: Option<String>,
    /// The day of the broadcast, such as `2026-11-15`.
    broadcast_date: Option<String>,
}

/// A render that was ordered.
#[derive(Debug, Serialize, ToSchema)]
pub struct OrderedRender {
    /// Its number.
    id: i64,
    /// False when the same was ordered before and has not ended.
    is_new: bool,
}

/// What to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListRenders {
    /// At most so many; 50 when not given, 500 at most.
    limit: Option<u32>,
    /// Only renders before this one: the last id of the page before.
    before: Option<i64>,
    /// Only those in this status.
    status: Option<String>,
    /// Only those of this composition.
    composition: Option<String>,
    /// Only those of the worker of this name.
    worker: Option<String>,
    /// Only those of this day.
    date: Option<String>,
}

/// A render, without what it shows.
#[derive(Debug, Serialize, ToSchema)]
pub struct RenderRow {
    /// Its number; grows.
    id: i64,
    /// `pending`, `preparing`, `rendering`, `encoding`, `uploading`, `completed`, `failed` or `cancelled`.
    status: String,
    /// What is done with it; of one that waits, where it goes on.
    phase: String,
    /// The same in words.
    phase_label: String,
    /// How far it is, in percent.
    progress: u8,
    /// Its composition.
    composition: Option<String>,
    /// What it was ordered for.
    cue_item: Option<String>,
    /// The higher, the sooner.
    priority: i64,
    /// When it is on air.
    deadline: Option<String>,
    /// The day of its broadcast; decided when it is first claimed, at the latest.
    broadcast_date: Option<String>,
    /// The worker that has it or had it last.
    worker: Option<String>,
    /// Until when that worker may be silent.
    lease_until: Option<String>,
    /// The name of its job in nexrender.
    remote_job: Option<String>,
    /// How often it was claimed.
    attempts: u32,
    /// How often its worker has vanished.
    recoveries: u32,
    /// Of one that waits: not before then.
    run_after: Option<String>,
    /// When somebody did not want it any more.
    cancel_requested_at: Option<String>,
    /// The code of why it last failed.
    error_code: Option<String>,
    /// The same in words.
    error: Option<String>,
    /// Where its file is, as people read it.
    output_path: Option<String>,
    /// The size of the file.
    output_bytes: Option<u64>,
    /// The SHA-256 of the file.
    output_sha256: Option<String>,
    /// Where a picture out of the file is.
    poster_path: Option<String>,
    /// When it was ordered.
    created_at: String,
    /// When it was first claimed.
    started_at: Option<String>,
    /// When its file was published.
    completed_at: Option<String>,
    /// When it ended, however that was.
    ended_at: Option<String>,
    /// How long it took from the first claim to the published file.
    duration_seconds: Option<f64>,
}

/// A page of renders.
#[derive(Debug, Serialize, ToSchema)]
pub struct RenderRows {
    /// The newest first.
    items: Vec<RenderRow>,
    /// Ask with `before` this for the next page; none when this was the last.
    next: Option<i64>,
}

/// What a render shows.
#[derive(Debug, Serialize, ToSchema)]
pub struct RenderData {
    /// The data, as it was given.
    #[schema(value_type = Object)]
    gfx_data: Value,
}

impl From<RenderRecord> for RenderRow {
    fn from(record: RenderRecord) -> Self {
        let text = |at: Option<Timestamp>| at.map(|at| at.to_string());
        let render = record.render;
        let (error_code, error) =
            render.reason.map(|reason| (reason.code.to_string(), reason.message)).unzip();
        Self {
            id: render.id.get(),
            status: render.status.as_str().to_owned(),
            phase: render.phase.as_str().to_owned(),
            phase_label: render.phase.label().to_owned(),
            progress: render.progress.get(),
            composition: record.composition,
            cue_item: record.cue_item,
            priority: record.priority,
            deadline: text(render.deadline),
            broadcast_date: record.broadcast_date.map(|date| date.to_string()),
            worker: record.worker_name,
            lease_until: match render.lease {
                Lease::Held { until, .. } => text(until),
                Lease::Free { .. } => None,
            },
            remote_job: record.remote_job,
            attempts: render.counts.attempts,
            recoveries: render.counts.recoveries,
            run_after: text(Some(render.run_after).filter(|_| render.status == Status::Pending)),
            cancel_requested_at: text(render.cancel_requested_at),
            error_code,
            error,
            output_path: record.output_path,
            output_bytes: record.output_bytes,
            output_sha256: record.output_sha256,
            poster_path: record.poster_path,
            created_at: record.created_at.to_string(),
            started_at: text(record.started_at),
            completed_at: text(record.completed_at),
            ended_at: text(record.ended_at),
            duration_seconds: record.duration_seconds,
        }
    }
}

/// Orders a render. What can be seen to be wrong with it is told before it waits for a worker.
#[utoipa::path(post, path = "/api/v1/renders", request_body = OrderRender, responses((status = 201, body = OrderedRender), (status = 200, body = OrderedRender), (status = 400, body = crate::problem::ProblemBody), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn order(caller: Caller, Body(body): Body<OrderRender>) -> Result<Response, Problem> {
    let what = format!("POST /api/v1/renders {}", json!(body));
    let text = body.gfx_data.to_string();
    let broadcast_date = body.broadcast_date.as_deref().map(date).transpose()?;
    let deadline = body.deadline.as_deref().map(instant).transpose()?;
    caller
        .run_finding(&what, async |tx| {
            let material = Material::read(tx, &text, body.composition.as_deref()).await?;
            caller.principal.check_scope(&object(Some(&material.profile.composition)))?;
            // What may be used is for the workers to say: this server need not know it.
            material.check(None)?;
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
            Ok((status, json!(OrderedRender { id: submitted.id().get(), is_new })))
        })
        .await
}

/// The renders, without what they show.
#[utoipa::path(get, path = "/api/v1/renders", params(ListRenders), responses((status = 200, body = RenderRows)))]
pub(crate) async fn list(
    Given(state): Given<State>,
    QueryString(asked): QueryString<ListRenders>,
) -> Result<Json<RenderRows>, Problem> {
    let limit = limit(asked.limit)?;
    let filter = RenderFilter {
        status: asked.status.as_deref().map(status).transpose()?,
        composition: asked.composition,
        worker: asked.worker,
        date: asked.date.as_deref().map(date).transpose()?,
    };
    let mut tx = state.read().await?;
    let records = tx.renders().list(&filter, asked.before.map(RenderId::new), limit + 1).await?;
    let (items, next) = page_of(records, limit, |record| record.id().get());
    Ok(Json(RenderRows { items, next }))
}

/// One render, without what it shows.
#[utoipa::path(get, path = "/api/v1/renders/{id}", params(("id" = i64, Path, description = "Its id")), responses((status = 200, body = RenderRow), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn show(
    Given(state): Given<State>,
    Path(text): Path<String>,
) -> Result<Json<RenderRow>, Problem> {
    let id = RenderId::new(id(&text)?);
    let mut tx = state.read().await?;
    let record = find(&mut tx, id).await?;
    Ok(Json(record.into()))
}

/// What one render shows.
#[utoipa::path(get, path = "/api/v1/renders/{id}/data", params(("id" = i64, Path, description = "Its id")), responses((status = 200, body = RenderData), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn data(
    Given(state): Given<State>,
    Path(text): Path<String>,
) -> Result<Json<RenderData>, Problem> {
    let id = RenderId::new(id(&text)?);
    let mut tx = state.read().await?;
    let data = tx.renders().data(id).await?.ok_or_else(|| unknown(id))?;
    let gfx_data = serde_json::from_str(&data).map_err(|_| {
        Problem::new(
            Code::BadRenderData,
            "the data of the render is not JSON",
            "order it again, with other data",
        )
    })?;
    Ok(Json(RenderData { gfx_data }))
}

/// A render that is there.
pub(crate) async fn find(tx: &mut Tx, id: RenderId) -> Result<RenderRecord, Problem> {
    tx.renders().find(id).await?.ok_or_else(|| unknown(id))
}

pub(crate) fn unknown(id: RenderId) -> Problem {
    Problem::new(Code::RenderNotFound, format!("there is no render {id}"), "list the renders")
}

/// What an order about a render of this composition is about, for scopes.
pub(crate) fn object(composition: Option<&str>) -> String {
    format!("render/{}", composition.unwrap_or_default())
}

pub(crate) fn status(text: &str) -> Result<Status, Problem> {
    text.parse().map_err(|_| {
        let words = Status::ALL.map(Status::as_str).join(", ");
        Problem::bad_request("there is no such status", format!("use one of {words}"))
    })
}

pub(crate) fn date(text: &str) -> Result<BroadcastDate, Problem> {
    text.parse().map_err(|bad: BadBroadcastDate| {
        Problem::new(bad.code(), bad.to_string(), "write year, month and day with dashes")
    })
}

fn instant(text: &str) -> Result<Timestamp, Problem> {
    text.parse()
        .map_err(|_| Problem::bad_request("deadline is not an instant", "write it as 2026-11-15T18:00:00Z"))
}

impl From<BadMaterial> for Problem {
    fn from(bad: BadMaterial) -> Self {
        match bad {
            BadMaterial::Store(error) => error.into(),
            other => Self::new(other.code(), other.problems().join("; "), other.fix()),
        }
    }
}
