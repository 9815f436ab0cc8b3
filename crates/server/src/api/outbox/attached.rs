//! Tables that were there before, which relays serve beside the outbox: attached, listed, given up; and their rows that
//! have FAILED.

pub mod failed;

use crate::api::Body;
use crate::api::outbox::event::bad_event;
use crate::mutation::Caller;
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Given};
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidemill_domain::outbox::attached::{AttachedTable, TableName};
use tidemill_store::outbox::{AttachError, AttachedRecord};
use utoipa::ToSchema;

/// A table that is to be attached.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachTable {
    /// Its name, as the catalogue has it.
    table: String,
    /// Its schema; `public` when not given.
    schema: Option<String>,
    /// Where its events go.
    topic: String,
    /// What sort of thing its aggregates are; the name of the table when not given.
    aggregate_type: Option<String>,
    /// What happened, where the headers of a row do not say it; the name of the table when not given.
    event_type: Option<String>,
    /// The zone of columns that have none; `UTC` when not given.
    time_zone: Option<String>,
}

/// A table that is attached.
#[derive(Debug, Serialize, ToSchema)]
pub struct Attached {
    /// Its schema.
    schema: String,
    /// Its name.
    table: String,
    /// Where its events go.
    topic: String,
    /// What sort of thing its aggregates are.
    aggregate_type: String,
    /// What happened, where the headers of a row do not say it.
    event_type: String,
    /// The zone of columns that have none.
    time_zone: String,
    /// Since when it is served.
    since: String,
    /// By whose order.
    by: String,
}

/// A table that was just attached.
#[derive(Debug, Serialize, ToSchema)]
pub struct AttachedNow {
    /// The table.
    table: String,
    /// What people ought to know about it.
    warnings: Vec<String>,
}

/// The tables that are attached.
#[derive(Debug, Serialize, ToSchema)]
pub struct AttachedTables {
    /// By name.
    items: Vec<Attached>,
}

impl From<AttachedRecord> for Attached {
    fn from(record: AttachedRecord) -> Self {
        Self {
            schema: record.table.name.schema().to_owned(),
            table: record.table.name.table().to_owned(),
            topic: record.table.topic,
            aggregate_type: record.table.aggregate_type,
            event_type: record.table.event_type,
            time_zone: record.table.time_zone,
            since: record.since.to_string(),
            by: record.adopted_by,
        }
    }
}

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

/// The tables that relays serve beside the outbox.
#[utoipa::path(get, path = "/api/v1/outbox/attached", responses((status = 200, body = AttachedTables)))]
pub(crate) async fn list(Given(state): Given<State>) -> Result<Json<AttachedTables>, Problem> {
    let mut tx = state.read().await?;
    let records = tx.outbox().attached_tables().await?;
    Ok(Json(AttachedTables { items: records.into_iter().map(Attached::from).collect() }))
}

/// Lets relays serve a table. It is checked first, and its indexes are made, which waits for all transactions that are at
/// work; sent again, the request goes on where it was.
#[utoipa::path(post, path = "/api/v1/outbox/attached", request_body = AttachTable, responses((status = 201, body = AttachedNow), (status = 400, body = crate::problem::ProblemBody), (status = 409, body = crate::problem::ProblemBody)))]
pub(crate) async fn attach(caller: Caller, Body(body): Body<AttachTable>) -> Result<Response, Problem> {
    let Caller { state, principal, .. } = &caller;
    let name = named(body.schema.as_deref().unwrap_or("public"), &body.table)?;
    let table = AttachedTable::new(
        name,
        &body.topic,
        body.aggregate_type.as_deref(),
        body.event_type.as_deref(),
        body.time_zone.as_deref(),
    )
    .map_err(|bad| bad_event(&bad))?;
    // Before anything is done to the table.
    principal.check_scope(&object(&table.topic))?;
    state.store().examine_table(&table).await?;
    state.store().index_attached(&table.name).await?;
    let warnings = state.store().examine_table(&table).await?.warnings;
    let actor = principal.actor();
    let what = format!("POST /api/v1/outbox/attached {}", json!(body));
    caller
        .run(&object(&table.topic), &what, async |tx| {
            // To send its events elsewhere is to take them from where they go now.
            if let Some(before) = tx.outbox().lock_attached_tables(&table.name).await? {
                principal.check_scope(&object(&before.topic))?;
            }
            tx.outbox().attach_table(&table, &actor).await?;
            Ok((StatusCode::CREATED, json!(AttachedNow { table: table.name.to_string(), warnings })))
        })
        .await
}

/// Stops serving a table; its indexes stay.
#[utoipa::path(delete, path = "/api/v1/outbox/attached/{schema}/{table}", params(("schema" = String, Path, description = "Its schema"), ("table" = String, Path, description = "Its name")), responses((status = 200), (status = 404, body = crate::problem::ProblemBody)))]
pub(crate) async fn detach(
    caller: Caller,
    Path((schema, table)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let principal = &caller.principal;
    let (name, actor) = (named(&schema, &table)?, principal.actor());
    let what = format!("DELETE /api/v1/outbox/attached/{schema}/{table}");
    caller
        .run_finding(&what, async |tx| {
            let table = tx.outbox().attached_table(&name).await?;
            principal.check_scope(&object(&table.topic))?;
            tx.outbox().detach_table(&name, &actor).await?;
            Ok((StatusCode::OK, json!({})))
        })
        .await
}

/// A name that is accepted.
fn named(schema: &str, table: &str) -> Result<TableName, Problem> {
    TableName::new(schema, table).map_err(|bad| {
        Problem::new(bad.code(), bad.to_string(), "write schema and table as the catalogue has them")
    })
}

/// What a change of a table whose events go to this topic is a change of, for scopes.
fn object(topic: &str) -> String {
    format!("outbox/{topic}")
}
