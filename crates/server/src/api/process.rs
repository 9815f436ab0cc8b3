//! Processes and their leases.

use crate::api::{List, QueryString, Read, limit};
use axum::Json;
use tidemill_api::process::{Lease, Process};
use tidemill_api::{Limit, Page};

/// List the processes that use this database, live ones first.
#[utoipa::path(get, path = "/api/v1/processes", operation_id = "list_processes", params(Limit), responses((status = 200, body = Page<Process>)))]
pub(crate) async fn list(QueryString(query): QueryString<Limit>, Read(mut tx): Read) -> List<Process> {
    let now = tx.now().await?;
    let records = tx.processes().list(limit(query.limit)?).await?;
    Ok(Json(Page::whole(records.iter().map(|record| (record, now)))))
}

/// List the leases, held ones first.
#[utoipa::path(get, path = "/api/v1/leases", operation_id = "list_leases", tag = "lease", params(Limit), responses((status = 200, body = Page<Lease>)))]
pub(crate) async fn leases(QueryString(query): QueryString<Limit>, Read(mut tx): Read) -> List<Lease> {
    let records = tx.leases().list(limit(query.limit)?).await?;
    Ok(Json(Page::whole(&records)))
}
