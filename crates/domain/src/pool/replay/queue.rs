//! The queue as the auditor sees it, and how often each request in it was overtaken.

use crate::pool::ticket::AGING;
use crate::pool::{Class, State, Ticket, TicketId};
use crate::time::Timestamp;
use std::collections::BTreeMap;

/// Sorted by arrival.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    since: Timestamp,
    request: TicketId,
    pub(super) ticket: TicketId,
    class: Class,
}

impl Place {
    /// None for a ticket that waits for nothing.
    pub(super) fn of(ticket: &Ticket) -> Option<Self> {
        let since = match (ticket.state, ticket.upgrade) {
            (State::Waiting, _) => ticket.enqueued_at,
            (state, Some(upgrade)) if state.counts() => upgrade.since,
            _ => return None,
        };
        Some(Self { since, request: ticket.request, ticket: ticket.id, class: ticket.class })
    }

    /// By class, which a long wait raises, then by arrival. Lower goes first.
    fn order(&self, now: Timestamp) -> (u64, Self) {
        let class: u64 = match self.class {
            Class::Critical => 0,
            Class::Normal => 1,
            Class::Bulk => 2,
        };
        (class.saturating_sub(now.since(self.since).as_secs() / AGING.as_secs()), *self)
    }
}

/// By class: within one, nobody is ahead of an earlier request.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue(BTreeMap<Class, BTreeMap<Place, u32>>);

impl Queue {
    pub(super) fn of<'a>(tickets: impl Iterator<Item = &'a Ticket>) -> Self {
        let mut queue = Self::default();
        for (place, ticket) in tickets.filter_map(|ticket| Some((Place::of(ticket)?, ticket))) {
            queue.join(place, ticket.overtaken);
        }
        queue
    }

    pub(super) fn join(&mut self, place: Place, overtakes: u32) {
        self.0.entry(place.class).or_default().insert(place, overtakes);
    }

    /// Returns how often it was overtaken.
    pub(super) fn leave(&mut self, place: &Place) -> Option<u32> {
        self.0.get_mut(&place.class)?.remove(place)
    }

    pub(super) fn ahead_of(&self, place: &Place, now: Timestamp) -> impl Iterator<Item = &Place> {
        let order = place.order(now);
        self.0.values().flat_map(move |class| class.keys().take_while(move |other| other.order(now) < order))
    }

    /// Counts one more, and returns how many there are.
    pub(super) fn overtake(&mut self, place: &Place) -> u32 {
        let Some(overtakes) = self.0.get_mut(&place.class).and_then(|class| class.get_mut(place)) else {
            return 0;
        };
        *overtakes += 1;
        *overtakes
    }
}
