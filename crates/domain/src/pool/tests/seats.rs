//! The state of a pool from its records, computed in the simplest way.

use super::check::ramp;
use crate::pool::breaker::Phase;
use crate::pool::decide::{OVERTAKES_MAX, Turn};
use crate::pool::{Breaker, Class, Event, Holder, Policy, Record, Settings, Ticket, TicketId, Weight};
use crate::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

struct Seat {
    class: Class,
    request: TicketId,
    weight: Weight,
    asked: NonZeroU32,
    least: NonZeroU32,
    granted: Option<NonZeroU32>,
    wanted: Option<NonZeroU32>,
    queued_since: Option<Timestamp>,
    is_claimed: bool,
    overtaken: u32,
    /// Another pool may stop it, so it is passed over.
    needs_several: bool,
}

/// All tickets of a pool.
pub(super) struct Seats {
    settings: Settings,
    breaker: Breaker,
    seats: BTreeMap<TicketId, Seat>,
    holders: BTreeSet<Holder>,
    pub(super) usage: u64,
}

impl Seats {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            breaker: Breaker::default(),
            seats: BTreeMap::new(),
            holders: BTreeSet::new(),
            usage: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.seats.len()
    }

    /// Applies a record, and refuses a wrong grant.
    pub(super) fn follow(&mut self, record: &Record) {
        match &record.event {
            Event::Configured { settings, .. } => self.settings = (**settings).clone(),
            Event::Breaker { breaker } => {
                if let (Phase::Probing { ticket: Some(probe) }, true) =
                    (self.breaker.phase, matches!(breaker.phase, Phase::Probing { ticket: Some(_) }))
                {
                    assert_eq!(breaker.phase, Phase::Probing { ticket: Some(probe) }, "two probes");
                }
                self.breaker = (**breaker).clone();
            }
            Event::Enqueued { ticket } => self.sit_down(ticket),
            Event::Asked { ticket, asked, least, weight, .. } => {
                let seat = self.seats.get_mut(ticket).unwrap();
                assert_eq!(seat.granted, None);
                (seat.asked, seat.least, seat.weight) = (*asked, *least, *weight);
            }
            Event::Granted { ticket, parallel, turn, .. } => {
                if *turn != Turn::First {
                    self.overtake(record, *ticket);
                }
                let seat = &self.seats[ticket];
                assert_eq!(seat.granted, None, "granted twice");
                assert!(*parallel >= seat.least && *parallel <= seat.asked, "{record:?}");
                self.give(record, *ticket, *parallel, *turn);
            }
            Event::Estimated { ticket, .. } => assert_eq!(self.seats[ticket].granted, None),
            Event::Resized { ticket, parallel, asked } => {
                let seat = &self.seats[ticket];
                if *parallel > seat.granted.unwrap() && seat.wanted.is_none() {
                    assert_eq!(self.settings.policy, Policy::Adaptive, "raised");
                    assert!(!seat.is_claimed && *parallel <= seat.asked, "{record:?}");
                    assert!(self.seats.values().all(|seat| seat.queued_since.is_none()), "others wait");
                    self.give(record, *ticket, *parallel, Turn::SpareUnits);
                } else if *parallel > seat.granted.unwrap() {
                    assert_eq!(seat.wanted, Some(*parallel));
                    self.give(record, *ticket, *parallel, Turn::First);
                } else {
                    self.usage -= seat.weight.units(seat.granted.unwrap()) - seat.weight.units(*parallel);
                }
                let seat = self.seats.get_mut(ticket).unwrap();
                (seat.granted, seat.asked) = (Some(*parallel), *asked);
                (seat.wanted, seat.queued_since) = (None, None);
            }
            Event::Wanted { ticket, parallel } => {
                let seat = self.seats.get_mut(ticket).unwrap();
                assert!(seat.granted.is_some());
                (seat.wanted, seat.queued_since) = (*parallel, parallel.map(|_| record.at));
            }
            Event::Ended { ticket, .. } => {
                let seat = self.seats.remove(ticket).unwrap();
                assert!(self.holders.remove(record.holder.as_ref().unwrap()));
                self.usage -= seat.granted.map_or(0, |granted| seat.weight.units(granted));
            }
            Event::Claimed { ticket, .. } => {
                let seat = self.seats.get_mut(ticket).unwrap();
                assert!(seat.granted.is_some());
                seat.is_claimed = true;
            }
            Event::Unclaimed { ticket, .. } => {
                let seat = self.seats.get_mut(ticket).unwrap();
                assert!(seat.granted.is_some());
                seat.is_claimed = false;
            }
            Event::Reacquired { ticket, .. } | Event::Doubted { ticket } | Event::Confirmed { ticket } => {
                assert!(self.seats[ticket].granted.is_some())
            }
            Event::Snapshot { .. } => panic!("a pass makes no snapshot"),
        }
    }

    fn sit_down(&mut self, ticket: &Ticket) {
        let seat = Seat {
            class: ticket.class,
            request: ticket.request,
            weight: ticket.weight,
            asked: ticket.asked,
            least: ticket.least,
            granted: None,
            wanted: None,
            queued_since: Some(ticket.enqueued_at),
            is_claimed: false,
            overtaken: 0,
            needs_several: !ticket.with.is_empty(),
        };
        assert!(self.seats.insert(ticket.id, seat).is_none());
        assert!(self.holders.insert(ticket.holder.clone()), "a second ticket of {}", ticket.holder);
    }

    /// A request starts before others: only the adaptive policy lets it, and only so often.
    fn overtake(&mut self, record: &Record, ticket: TicketId) {
        assert_eq!(self.settings.policy, Policy::Adaptive);
        let place = self.place(ticket, record.at).unwrap();
        let ahead: Vec<TicketId> = self
            .seats
            .keys()
            .filter(|id| self.place(**id, record.at).is_some_and(|other| other < place))
            .copied()
            .collect();
        assert!(!ahead.is_empty(), "nobody was ahead of {ticket}");
        assert!(
            ahead.iter().all(|id| self.seats[id].granted.is_none()),
            "a holder that waits for more was overtaken"
        );
        for id in ahead {
            let seat = self.seats.get_mut(&id).unwrap();
            seat.overtaken += 1;
            assert!(seat.overtaken <= OVERTAKES_MAX || seat.needs_several, "{id} was overtaken too often");
        }
    }

    /// Units go to the first of the queue, as long as there are any.
    fn give(&mut self, record: &Record, ticket: TicketId, parallel: NonZeroU32, turn: Turn) {
        let is_probe = self.breaker.phase == Phase::Probing { ticket: Some(ticket) };
        let may_pass = is_probe || self.settings.policy == Policy::Adaptive;
        let may_be_stopped = |seat: &Seat| seat.needs_several && seat.granted.is_none();
        let is_passed = |id: &TicketId| may_pass && may_be_stopped(&self.seats[id]) && *id != ticket;
        assert!(turn != Turn::First || self.first_but(record.at, is_passed) == Some(ticket), "overtaken");
        assert!(self.settings.paused.is_none(), "granted in a pause");
        let seat = self.seats.get_mut(&ticket).unwrap();
        self.usage -= seat.granted.map_or(0, |granted| seat.weight.units(granted));
        self.usage += seat.weight.units(parallel);
        (seat.granted, seat.queued_since) = (Some(parallel), None);
        let limit = match self.breaker.phase {
            Phase::Ramping => ramp(&self.breaker, self.settings.limit_at(record.at), record.at),
            Phase::Closed => self.settings.limit_at(record.at),
            phase => {
                assert_eq!(phase, Phase::Probing { ticket: Some(ticket) }, "granted while open");
                self.settings.limit_at(record.at)
            }
        };
        assert!(self.usage <= limit, "{} of {limit} after {record:?}", self.usage);
    }

    /// The first of the queue.
    pub(super) fn first(&self, now: Timestamp) -> Option<TicketId> {
        self.first_but(now, |_| false)
    }

    fn first_but(&self, now: Timestamp, is_passed: impl Fn(&TicketId) -> bool) -> Option<TicketId> {
        let ids = self.seats.keys().filter(|id| !is_passed(id));
        ids.filter_map(|id| self.place(*id, now)).min().map(|(_, _, _, id)| id)
    }

    /// Lower goes first.
    fn place(&self, id: TicketId, now: Timestamp) -> Option<(u64, Timestamp, TicketId, TicketId)> {
        let seat = self.seats.get(&id)?;
        let since = seat.queued_since?;
        let promotions = now.since(since).as_secs() / 900;
        let urgency = match seat.class {
            Class::Critical => 0_u64,
            Class::Normal => 1,
            Class::Bulk => 2,
        };
        Some((urgency.saturating_sub(promotions), since, seat.request, id))
    }
}
