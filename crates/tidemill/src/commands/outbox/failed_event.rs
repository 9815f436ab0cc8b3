//! `outbox failed`: the events that were not taken; with an id, all about one, and what it says.

use super::failed_row::{self, OfTable};
use super::filter::{Breadth, Filter, event_id};
use super::operate::failure;
use crate::context::Context;
use crate::output::print_fields;
use crate::report::Failure;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Value, json};
use tidemill_domain::code::Exit;
use tidemill_domain::outbox::failed_event::{FailedEventRefusal, Original};
use tidemill_domain::outbox::{EventId, Payload};
use tidemill_store::outbox::attached::failed::Skipped;
use tidemill_store::outbox::failed_event::{FailedEventDetail, FailedEventRecord};

/// Which events to show.
#[derive(Args, Debug)]
pub(crate) struct Failed {
    /// All about the event with this id, and what it says
    #[arg(
        value_name = "EVENT_ID",
        value_parser = event_id,
        conflicts_with_all = ["all", "state", "slot", "aggregate_type", "aggregate_id", "topic", "event_type", "error", "after", "limit", "table"]
    )]
    id: Option<EventId>,
    /// Also those that are tried again, and those that wait behind others
    #[arg(long, conflicts_with = "state")]
    all: bool,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    of_table: OfTable,
    /// Only those behind the event with this id
    #[arg(long, value_name = "ID", value_parser = event_id)]
    after: Option<EventId>,
    /// At most so many events
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

pub(super) async fn run(arguments: Failed, context: &Context) -> Result<Exit, Failure> {
    if let Some(name) = arguments.of_table.name()? {
        failed_row::undescribed(arguments.filter.is_given())?;
        let skipped = if arguments.all { Skipped::Too } else { Skipped::Not };
        return failed_row::list(&name, arguments.after, arguments.limit, skipped, context).await;
    }
    let mut tx = context.read().await?;
    if let Some(id) = arguments.id {
        let found = tx.outbox().failed_event(id).await?;
        let detail = found.ok_or_else(|| failure(id, FailedEventRefusal::Unknown))?;
        return print(&detail, context);
    }
    let filter = arguments.filter.with(if arguments.all { Breadth::Open } else { Breadth::Parked });
    let records =
        tx.outbox().failed_events(&filter, arguments.after.unwrap_or(EventId::ZERO), arguments.limit).await?;
    context.list("tidemill.failed_event/v1", "No failed events.", &records).columns(&[
        ("event", |record| json!(record.id.get())),
        ("state", |record| json!(record.failed_event.state.word().as_str())),
        ("aggregate_type", |record| json!(record.aggregate.kind)),
        ("aggregate_id", |record| json!(record.aggregate.id)),
        ("event_type", |record| json!(record.event_type)),
        ("topic", |record| json!(record.topic)),
        ("attempts", |record| json!(record.failed_event.attempts)),
        ("next_attempt_at", |record| next_attempt_at(record)),
        ("behind", |record| json!(record.behind.map(EventId::get))),
        ("error", |record| json!(record.error)),
    ])?;
    if let Some(last) = records.last().filter(|_| records.len() == arguments.limit as usize) {
        context.note(&format!("there may be more: go on with --after {}", last.id));
    }
    Ok(Exit::Ok)
}

fn next_attempt_at(record: &FailedEventRecord) -> Value {
    json!(record.failed_event.state.next_attempt_at().map(|at| at.to_string()))
}

fn print(detail: &FailedEventDetail, context: &Context) -> Result<Exit, Failure> {
    let record = &detail.record;
    let content = detail.content.as_ref().and_then(|content| content.as_ref().ok());
    let unreadable = detail.content.as_ref().and_then(|content| content.as_ref().err());
    let (payload, payload_base64) = match content.map(|content| &content.payload) {
        Some(Payload::Json(text)) => (Some(text), None),
        Some(Payload::Bytes(bytes)) => (None, Some(STANDARD.encode(bytes))),
        Some(Payload::Tombstone) | None => (None, None),
    };
    let fields = [
        ("event", json!(record.id.get())),
        ("state", json!(record.failed_event.state.word().as_str())),
        ("next_attempt_at", next_attempt_at(record)),
        ("behind", json!(record.behind.map(EventId::get))),
        ("attempts", json!(record.failed_event.attempts)),
        ("error", json!(record.error)),
        ("since", json!(record.since.to_string())),
        ("updated_at", json!(record.updated_at.to_string())),
        ("slot", json!(record.slot.get())),
        ("seq", json!(record.seq.get())),
        ("aggregate_type", json!(record.aggregate.kind)),
        ("aggregate_id", json!(record.aggregate.id)),
        ("event_type", json!(record.event_type)),
        ("topic", json!(record.topic)),
        ("is_redirected", json!(record.is_redirected)),
        ("is_edited", json!(record.is_edited)),
        ("is_gone", json!(record.original == Original::Gone)),
        ("created_at", json!(content.map(|content| content.created_at.to_string()))),
        ("headers", json!(content.map(|content| &content.headers))),
        ("is_tombstone", json!(content.map(|content| content.payload == Payload::Tombstone))),
        ("payload", json!(payload)),
        ("payload_base64", json!(payload_base64)),
        ("unreadable", json!(unreadable.map(ToString::to_string))),
    ];
    print_fields("tidemill.failed_event_detail/v1", &fields, context.output())
}
