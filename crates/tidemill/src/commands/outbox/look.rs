//! What people see of the outbox: `outbox list`, `show` and `relays`.

use super::stats::rounded;
use crate::context::Context;
use crate::output::print_fields;
use crate::report::Failure;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Value, json};
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::outbox::{EventId, Headers, Payload, StoredHeaders};
use tidemill_store::outbox::failed_event::FailedEventDetail;
use tidemill_store::outbox::{EventDetail, EventFilter};

/// Which events to list.
#[derive(Args, Debug)]
pub(crate) struct List {
    /// Only of aggregates of this type
    #[arg(long, value_name = "TYPE")]
    aggregate_type: Option<String>,
    /// Only of the aggregate with this id
    #[arg(long, value_name = "ID")]
    aggregate_id: Option<String>,
    /// Only of this type
    #[arg(long, value_name = "TYPE")]
    event_type: Option<String>,
    /// Only to this topic
    #[arg(long)]
    topic: Option<String>,
    /// Only events before this one, for the next page
    #[arg(long, value_name = "EVENT_ID")]
    before: Option<EventId>,
    /// At most so many events
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

pub(super) async fn list(arguments: List, context: &Context) -> Result<Exit, Failure> {
    let filter = EventFilter {
        before: arguments.before,
        aggregate_type: arguments.aggregate_type,
        aggregate_id: arguments.aggregate_id,
        topic: arguments.topic,
        event_type: arguments.event_type,
    };
    let mut tx = context.read().await?;
    let events = tx.outbox().events(&filter, arguments.limit).await?;
    context.list("tidemill.outbox_event/v1", "No such events.", &events).columns(&[
        ("event", |event| json!(event.id.get())),
        ("at", |event| json!(event.created_at.to_string())),
        ("aggregate_type", |event| json!(event.aggregate.kind)),
        ("aggregate_id", |event| json!(event.aggregate.id)),
        ("event_type", |event| json!(event.event_type)),
        ("topic", |event| json!(event.topic)),
        ("slot", |event| json!(event.slot.get())),
        // A tombstone has none, which is not the same as an empty payload.
        ("bytes", |event| json!(event.bytes)),
    ])?;
    if let Some(last) = events.last().filter(|_| events.len() == arguments.limit as usize) {
        context.note(&format!("there may be more: go on with --before {}", last.id));
    }
    Ok(Exit::Ok)
}

pub(super) async fn show(id: EventId, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let found = tx.outbox().event_detail(id).await?;
    let detail = found.ok_or_else(|| {
        let fix = "see `tidemill outbox list`; events that were published long ago are forgotten";
        Failure::new(Code::EventNotFound, format!("there is no event {id}"), fix)
    })?;
    print_fields("tidemill.outbox_event_detail/v1", &fields(&detail), context.output())
}

fn fields(detail: &EventDetail) -> Vec<(&'static str, Value)> {
    let event = &detail.event;
    let (headers, bad_headers): (Option<&Headers>, _) = match &event.headers {
        StoredHeaders::Good(headers) => (Some(headers), None),
        StoredHeaders::Bad { text, why } => (None, Some((text, why))),
    };
    let (payload, payload_base64) = match &event.payload {
        Payload::Json(text) => (Some(text), None),
        Payload::Bytes(bytes) => (None, Some(STANDARD.encode(bytes))),
        Payload::Tombstone => (None, None),
    };
    let mut fields = vec![
        ("event", json!(event.id.get())),
        ("state", json!(detail.fate.as_str())),
        ("at", json!(event.created_at.to_string())),
        ("aggregate_type", json!(event.aggregate.kind)),
        ("aggregate_id", json!(event.aggregate.id)),
        ("event_type", json!(event.event_type)),
        ("topic", json!(event.topic)),
        ("slot", json!(event.slot.get())),
        ("owner", json!(detail.owner.map(|owner| owner.to_string()))),
        ("epoch", json!(detail.epoch.get())),
        ("headers", json!(headers)),
        ("unreadable_headers", json!(bad_headers.map(|(text, why)| format!("{why}: {text}")))),
        ("is_tombstone", json!(event.payload == Payload::Tombstone)),
        ("payload", json!(payload)),
        ("payload_base64", json!(payload_base64)),
    ];
    fields.extend(detail.failed_event.as_ref().map(failed).into_iter().flatten());
    fields
}

/// What `outbox failed` tells more of.
fn failed(detail: &FailedEventDetail) -> Vec<(&'static str, Value)> {
    let record = &detail.record;
    let next_attempt_at = record.failed_event.state.next_attempt_at().map(|at| at.to_string());
    vec![
        ("attempts", json!(record.failed_event.attempts)),
        ("next_attempt_at", json!(next_attempt_at)),
        ("behind", json!(record.behind.map(EventId::get))),
        ("error", json!(record.error)),
        ("is_edited", json!(record.is_edited)),
        ("is_redirected", json!(record.is_redirected)),
    ]
}

pub(super) async fn relays(context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let relays = tx.outbox().relays().await?;
    let damaged = tx.outbox().damaged_relays().await?;
    context.list("tidemill.outbox_relay/v1", "No relay is running.", &relays).columns(&[
        ("relay", |detail| json!(detail.relay.id.to_string())),
        ("name", |detail| json!(detail.relay.name)),
        ("host", |detail| json!(detail.relay.host)),
        ("pid", |detail| json!(detail.relay.pid)),
        ("process", |detail| json!(detail.process.to_string())),
        ("sink", |detail| json!(detail.sink)),
        ("instance", |detail| json!(detail.relay.instance.map(|instance| instance.to_string()))),
        ("slots", |detail| json!(detail.relay.slots)),
        ("published", |detail| json!(detail.tally.published)),
        ("published_per_second", |detail| json!(rounded(detail.published_per_second()))),
        ("empty_poll_ratio", |detail| json!(rounded(detail.tally.empty_poll_ratio()))),
        ("queries_per_10000_events", |detail| json!(rounded(detail.tally.queries_per_10000_events()))),
        ("joined_at", |detail| json!(detail.relay.joined_at.to_string())),
        ("until", |detail| json!(detail.until.to_string())),
    ])?;
    for error in &damaged {
        context.note(&format!("{}: {error}; {}", error.code(), error.fix()));
    }
    Ok(Exit::Ok)
}
