//! The audit log.

use crate::api::{QueryString, limit, page_of};
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::State as Given;
use serde::{Deserialize, Serialize};
use tidemill_domain::audit::AuditRecord;
use tidemill_store::audit::AuditFilter;
use utoipa::{IntoParams, ToSchema};

/// What to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListAudit {
    /// At most so many; 50 when not given, 500 at most.
    limit: Option<u32>,
    /// Only entries before this id: the last id of the page before.
    before: Option<i64>,
    /// Only entries from this instant on.
    since: Option<String>,
    /// Only what this actor did.
    actor: Option<String>,
    /// Only this action.
    action: Option<String>,
    /// Only what was done to this object.
    object: Option<String>,
}

/// An entry of the audit log.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Entry {
    /// Its number; grows.
    id: i64,
    /// When.
    at: String,
    /// Who.
    actor: String,
    /// In which capacity.
    role: String,
    /// What.
    action: String,
    /// To what.
    object: String,
    /// State before.
    from: Option<String>,
    /// State after.
    to: Option<String>,
    /// Why.
    reason: Option<String>,
    /// By which request.
    request_id: Option<String>,
}

/// A page of the audit log.
#[derive(Debug, Serialize, ToSchema)]
pub struct Entries {
    /// The newest first.
    items: Vec<Entry>,
    /// Ask with `before` this for the next page; none when this was the last.
    next: Option<i64>,
}

impl From<AuditRecord> for Entry {
    fn from(record: AuditRecord) -> Self {
        Self {
            id: record.id,
            at: record.at.to_string(),
            actor: record.entry.actor.name,
            role: record.entry.actor.role.as_str().to_owned(),
            action: record.entry.action,
            object: record.entry.object,
            from: record.entry.from,
            to: record.entry.to,
            reason: record.entry.reason,
            request_id: record.entry.actor.request_id,
        }
    }
}

/// Who changed what, when and why.
#[utoipa::path(get, path = "/api/v1/audit", params(ListAudit), responses((status = 200, body = Entries)))]
pub(crate) async fn list(
    Given(state): Given<State>,
    QueryString(asked): QueryString<ListAudit>,
) -> Result<Json<Entries>, Problem> {
    let limit = limit(asked.limit)?;
    let since = asked.since.as_deref().map(str::parse).transpose();
    let filter = AuditFilter {
        before_id: asked.before,
        since: since.map_err(|error| Problem::bad_request(format!("since: {error}"), "use RFC 3339"))?,
        actor: asked.actor,
        action: asked.action,
        object: asked.object,
    };
    let mut tx = state.read().await?;
    let records = tx.audit().entries(&filter, limit + 1).await?;
    let (items, next) = page_of(records, limit, |record| record.id);
    Ok(Json(Entries { items, next }))
}
