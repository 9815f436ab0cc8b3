//! Explains one ticket.

use crate::report::Result;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use tidemill_api::pool::{PoolLease, PoolPlace};
use tidemill_domain::pool::what_if::most_that_would_start;
use tidemill_domain::pool::{Ledger, PoolName, State, Ticket, ticket_history};
use tidemill_domain::time::Timestamp;
use tidemill_store::Tx;
use tidemill_store::pool::TicketRecord;

/// Maximum number of requests ahead and of holders that are listed.
const LISTED: usize = 5;

/// Maximum number of records of a ticket.
const RECORDS: u32 = 1_000;

#[derive(Serialize)]
pub(super) struct Explanation {
    #[serde(flatten)]
    pub(super) lease: PoolLease,
    /// Units in use in the pool; none when the ticket has ended.
    pub(super) in_use: Option<u64>,
    pub(super) limit: Option<u64>,
    /// None unless the ticket is in the queue.
    pub(super) queue: Option<QueueExplanation>,
    /// Decisions about the ticket.
    pub(super) log: Vec<LogEntry>,
}

#[derive(Serialize)]
pub(super) struct QueueExplanation {
    pub(super) position: u32,
    pub(super) length: usize,
    pub(super) waited_seconds: u64,
    pub(super) reason: &'static str,
    pub(super) message: &'static str,
    pub(super) eta_seconds: Option<u64>,
    pub(super) eta_p90_seconds: Option<u64>,
    /// The first requests in the queue, and the units they wait for.
    pub(super) ahead: Vec<TicketUnits>,
    pub(super) largest_holders: Vec<TicketUnits>,
    /// The largest degree with which it would start now.
    pub(super) would_start_with: Option<NonZeroU32>,
}

#[derive(Serialize)]
pub(super) struct TicketUnits {
    pub(super) id: String,
    pub(super) holder_name: String,
    pub(super) units: u64,
}

#[derive(Serialize)]
pub(super) struct LogEntry {
    pub(super) at: Timestamp,
    pub(super) message: String,
}

pub(super) async fn explain(tx: &mut Tx, record: &TicketRecord, now: Timestamp) -> Result<Explanation> {
    let records = tx.pools().ticket_log(record.ticket.id, RECORDS).await?;
    let entries = records.iter().filter_map(|decided| {
        let message = ticket_history::line(decided.at, &decided.event, &record.ticket)?;
        Some(LogEntry { at: decided.at, message })
    });
    let log = entries.collect();
    let mut explanation = Explanation { lease: record.into(), in_use: None, limit: None, queue: None, log };
    if record.ticket.state.has_ended() {
        return Ok(explanation);
    }
    let mut ledgers = BTreeMap::new();
    for pool in record.ticket.with.iter().chain([&record.pool]) {
        if let Some(ledger) = tx.pools().ledger(pool).await? {
            ledgers.insert(pool.clone(), ledger);
        }
    }
    if let Some(ledger) = ledgers.get(&record.pool) {
        explanation.in_use = Some(ledger.usage());
        explanation.limit = Some(ledger.settings().limit_at(now));
        explanation.queue = explain_queue(ledger, &ledgers, record, now);
    }
    Ok(explanation)
}

fn explain_queue(
    ledger: &Ledger,
    ledgers: &BTreeMap<PoolName, Ledger>,
    record: &TicketRecord,
    now: Timestamp,
) -> Option<QueueExplanation> {
    let places = PoolPlace::queue(ledger, now, usize::MAX);
    let id = record.ticket.id.to_string();
    let index = places.iter().position(|place| place.id == id)?;
    let (before, place) = (places.get(..index)?, places.get(index)?);
    let units = |place: &PoolPlace| TicketUnits {
        id: place.id.clone(),
        holder_name: place.holder_name.clone(),
        units: place.units,
    };
    Some(QueueExplanation {
        position: place.position,
        length: places.len(),
        waited_seconds: place.waited_seconds,
        reason: place.reason,
        message: place.message,
        eta_seconds: place.eta_seconds,
        eta_p90_seconds: place.eta_p90_seconds,
        ahead: before.iter().take(LISTED).map(units).collect(),
        largest_holders: largest_holders(ledger),
        would_start_with: match record.ticket.state {
            State::Waiting => most_that_would_start(ledgers, &record.pool, record.ticket.id, now),
            _ => None,
        },
    })
}

fn largest_holders(ledger: &Ledger) -> Vec<TicketUnits> {
    let mut holders: Vec<&Ticket> = ledger.tickets().filter(|ticket| ticket.state.counts()).collect();
    holders.sort_by_key(|ticket| Reverse(ticket.units()));
    let units = |ticket: &Ticket| TicketUnits {
        id: ticket.id.to_string(),
        holder_name: ticket.holder.to_string(),
        units: ticket.units(),
    };
    holders.into_iter().take(LISTED).map(units).collect()
}
