//! Rows of attached tables with status FAILED: listing, skipping and replaying them.

use crate::api::outbox::failed_event::operate::IDS_MAX;
use crate::api::outbox::object;
use crate::api::{List, QueryString, Read, limit};
use crate::operate::{ActionBody, ActionRequest, Outcome, Parameters};
use crate::problem::Problem;
use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use serde_json::json;
use tidemill_api::Page;
use tidemill_api::attached_table::{FailedRow, ListFailedRows};
use tidemill_api::failed_event::{ChangeRows, ChangedEvents};
use tidemill_domain::action::Action;
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::attached::TableName;
use tidemill_store::Tx;
use tidemill_store::outbox::attached::RowOrder;
use tidemill_store::outbox::attached::failed::Skipped;

/// List rows of an attached table with status FAILED, without their payloads.
#[utoipa::path(get, path = "/api/v1/outbox/attached/{schema}/{table}/failed", operation_id = "list_failed_rows", params(("schema" = String, Path, description = "Schema of the table"), ("table" = String, Path, description = "Name of the table"), ListFailedRows), responses((status = 200, body = Page<FailedRow>)))]
pub(crate) async fn list(
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
    fn reason(&self) -> Option<&str> {
        Some(&self.reason)
    }

    fn parameters(&self) -> Result<Parameters, Problem> {
        if !(1..=IDS_MAX).contains(&self.ids.len()) {
            let remedy = format!("send 1 to {IDS_MAX} ids");
            return Err(Problem::bad_request("the list of ids is empty or too long", remedy));
        }
        Ok(Parameters::Rows(self.ids.iter().copied().map(EventId::new).collect()))
    }
}

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
