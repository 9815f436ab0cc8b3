//! What was tried with a render, and what has happened to it.

use super::find;
use crate::api::id;
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Given};
use serde::Serialize;
use serde_json::Value;
use tidemill_domain::render::attempt::AttemptOutcome;
use tidemill_domain::render::{RenderId, Status};
use tidemill_store::render::{AttemptRecord, TransitionRecord};
use utoipa::ToSchema;

/// What was tried.
#[derive(Debug, Serialize, ToSchema)]
pub struct Attempt {
    /// The number of the claim; grows.
    epoch: i64,
    /// By which worker.
    worker: String,
    /// The name of the job in nexrender.
    remote_job: Option<String>,
    /// The SHA-256 of the job that nexrender got; an HMAC under the current key where data is encrypted.
    document_sha256: Option<String>,
    /// When it began.
    started_at: String,
    /// When it ended.
    ended_at: Option<String>,
    /// `completed`, `failed`, `cancelled`, `retried`, `given_back` or `lost`.
    outcome: Option<String>,
    /// The code of why it failed.
    error_code: Option<String>,
    /// The same in words.
    error: Option<String>,
    /// What the checks of the file have found.
    #[schema(value_type = Option<Object>)]
    report: Option<Value>,
}

/// All that was tried with a render.
#[derive(Debug, Serialize, ToSchema)]
pub struct Attempts {
    /// The oldest first.
    items: Vec<Attempt>,
}

/// A change of status.
#[derive(Debug, Serialize, ToSchema)]
pub struct Transition {
    /// Its number; grows.
    id: i64,
    /// When.
    at: String,
    /// From which status; none when it was ordered.
    from: Option<String>,
    /// To which.
    to: String,
    /// What was done with it then, if that was known.
    phase: Option<String>,
    /// The number of the claim then.
    epoch: i64,
    /// By whom: a worker, an operator, or the database user who wrote SQL.
    by: String,
    /// Why, where there is a reason.
    error_code: Option<String>,
}

/// All that has happened to a render.
#[derive(Debug, Serialize, ToSchema)]
pub struct Transitions {
    /// The oldest first.
    items: Vec<Transition>,
}

impl From<AttemptRecord> for Attempt {
    fn from(record: AttemptRecord) -> Self {
        let (error_code, error) =
            record.reason.map(|reason| (reason.code.to_string(), reason.message)).unzip();
        Self {
            epoch: record.epoch.get(),
            worker: record.worker_name,
            remote_job: record.remote_job,
            document_sha256: record.document_sha256,
            started_at: record.started_at.to_string(),
            ended_at: record.ended_at.map(|at| at.to_string()),
            outcome: record.outcome.map(|outcome| AttemptOutcome::as_str(outcome).to_owned()),
            error_code,
            error,
            report: record.report,
        }
    }
}

impl From<TransitionRecord> for Transition {
    fn from(record: TransitionRecord) -> Self {
        Self {
            id: record.id,
            at: record.at.to_string(),
            from: record.from.map(|status| Status::as_str(status).to_owned()),
            to: record.to.as_str().to_owned(),
            phase: record.phase.map(|phase| phase.as_str().to_owned()),
            epoch: record.epoch.get(),
            by: record.by,
            error_code: record.code.map(|code| code.to_string()),
        }
    }
}

/// What was tried with a render.
#[utoipa::path(get, path = "/api/v1/renders/{id}/attempts", params(("id" = i64, Path, description = "Its id")), responses((status = 200, body = Attempts), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn list(
    Given(state): Given<State>,
    Path(text): Path<String>,
) -> Result<Json<Attempts>, Problem> {
    let id = RenderId::new(id(&text)?);
    let mut tx = state.read().await?;
    find(&mut tx, id).await?;
    let attempts = tx.renders().attempts(id).await?;
    Ok(Json(Attempts { items: attempts.into_iter().map(Attempt::from).collect() }))
}

/// What has happened to a render: every change of its status, also by SQL.
#[utoipa::path(get, path = "/api/v1/renders/{id}/audit", params(("id" = i64, Path, description = "Its id")), responses((status = 200, body = Transitions), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn audit(
    Given(state): Given<State>,
    Path(text): Path<String>,
) -> Result<Json<Transitions>, Problem> {
    let id = RenderId::new(id(&text)?);
    let mut tx = state.read().await?;
    find(&mut tx, id).await?;
    let transitions = tx.renders().transitions(id).await?;
    Ok(Json(Transitions { items: transitions.into_iter().map(Transition::from).collect() }))
}
