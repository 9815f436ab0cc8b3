//! Attached tables: existing tables that relays publish from, and their failed rows.

use super::failed_event::IDS_MAX;
use super::object;
use crate::api::{Body, List, QueryString, Read, limit};
use crate::mutation::Caller;
use crate::operate::{ActionBody, ActionRequest, Outcome, Parameters, checked};
use crate::problem::Problem;
use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use tidemill_api::Page;
use tidemill_api::attached_table::{AttachTable, AttachedTable, FailedRow, ListFailedRows, NewAttachedTable};
use tidemill_api::failed_event::{ChangeRows, ChangedEvents};
use tidemill_domain::action::Action;
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::attached::{self, BadTableName, TableName};
use tidemill_store::Tx;
use tidemill_store::outbox::AttachError;
use tidemill_store::outbox::attached::RowOrder;
use tidemill_store::outbox::attached::failed::Skipped;

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

/// List rows of an attached table with status FAILED, without their payloads.
#[utoipa::path(get, path = "/api/v1/outbox/attached/{schema}/{table}/failed", operation_id = "list_failed_rows", params(("schema" = String, Path, description = "Schema of the table"), ("table" = String, Path, description = "Name of the table"), ListFailedRows), responses((status = 200, body = Page<FailedRow>)))]
pub(crate) async fn failed(
    Path((schema, table)): Path<(String, String)>,
    QueryString(query): QueryString<ListFailedRows>,
    Read(mut tx): Read,
) -> List<FailedRow> {
    let (name, limit) = (TableName::new(&schema, &table)?, limit(query.limit)?);
    let after = EventId::new(query.after.unwrap_or(i64::MIN));
    let skipped = if query.skipped { Skipped::Too } else { Skipped::Not };
    let table = tx.outbox().attached_table(&name).await?;
    let records = tx.outbox().attached_failed(&table, after, limit + 1, skipped).await?;
    Ok(Json(Page::of(&records, limit, |record| record.id.get())))
}

impl ActionBody for ChangeRows {
    fn read(&self) -> Result<(Option<&str>, Parameters), Problem> {
        let reason = checked(&self.reason)?;
        if !(1..=IDS_MAX).contains(&self.ids.len()) {
            let remedy = format!("send 1 to {IDS_MAX} ids");
            return Err(Problem::bad_request("the list of ids is empty or too long", remedy));
        }
        Ok((Some(reason), Parameters::Rows(self.ids.iter().copied().map(EventId::new).collect())))
    }
}

/// Skips or replays failed rows.
pub(crate) async fn perform(request: &ActionRequest<'_>, tx: &mut Tx) -> Outcome {
    let (Parameters::Rows(ids), [schema, table]) = (&request.parameters, request.places) else {
        return Err(request.mistaken());
    };
    let order = match request.action {
        Action::RowsSkip => RowOrder::Skip,
        Action::RowsReplay => RowOrder::Replay,
        _ => return Err(request.mistaken()),
    };
    let table = tx.outbox().attached_table(&TableName::new(schema, table)?).await?;
    request.check_scope(&object(Some(&table.topic)))?;
    let (actor, reason) = (request.actor(), request.required_reason());
    let ordered = tx.outbox().order_attached(&table, order, ids, &actor, reason).await?;
    Ok((StatusCode::OK, json!(ChangedEvents::from(ordered))))
}
