//! The audit log.

use crate::api::{List, QueryString, Read, limit};
use crate::problem::Problem;
use axum::Json;
use tidemill_api::Page;
use tidemill_api::audit::{AuditEntry, ListAudit};
use tidemill_store::audit::AuditFilter;

/// List the audit log, newest first: who changed what, when and why.
#[utoipa::path(get, path = "/api/v1/audit", operation_id = "list_audit_entries", params(ListAudit), responses((status = 200, body = Page<AuditEntry>)))]
pub(crate) async fn list(QueryString(query): QueryString<ListAudit>, Read(mut tx): Read) -> List<AuditEntry> {
    let limit = limit(query.limit)?;
    let since = query.since.as_deref().map(str::parse).transpose();
    let filter = AuditFilter {
        before_id: query.before,
        since: since.map_err(|error| Problem::bad_request(format!("since: {error}"), "use RFC 3339"))?,
        actor: query.actor,
        action: query.action,
        object: query.object,
    };
    let records = tx.audit().entries(&filter, limit + 1).await?;
    Ok(Json(Page::of(&records, limit, |record| record.id)))
}
