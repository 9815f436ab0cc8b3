//! The outbox: events, relays and statistics. Unknown numbers are null, never 0.

use crate::failed_event::FailedEvent;
use crate::shapes;
use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tidemill_domain::outbox::{Count, Payload, StoredHeaders};
use tidemill_domain::time::Timestamp;
use tidemill_store::outbox::{
    self as store, AttachedStats, Backlog, EventRecord, FailedEventCounts, Partition, RelayDetail, SlotLag,
};
use utoipa::ToSchema;

shapes! {
    /// An event, without its payload.
    pub struct Event from event: &EventRecord {
        /// Later events have higher numbers.
        id: i64 = event.id.get(),
        created_at: Timestamp = event.created_at,
        aggregate_type: String = event.aggregate.kind.clone(),
        aggregate_id: String = event.aggregate.id.clone(),
        event_type: String = event.event_type.clone(),
        topic: String = event.topic.clone(),
        slot: u8 = event.slot.get(),
        /// Size of the payload; null for a tombstone.
        bytes: Option<usize> = event.bytes,
    }

    /// A live relay.
    pub struct Relay from detail: &RelayDetail {
        id: String = detail.relay.id.to_string(),
        /// Name of the process.
        name: String = detail.relay.name.clone(),
        host: String = detail.relay.host.clone(),
        /// Operating-system process id on that host.
        pid: u32 = detail.relay.pid,
        /// Id of the process.
        process: String = detail.process.to_string(),
        sink: String = detail.sink.clone(),
        /// Which of a fixed number of relays it is, such as `0/3`; null if relays share the slots evenly.
        instance: Option<String> = detail.relay.instance.map(|instance| instance.to_string()),
        /// How many of the 256 slots it owns.
        slots: usize = detail.relay.slots,
        /// Events published since it joined.
        published: u64 = detail.tally.published,
        /// Events per second since it joined.
        published_per_second: Option<f64> = rounded(detail.published_per_second()),
        /// How often it polled for events.
        polls: u64 = detail.tally.effort.polls,
        /// How many polls found none.
        empty_polls: u64 = detail.tally.effort.empty_polls,
        /// `empty_polls` divided by `polls`; null before the first poll.
        empty_poll_ratio: Option<f64> = rounded(detail.tally.empty_poll_ratio()),
        /// SQL statements for polling, reading and acknowledging.
        queries: u64 = detail.tally.effort.queries,
        /// SQL statements for every 10,000 events; null before the first event.
        queries_per_10000_events: Option<f64> = rounded(detail.tally.queries_per_10000_events()),
        joined_at: Timestamp = detail.relay.joined_at,
        /// The relay loses its slots unless it renews its lease before this time.
        lease_until: Timestamp = detail.until,
    }

    /// One of the 256 slots.
    pub struct OutboxSlot from (lag, failed): (&SlotLag, &FailedEventCounts) {
        /// From 0 to 255.
        slot: u8 = lag.slot.get(),
        /// Id of the relay that owns the slot.
        owner: Option<String> = lag.owner.map(|owner| owner.to_string()),
        /// How many owners the slot has had.
        epoch: i64 = lag.epoch.get(),
        unpublished: Option<OutboxCount> = OutboxCount::new(unpublished(lag, failed).rows),
        unpublished_oldest_at: Option<Timestamp> = unpublished(lag, failed).oldest,
        /// Events that no relay has read.
        unread: Option<OutboxCount> = OutboxCount::new(lag.rows),
        oldest_at: Option<Timestamp> = lag.oldest,
    }

    /// A partition of the event table.
    pub struct OutboxPartition from partition: &Partition {
        name: String = partition.name.clone(),
        /// First id; null for the default partition.
        from: Option<i64> = partition.range.map(|range| range.from),
        /// First id after the partition.
        to: Option<i64> = partition.range.map(|range| range.to),
        /// Estimated number of events.
        rows: Option<u64> = partition.rows,
        /// Size with indexes.
        bytes: u64 = partition.bytes,
    }

    /// Failed events by state.
    pub struct OutboxFailedEvents from counts: &FailedEventCounts {
        /// Retried automatically.
        waiting: Option<OutboxCount> = OutboxCount::new(counts.waiting.rows),
        waiting_oldest_at: Option<Timestamp> = counts.waiting.oldest,
        /// Waiting for an earlier event of the aggregate.
        held: Option<OutboxCount> = OutboxCount::new(counts.held.rows),
        /// Not retried any more.
        parked: Option<OutboxCount> = OutboxCount::new(counts.parked.rows),
        parked_oldest_at: Option<Timestamp> = counts.parked.oldest,
        /// Never published, by order of an operator.
        skipped: Option<OutboxCount> = OutboxCount::new(counts.skipped),
    }

    /// Rows of an attached table by status; null if the table cannot be read.
    pub struct AttachedTableStats from table: &AttachedStats {
        /// Schema and name.
        table: String = table.name.to_string(),
        pending: Option<OutboxCount> = table.counts.and_then(|counts| OutboxCount::new(counts.pending)),
        sending: Option<OutboxCount> = table.counts.and_then(|counts| OutboxCount::new(counts.sending)),
        failed: Option<OutboxCount> = table.counts.and_then(|counts| OutboxCount::new(counts.failed)),
        /// When the oldest pending row was last changed.
        oldest_at: Option<Timestamp> = table.counts.and_then(|counts| counts.oldest),
    }

    /// Statistics of the outbox.
    pub struct OutboxStats from (stats, attached): (&store::OutboxStats, &[AttachedStats]) {
        /// Time of the snapshot.
        at: Timestamp = stats.at,
        /// Unread, waiting, held and parked events.
        unpublished: Option<OutboxCount> = stats.unpublished().and_then(|backlog| OutboxCount::new(backlog.rows)),
        /// When the oldest unpublished event was written.
        unpublished_oldest_at: Option<Timestamp> = stats.unpublished().and_then(|backlog| backlog.oldest),
        /// Events that no relay has read.
        unread: Option<OutboxCount> = stats.unread().and_then(|backlog| OutboxCount::new(backlog.rows)),
        /// When the oldest unread event was written.
        oldest_at: Option<Timestamp> = stats.unread().and_then(|backlog| backlog.oldest),
        failed_events: OutboxFailedEvents = (&stats.failed_events).into(),
        /// Number of live relays.
        relays: usize = stats.relays.len(),
        /// Events per second of all live relays, since each joined; null without relays.
        published_per_second: Option<f64> = rounded(stats.published_per_second()),
        /// Share of polls that found no events; null before the first poll.
        empty_poll_ratio: Option<f64> = rounded(stats.tally().empty_poll_ratio()),
        /// SQL statements for every 10,000 events; null before the first event.
        queries_per_10000_events: Option<f64> = rounded(stats.tally().queries_per_10000_events()),
        /// Slots without a live relay.
        unowned_slots: u64 = stats.unowned,
        /// Fixed instances without a live relay.
        missing_shares: Vec<u32> = stats.missing_shares.clone(),
        /// Events in the default partition; null if there are no partitions.
        default_rows: Option<OutboxCount> = stats.default_rows.and_then(OutboxCount::new),
        /// Bytes of write-ahead log per event for acknowledgements.
        wal_bytes_per_event: Option<f64> = rounded(stats.wal_bytes_per_event),
        partitions: Vec<OutboxPartition> = stats.partitions.iter().map(OutboxPartition::from).collect(),
        attached: Vec<AttachedTableStats> = attached.iter().map(AttachedTableStats::from).collect(),
        /// Only with `slots=true`.
        slots: Option<Vec<OutboxSlot>> = None,
    }

    /// A count that stops at a limit.
    pub struct OutboxCount {
        at_least: u64,
        /// Whether there are no more.
        is_exact: bool,
    }

    /// What to include in the statistics.
    pub struct ShowOutboxStats in query {
        /// Include the 256 slots.
        #[serde(default)]
        slots: bool,
    }

    /// An event with its payload.
    pub struct EventDetail {
        #[serde(flatten)]
        event: Event,
        /// `pending`, `published`, `waiting`, `held`, `parked` or `skipped`.
        state: &'static str,
        /// Id of the relay that owns the slot.
        owner: Option<String>,
        /// How many owners the slot has had.
        epoch: i64,
        payload: EventPayload,
        /// Null if the headers cannot be read.
        headers: Option<BTreeMap<String, String>>,
        /// Why the event cannot be published.
        unreadable: Option<String>,
        /// Set while the event is a failed event.
        failed_event: Option<FailedEvent>,
    }

    /// A new event.
    #[schema(example = json!({ "aggregate_type": "order", "aggregate_id": "4711", "event_type": "order.placed", "topic": "orders", "payload": { "type": "json", "text": "{\"total\": 12.50}" } }))]
    pub struct AddEvent in body {
        /// Such as `order`.
        aggregate_type: String,
        /// Events with the same id are published in order.
        aggregate_id: String,
        /// Such as `order.paid`.
        event_type: String,
        topic: String,
        payload: EventPayload,
        #[serde(default)]
        headers: BTreeMap<String, String>,
    }

    /// An event that was added.
    pub struct AddedEvent {
        id: i64,
        slot: u8,
    }

    /// Filters for a list of events.
    pub struct ListEvents in query {
        /// Maximum number of events, from 1 to 500. Default 50.
        limit: Option<u32>,
        /// Only events before this id: `next` of the previous page.
        before: Option<i64>,
        aggregate_type: Option<String>,
        aggregate_id: Option<String>,
        topic: Option<String>,
        event_type: Option<String>,
    }
}

impl OutboxCount {
    /// None if nothing is known.
    pub fn new(count: Count) -> Option<Self> {
        let is_known = count != Count::AtLeast(0);
        is_known.then(|| Self { at_least: count.least(), is_exact: count.is_exact() })
    }
}

fn rounded(value: Option<f64>) -> Option<f64> {
    value.map(|value| (value * 1_000.0).round() / 1_000.0)
}

fn unpublished(lag: &SlotLag, failed: &FailedEventCounts) -> Backlog {
    lag.unread().plus(failed.of_slot(lag.slot))
}

impl OutboxSlot {
    /// All slots; none if the positions of the slots are unknown.
    pub fn all(stats: &store::OutboxStats) -> Option<Vec<Self>> {
        let slot = |lag| Self::from((lag, &stats.failed_events));
        stats.lag.as_ref().map(|slots| slots.iter().map(slot).collect())
    }
}

/// The payload of an event.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum EventPayload {
    /// JSON as it was written.
    Json { text: String },
    Bytes {
        /// With padding.
        base64: String,
    },
    /// No payload.
    Tombstone {},
}

impl From<&Payload> for EventPayload {
    fn from(payload: &Payload) -> Self {
        match payload {
            Payload::Json(text) => Self::Json { text: text.clone() },
            Payload::Bytes(bytes) => Self::Bytes { base64: STANDARD.encode(bytes) },
            Payload::Tombstone => Self::Tombstone {},
        }
    }
}

impl TryFrom<EventPayload> for Payload {
    type Error = DecodeError;

    fn try_from(payload: EventPayload) -> Result<Self, DecodeError> {
        Ok(match payload {
            EventPayload::Json { text } => Self::Json(text),
            EventPayload::Bytes { base64 } => Self::Bytes(STANDARD.decode(base64)?),
            EventPayload::Tombstone {} => Self::Tombstone,
        })
    }
}

impl From<&store::EventDetail> for EventDetail {
    fn from(detail: &store::EventDetail) -> Self {
        let event = &detail.event;
        let unreadable = match (&event.garbled, &event.headers) {
            (Some(why), _) => Some(why.to_string()),
            (None, StoredHeaders::Bad { text, why }) => Some(format!("{why}: {text}")),
            (None, StoredHeaders::Good(_)) => None,
        };
        Self {
            event: (&EventRecord::from(event)).into(),
            state: detail.outcome.as_str(),
            owner: detail.owner.map(|owner| owner.to_string()),
            epoch: detail.epoch.get(),
            payload: (&event.payload).into(),
            headers: event.headers.good().ok().cloned(),
            unreadable,
            failed_event: detail.failed_event.as_ref().map(|failed| (&failed.record).into()),
        }
    }
}
