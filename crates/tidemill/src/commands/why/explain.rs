//! What there is to say about one ticket.

use crate::report::Failure;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use tidemill_domain::pool::command::Level;
use tidemill_domain::pool::estimate::Estimate;
use tidemill_domain::pool::pass::standing;
use tidemill_domain::pool::ticket_history;
use tidemill_domain::pool::what_if::most_that_would_start;
use tidemill_domain::pool::{Ledger, PoolName, Reason, State, Ticket};
use tidemill_domain::time::Timestamp;
use tidemill_store::Tx;
use tidemill_store::pool::TicketRecord;

/// So many of those ahead, and of the holders, are named.
const NAMED: usize = 5;

/// So many records of a ticket are read.
const RECORDS: u32 = 1_000;

pub(super) struct Explained {
    pub(super) record: TicketRecord,
    /// How full its pool is; none when it has ended.
    pub(super) level: Option<Level>,
    /// Where it stands in the queue, if it does.
    pub(super) place: Option<Place>,
    /// What was decided about it.
    pub(super) log: Vec<(Timestamp, String)>,
}

/// A place in the queue.
pub(super) struct Place {
    pub(super) position: u32,
    pub(super) queue_length: usize,
    pub(super) reason: Reason,
    pub(super) estimate: Option<Estimate>,
    /// The first of those ahead, and what they want.
    pub(super) ahead: Vec<(Ticket, u64)>,
    /// The largest holders, and what they have.
    pub(super) holders: Vec<(Ticket, u64)>,
    /// The most with which it would start at once.
    pub(super) would_start_with: Option<NonZeroU32>,
}

pub(super) async fn explain(tx: &mut Tx, record: TicketRecord, now: Timestamp) -> Result<Explained, Failure> {
    let decided = tx.pools().ticket_log(record.ticket.id, RECORDS).await?;
    let log = decided
        .iter()
        .filter_map(|decided| {
            Some((decided.at, ticket_history::line(decided.at, &decided.event, &record.ticket)?))
        })
        .collect();
    if record.ticket.state.has_ended() {
        return Ok(Explained { record, level: None, place: None, log });
    }
    let mut ledgers = BTreeMap::new();
    for pool in record.ticket.with.iter().chain([&record.pool]) {
        if let Some(ledger) = tx.pools().ledger(pool).await? {
            ledgers.insert(pool.clone(), ledger);
        }
    }
    let ledger = ledgers.get(&record.pool);
    let level = ledger.map(|ledger| Level::of(ledger.settings(), ledger.usage(), now));
    let place = ledger.and_then(|ledger| place(ledger, &ledgers, &record, now));
    Ok(Explained { record, level, place, log })
}

fn place(
    ledger: &Ledger,
    ledgers: &BTreeMap<PoolName, Ledger>,
    record: &TicketRecord,
    now: Timestamp,
) -> Option<Place> {
    let id = record.ticket.id;
    let queue = standing(ledger, now);
    let index = queue.iter().position(|(found, ..)| *found == id)?;
    let (_, reason, estimate) = *queue.get(index)?;
    let before = queue.iter().take(index.min(NAMED));
    let ahead =
        before.filter_map(|(id, ..)| ledger.ticket(*id)).map(|ticket| (ticket.clone(), ticket.wanted()));
    let would_start_with = match record.ticket.state {
        State::Waiting => most_that_would_start(ledgers, &record.pool, id, now),
        _ => None,
    };
    Some(Place {
        position: u32::try_from(index + 1).unwrap_or(u32::MAX),
        queue_length: queue.len(),
        reason,
        estimate,
        ahead: ahead.collect(),
        holders: largest(ledger),
        would_start_with,
    })
}

fn largest(ledger: &Ledger) -> Vec<(Ticket, u64)> {
    let mut holders: Vec<&Ticket> = ledger.tickets().filter(|ticket| ticket.state.counts()).collect();
    holders.sort_by_key(|ticket| Reverse(ticket.units()));
    holders.into_iter().take(NAMED).map(|ticket| (ticket.clone(), ticket.units())).collect()
}
