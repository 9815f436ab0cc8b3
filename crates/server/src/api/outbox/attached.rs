//! Attached tables: existing tables that relays publish from.

pub mod failed;

use super::object;
use crate::api::{Body, List, Read};
use crate::mutation::Caller;
use crate::problem::Problem;
use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use tidemill_api::Page;
use tidemill_api::attached_table::{AttachTable, AttachedTable, NewAttachedTable};
use tidemill_domain::outbox::attached::{self, BadTableName, TableName};
use tidemill_store::outbox::AttachError;

impl From<AttachError> for Problem {
    fn from(error: AttachError) -> Self {
        match error {
            AttachError::Store(error) => error.into(),
            other => {
                let why = other.why().map(|why| format!(": {why}")).unwrap_or_default();
                Self::new(other.code(), format!("{other}{why}"), other.fix())
            }
        }
    }
}

impl From<BadTableName> for Problem {
    fn from(bad: BadTableName) -> Self {
        Self::new(bad.code(), bad.to_string(), "write schema and table as they are in the database")
    }
}

/// List the attached tables.
#[utoipa::path(get, path = "/api/v1/outbox/attached", operation_id = "list_attached_tables", responses((status = 200, body = Page<AttachedTable>)))]
pub(crate) async fn list(Read(mut tx): Read) -> List<AttachedTable> {
    let records = tx.outbox().attached_tables().await?;
    Ok(Json(Page::whole(&records)))
}

/// Attach a table. This checks the table and creates indexes, which waits for running transactions. Repeating the
/// request resumes it.
#[utoipa::path(post, path = "/api/v1/outbox/attached", operation_id = "attach_table", request_body = AttachTable, responses((status = 201, body = NewAttachedTable)))]
pub(crate) async fn attach(caller: Caller, Body(body): Body<AttachTable>) -> Result<Response, Problem> {
    let Caller { state, principal, .. } = &caller;
    let name = TableName::new(body.schema.as_deref().unwrap_or("public"), &body.table)?;
    let table = attached::AttachedTable::new(
        name,
        &body.topic,
        body.aggregate_type.as_deref(),
        body.event_type.as_deref(),
        body.time_zone.as_deref(),
    )?;
    let topic = object(Some(&table.topic));
    // Before the table is changed.
    principal.check_scope(&topic)?;
    state.store().examine_table(&table).await?;
    state.store().index_attached(&table.name).await?;
    let warnings = state.store().examine_table(&table).await?.warnings;
    let actor = principal.actor();
    let what = format!("POST /api/v1/outbox/attached {}", json!(body));
    caller
        .run(&topic, &what, async |tx| {
            // Changing the topic takes events away from the old one, so the caller needs both scopes.
            if let Some(before) = tx.outbox().lock_attached_tables(&table.name).await? {
                principal.check_scope(&object(Some(&before.topic)))?;
            }
            tx.outbox().attach_table(&table, &actor).await?;
            Ok((StatusCode::CREATED, json!(NewAttachedTable { table: table.name.to_string(), warnings })))
        })
        .await
}

/// Detach a table. Its indexes stay.
#[utoipa::path(delete, path = "/api/v1/outbox/attached/{schema}/{table}", operation_id = "detach_table", params(("schema" = String, Path, description = "Schema of the table"), ("table" = String, Path, description = "Name of the table")), responses((status = 200)))]
pub(crate) async fn detach(
    caller: Caller,
    Path((schema, table)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let principal = &caller.principal;
    let (name, actor) = (TableName::new(&schema, &table)?, principal.actor());
    let what = format!("DELETE /api/v1/outbox/attached/{schema}/{table}");
    caller
        .run_finding(&what, async |tx| {
            let table = tx.outbox().attached_table(&name).await?;
            principal.check_scope(&object(Some(&table.topic)))?;
            tx.outbox().detach_table(&name, &actor).await?;
            Ok((StatusCode::OK, json!({})))
        })
        .await
}
