//! Rows of attached tables that have FAILED, and what operators do about them.

use super::{named, object};
use crate::api::{QueryString, limit, page_of};
use crate::operate::{ActionBody, ActionRequest, Outcome, Parameters};
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Given};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidemill_domain::action::Action;
use tidemill_domain::outbox::EventId;
use tidemill_store::Tx;
use tidemill_store::outbox::attached::failed::Skipped;
use tidemill_store::outbox::attached::{FailedRecord, RowOrder};
use utoipa::{IntoParams, ToSchema};

/// What to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListFailedRows {
    /// At most so many; 50 when not given, 500 at most.
    limit: Option<u32>,
    /// Only rows behind this one: the last id of the page before.
    after: Option<i64>,
    /// Whether to list those that were skipped, too.
    #[serde(default)]
    skipped: bool,
}

/// A row that has FAILED.
#[derive(Debug, Serialize, ToSchema)]
pub struct FailedRow {
    /// Its number.
    id: i64,
    /// What it happened to.
    aggregate_id: Option<String>,
    /// How often it was tried, as far as we know.
    attempts: u32,
    /// Why it was last not taken, as far as we know.
    error: Option<String>,
    /// When it last changed.
    updated_at: Option<String>,
    /// Whether it was skipped, so that it holds nobody back.
    is_skipped: bool,
}

/// A page of rows that have FAILED.
#[derive(Debug, Serialize, ToSchema)]
pub struct FailedRows {
    /// By number.
    items: Vec<FailedRow>,
    /// Ask with `after` this for the next page; none when this was the last.
    next: Option<i64>,
}

/// An order about rows that have FAILED.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OrderRows {
    /// Why, for those who wonder later.
    reason: String,
    /// These rows, 1 to 500.
    ids: Vec<i64>,
}

/// What became of an order about rows.
#[derive(Debug, Serialize, ToSchema)]
pub struct OrderedRows {
    /// The rows that it was done to.
    changed: Vec<i64>,
    /// Those that it was not done to.
    refused: Vec<RefusedRow>,
}

/// A row that an order was not done to.
#[derive(Debug, Serialize, ToSchema)]
pub struct RefusedRow {
    /// Which.
    id: i64,
    /// The stable code.
    code: String,
    /// Why.
    detail: String,
    /// What the caller can do about it.
    remedy: String,
}

/// Most ids in one request.
const IDS_MAX: usize = 500;

impl From<FailedRecord> for FailedRow {
    fn from(record: FailedRecord) -> Self {
        Self {
            id: record.id.get(),
            aggregate_id: record.aggregate_id,
            attempts: record.attempts,
            error: record.error,
            updated_at: record.updated_at.map(|at| at.to_string()),
            is_skipped: record.is_skipped,
        }
    }
}

/// The rows of an attached table that have FAILED, without what they say.
#[utoipa::path(get, path = "/api/v1/outbox/attached/{schema}/{table}/failed", params(("schema" = String, Path, description = "Its schema"), ("table" = String, Path, description = "Its name"), ListFailedRows), responses((status = 200, body = FailedRows), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn list(
    Given(state): Given<State>,
    Path((schema, table)): Path<(String, String)>,
    QueryString(asked): QueryString<ListFailedRows>,
) -> Result<Json<FailedRows>, Problem> {
    let (name, limit) = (named(&schema, &table)?, limit(asked.limit)?);
    let after = EventId::new(asked.after.unwrap_or(i64::MIN));
    let skipped = if asked.skipped { Skipped::Too } else { Skipped::Not };
    let mut tx = state.read().await?;
    let table = tx.outbox().attached_table(&name).await?;
    let records = tx.outbox().attached_failed(&table, after, limit + 1, skipped).await?;
    let (items, next) = page_of(records, limit, |record| record.id.get());
    Ok(Json(FailedRows { items, next }))
}

impl ActionBody for OrderRows {
    fn reason(&self) -> Option<&str> {
        Some(&self.reason)
    }

    fn parameters(&self) -> Result<Parameters, Problem> {
        if !(1..=IDS_MAX).contains(&self.ids.len()) {
            let remedy = format!("name 1 to {IDS_MAX} rows");
            return Err(Problem::bad_request("the list of ids is empty or too long", remedy));
        }
        Ok(Parameters::Rows(self.ids.iter().copied().map(EventId::new).collect()))
    }
}

/// Skips or replays rows, and answers which of them.
pub(crate) async fn perform(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    let (Parameters::Rows(ids), [schema, table]) = (&request.parameters, request.places) else {
        return Err(request.mistaken());
    };
    let order = match request.action {
        Action::RowsSkip => RowOrder::Skip,
        Action::RowsReplay => RowOrder::Replay,
        _ => return Err(request.mistaken()),
    };
    let table = tx.outbox().attached_table(&named(schema, table)?).await?;
    request.check_scope(&object(&table.topic))?;
    let (actor, reason) = (request.actor(), request.required_reason());
    let ordered = tx.outbox().order_attached(&table, order, ids, &actor, reason).await?;
    let refused = ordered.refused.into_iter().map(|(id, refusal)| RefusedRow {
        id: id.get(),
        code: refusal.code().to_string(),
        detail: refusal.to_string(),
        remedy: refusal.fix().to_owned(),
    });
    let refused = refused.collect();
    let changed = ordered.changed.into_iter().map(EventId::get).collect();
    Ok((StatusCode::OK, json!(OrderedRows { changed, refused })))
}
