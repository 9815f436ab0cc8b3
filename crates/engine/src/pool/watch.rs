//! Requests that wait for units. They are notified when their ticket leaves the queue, and then ask again.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use tidemill_domain::pool::{PoolName, State, TicketId};
use tidemill_store::pool::PoolCache;
use tokio::sync::Notify;

#[derive(Clone, Debug)]
pub(super) struct Watch {
    /// Its ticket, or one of them: all tickets of a request leave the queue together.
    pub(super) pool: PoolName,
    pub(super) ticket: TicketId,
    pub(super) call: Arc<Notify>,
}

#[derive(Debug, Default)]
pub(super) struct Watches {
    tickets: HashMap<TicketId, Vec<Watch>>,
}

impl Watches {
    pub(super) fn add(&mut self, watch: Watch) {
        self.tickets.entry(watch.ticket).or_default().push(watch);
    }

    /// Pools with waiting requests. Drops requests whose caller is gone.
    pub(super) fn pools(&mut self) -> BTreeSet<PoolName> {
        self.tickets.retain(|_, watches| {
            watches.retain(|watch| Arc::strong_count(&watch.call) > 1);
            !watches.is_empty()
        });
        self.tickets.values().flatten().map(|watch| watch.pool.clone()).collect()
    }

    /// Notifies requests whose tickets have left the queue.
    pub(super) fn call(&mut self, cache: &PoolCache) {
        self.tickets.retain(|ticket, watches| {
            let Some(first) = watches.first() else { return false };
            let Some(ledger) = cache.ledger(&first.pool) else { return true };
            let is_waiting = ledger.ticket(*ticket).is_some_and(|known| known.state == State::Waiting);
            if !is_waiting {
                watches.iter().for_each(|watch| watch.call.notify_one());
            }
            is_waiting
        });
    }

    /// Notifies all: their pool may be gone.
    pub(super) fn call_all(&mut self) {
        for watch in self.tickets.drain().flat_map(|(_, watches)| watches) {
            watch.call.notify_one();
        }
    }
}
