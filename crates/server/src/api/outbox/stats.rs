//! How the outbox stands. What is not known is null, never 0.

use crate::api::QueryString;
use crate::problem::Problem;
use crate::state::State;
use axum::Json;
use axum::extract::State as Given;
use serde::{Deserialize, Serialize};
use tidemill_domain::outbox;
use tidemill_store::outbox::{AttachedStanding, Backlog, OutboxStats, SlotLag};
use utoipa::{IntoParams, ToSchema};

/// How far is counted.
const COUNT_MAX: u32 = 10_000;

/// What to tell.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ShowOutboxStats {
    /// Whether to tell it slot by slot as well.
    #[serde(default)]
    slots: bool,
}

/// A number that was counted only so far.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct OutboxCount {
    /// So many there are for sure.
    at_least: u64,
    /// Whether there are no more.
    is_exact: bool,
}

/// One slot.
#[derive(Debug, Serialize, ToSchema)]
pub struct OutboxSlot {
    /// Its number, from 0 to 255.
    slot: u8,
    /// The relay that has it.
    owner: Option<String>,
    /// How many owners it has had.
    epoch: i64,
    /// Events that are still to be published; null when it is not known.
    unpublished: Option<OutboxCount>,
    /// When the oldest of them was written.
    unpublished_oldest_at: Option<String>,
    /// Events that were not read yet; null when it is not known.
    unread: Option<OutboxCount>,
    /// When the oldest of them was written.
    oldest_at: Option<String>,
}

/// One partition of the table of events.
#[derive(Debug, Serialize, ToSchema)]
pub struct OutboxPartition {
    /// Its name.
    name: String,
    /// The first id in it; null for the default partition.
    from: Option<i64>,
    /// The first id after it.
    to: Option<i64>,
    /// About how many events it has; null when nobody has estimated that.
    rows: Option<u64>,
    /// How large it is, with its indexes.
    bytes: u64,
}

/// Events that were not taken, and those behind them.
#[derive(Debug, Serialize, ToSchema)]
pub struct OutboxFailedEvents {
    /// The next attempt has its time.
    waiting: Option<OutboxCount>,
    /// When the oldest of them was written; null when there is none, or it is not known.
    waiting_oldest_at: Option<String>,
    /// Behind another one of their aggregate.
    held: Option<OutboxCount>,
    /// Nobody tries any more.
    parked: Option<OutboxCount>,
    /// When the oldest of them was written; null when there is none, or it is not known.
    parked_oldest_at: Option<String>,
    /// Not published, by the word of an operator.
    skipped: Option<OutboxCount>,
}

/// Rows of a table that was there before, by status; null when it cannot be read.
#[derive(Debug, Serialize, ToSchema)]
pub struct OutboxAttached {
    /// Its schema and its name.
    table: String,
    /// To be sent.
    pending: Option<OutboxCount>,
    /// In the hands of a relay.
    sending: Option<OutboxCount>,
    /// Tried in vain.
    failed: Option<OutboxCount>,
    /// When the oldest of those that are to be sent was last changed; null when there is none, or it is not known.
    oldest_at: Option<String>,
}

/// How the outbox stands.
#[derive(Debug, Serialize, ToSchema)]
pub struct OutboxStanding {
    /// The instant of the look.
    at: String,
    /// Events that are still to be published: those that no relay has read yet, and those that wait, are held or are
    /// parked; null when it is not known.
    unpublished: Option<OutboxCount>,
    /// When the oldest of them was written; null when there is none, or it is not known.
    unpublished_oldest_at: Option<String>,
    /// Events that no relay has read yet; null when it is not known.
    unread: Option<OutboxCount>,
    /// When the oldest of them was written; null when there is none, or it is not known.
    oldest_at: Option<String>,
    /// What has failed.
    failed_events: OutboxFailedEvents,
    /// Relays that are alive.
    relays: usize,
    /// Events per second of the live relays, over the life of each; null without one.
    published_per_second: Option<f64>,
    /// Which part of their polls found nothing; null when none has asked yet.
    empty_poll_ratio: Option<f64>,
    /// Their statements for 10,000 events; null when they have published none.
    queries_per_10000_events: Option<f64>,
    /// Slots that no live relay has.
    unowned_slots: u64,
    /// Fixed shares that no live relay has.
    missing_shares: Vec<u32>,
    /// Events in the default partition; null where there are no partitions.
    default_rows: Option<OutboxCount>,
    /// Bytes of the write-ahead log that acknowledgements cost for each event; null when nobody has counted.
    wal_bytes_per_event: Option<f64>,
    /// The partitions; empty where there are none.
    partitions: Vec<OutboxPartition>,
    /// The attached tables.
    attached: Vec<OutboxAttached>,
    /// Slot by slot, if that was asked for and is known.
    slots: Option<Vec<OutboxSlot>>,
}

/// How the outbox stands.
#[utoipa::path(
    get,
    path = "/api/v1/outbox/stats",
    params(ShowOutboxStats),
    responses((status = 200, body = OutboxStanding))
)]
pub(crate) async fn show(
    Given(state): Given<State>,
    QueryString(asked): QueryString<ShowOutboxStats>,
) -> Result<Json<OutboxStanding>, Problem> {
    let mut tx = state.read().await?;
    let stats = tx.outbox().stats(COUNT_MAX).await?;
    let attached = tx.outbox().attached_standings(COUNT_MAX).await?;
    Ok(Json(standing(&stats, &attached, asked.slots)))
}

fn standing(stats: &OutboxStats, attached: &[AttachedStanding], with_slots: bool) -> OutboxStanding {
    let (unpublished, unread) = (stats.unpublished(), stats.unread());
    let (failed_events, tally) = (&stats.failed_events, stats.tally());
    let slots = |lag: &Vec<SlotLag>| {
        lag.iter().map(|lag| slot(lag, lag.unread().plus(failed_events.of_slot(lag.slot)))).collect()
    };
    OutboxStanding {
        at: stats.at.to_string(),
        unpublished: unpublished.and_then(|backlog| counted(backlog.rows)),
        unpublished_oldest_at: unpublished.and_then(oldest),
        unread: unread.and_then(|backlog| counted(backlog.rows)),
        oldest_at: unread.and_then(oldest),
        failed_events: OutboxFailedEvents {
            waiting: counted(failed_events.waiting.rows),
            waiting_oldest_at: oldest(failed_events.waiting),
            held: counted(failed_events.held.rows),
            parked: counted(failed_events.parked.rows),
            parked_oldest_at: oldest(failed_events.parked),
            skipped: counted(failed_events.skipped),
        },
        relays: stats.relays.len(),
        published_per_second: stats.published_per_second(),
        empty_poll_ratio: tally.empty_poll_ratio(),
        queries_per_10000_events: tally.queries_per_10000_events(),
        unowned_slots: stats.unowned,
        missing_shares: stats.missing_shares.clone(),
        default_rows: stats.default_rows.and_then(counted),
        wal_bytes_per_event: stats.wal_bytes_per_event,
        partitions: stats
            .partitions
            .iter()
            .map(|partition| OutboxPartition {
                name: partition.name.clone(),
                from: partition.range.map(|range| range.from),
                to: partition.range.map(|range| range.to),
                rows: partition.rows,
                bytes: partition.bytes,
            })
            .collect(),
        attached: attached.iter().map(table).collect(),
        slots: stats.lag.as_ref().filter(|_| with_slots).map(slots),
    }
}

fn table(AttachedStanding { name, counts }: &AttachedStanding) -> OutboxAttached {
    OutboxAttached {
        table: name.to_string(),
        pending: counts.and_then(|counts| counted(counts.pending)),
        sending: counts.and_then(|counts| counted(counts.sending)),
        failed: counts.and_then(|counts| counted(counts.failed)),
        oldest_at: counts.and_then(|counts| counts.oldest).map(|oldest| oldest.to_string()),
    }
}

fn slot(lag: &SlotLag, unpublished: Backlog) -> OutboxSlot {
    OutboxSlot {
        slot: lag.slot.get(),
        owner: lag.owner.map(|owner| owner.to_string()),
        epoch: lag.epoch.get(),
        unpublished: counted(unpublished.rows),
        unpublished_oldest_at: oldest(unpublished),
        unread: counted(lag.rows),
        oldest_at: lag.oldest.map(|oldest| oldest.to_string()),
    }
}

fn oldest(backlog: Backlog) -> Option<String> {
    backlog.oldest.map(|oldest| oldest.to_string())
}

fn counted(count: outbox::Count) -> Option<OutboxCount> {
    match count {
        outbox::Count::AtLeast(0) => None,
        known => Some(OutboxCount { at_least: known.least(), is_exact: known.is_exact() }),
    }
}
