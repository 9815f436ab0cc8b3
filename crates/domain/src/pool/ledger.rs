//! The state of one pool, from its log. Usage is the sum over the live tickets; only this file changes it.

use super::breaker::Phase;
use super::command::Level;
use super::decide::{OVERTAKES_MAX, Turn};
use super::run_times::RunTimes;
use super::state::{Change, State, next};
use super::ticket::{Ticket, TicketId, Upgrade};
use super::{Breaker, End, Event, Holder, Settings};
use crate::time::Timestamp;
use std::collections::{BTreeMap, HashMap};

#[derive(Clone, Debug)]
pub struct Ledger {
    settings: Settings,
    breaker: Breaker,
    version: i64,
    tickets: BTreeMap<TicketId, Ticket>,
    holders: HashMap<Holder, TicketId>,
    usage: u64,
    waiting: usize,
    pub run_times: RunTimes,
}

crate::getters!(Ledger {
    &settings: Settings,
    &breaker: Breaker,
    /// The number of the last pass that changed it.
    version: i64,
    usage: u64,
    waiting: usize,
});

/// Run times are not compared: they are no decisions.
impl PartialEq for Ledger {
    fn eq(&self, other: &Self) -> bool {
        let is_same_pool = self.settings == other.settings && self.breaker == other.breaker;
        is_same_pool && self.tickets == other.tickets && self.version == other.version
    }
}

/// The ticket after an event, even if it has ended, and the tickets that it overtook.
#[derive(Debug, Default)]
pub struct Applied {
    pub ticket: Option<Ticket>,
    pub overtaken: Vec<TicketId>,
}

/// An event that cannot have happened: the log is damaged.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Contradiction {
    #[error("{kind} of the ticket {ticket}, which does not exist")]
    NoTicket { kind: &'static str, ticket: TicketId },
    #[error("{kind} of the ticket {ticket}, which is {state}")]
    WrongState { kind: &'static str, ticket: TicketId, state: State },
    #[error("a second ticket {ticket} of the holder {holder}")]
    SecondTicket { ticket: TicketId, holder: Holder },
    #[error("record {found} follows record {last}")]
    Gap { last: i64, found: i64 },
    #[error("record {found} of pass {version} follows record {last}")]
    Missing { version: i64, last: i32, found: i32 },
}

impl Ledger {
    pub fn new(settings: Settings, version: i64) -> Self {
        Self {
            settings,
            breaker: Breaker::default(),
            version,
            tickets: BTreeMap::new(),
            holders: HashMap::new(),
            usage: 0,
            waiting: 0,
            run_times: RunTimes::default(),
        }
    }

    pub fn restore(settings: Settings, version: i64, tickets: impl IntoIterator<Item = Ticket>) -> Self {
        let mut ledger = Self::new(settings, version);
        tickets.into_iter().for_each(|ticket| ledger.put(ticket));
        ledger
    }

    pub fn set_version(&mut self, version: i64) {
        self.version = version;
    }

    pub fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }

    pub fn set_breaker(&mut self, breaker: Breaker) {
        self.breaker = breaker;
    }

    pub fn level_at(&self, now: Timestamp) -> Level {
        Level::of(&self.settings, &self.breaker, self.usage, now)
    }

    /// The limit for grants. A probe may use units above the limit of the breaker.
    pub fn grant_limit_at(&self, now: Timestamp) -> u64 {
        match self.breaker.phase {
            Phase::Probing { .. } => self.settings.limit_at(now),
            _ => self.level_at(now).limit,
        }
    }

    /// The live tickets, the oldest first.
    pub fn tickets(&self) -> impl Iterator<Item = &Ticket> {
        self.tickets.values()
    }

    pub fn ticket(&self, id: TicketId) -> Option<&Ticket> {
        self.tickets.get(&id)
    }

    pub fn of_holder(&self, holder: &Holder) -> Option<&Ticket> {
        self.holders.get(holder).and_then(|id| self.tickets.get(id))
    }

    pub fn queue(&self, now: Timestamp) -> Vec<&Ticket> {
        let mut queue: Vec<&Ticket> = self.tickets.values().filter(|ticket| ticket.is_queued()).collect();
        queue.sort_by_cached_key(|ticket| ticket.order(now));
        queue
    }

    pub fn snapshot(&self) -> Event {
        let tickets = self.tickets.values().cloned().collect();
        let (settings, breaker) = (Box::new(self.settings.clone()), Box::new(self.breaker.clone()));
        Event::Snapshot { settings, tickets, breaker }
    }

    /// Adds or replaces a ticket; removes one that has ended.
    pub fn put(&mut self, ticket: Ticket) {
        if let Some(known) = self.tickets.remove(&ticket.id) {
            self.usage -= known.units();
            self.waiting -= usize::from(known.state == State::Waiting);
            // A later ticket of the same holder may have been added before.
            if self.holders.get(&known.holder) == Some(&known.id) {
                self.holders.remove(&known.holder);
            }
        }
        if ticket.state.has_ended() {
            return;
        }
        self.usage += ticket.units();
        self.waiting += usize::from(ticket.state == State::Waiting);
        self.holders.insert(ticket.holder.clone(), ticket.id);
        self.tickets.insert(ticket.id, ticket);
    }

    pub fn apply(&mut self, at: Timestamp, event: &Event) -> Result<Applied, Contradiction> {
        match event {
            Event::Configured { settings, .. } => self.settings = (**settings).clone(),
            Event::Breaker { breaker } => self.breaker = (**breaker).clone(),
            Event::Snapshot { settings, tickets, breaker } => {
                let run_times = std::mem::take(&mut self.run_times);
                *self = Self::restore((**settings).clone(), self.version, tickets.iter().cloned());
                self.run_times = run_times;
                self.breaker = (**breaker).clone();
            }
            Event::Enqueued { ticket } => {
                if self.holders.contains_key(&ticket.holder) || self.tickets.contains_key(&ticket.id) {
                    let holder = ticket.holder.clone();
                    return Err(Contradiction::SecondTicket { ticket: ticket.id, holder });
                }
                self.put((**ticket).clone());
                return Ok(Applied { ticket: Some((**ticket).clone()), overtaken: Vec::new() });
            }
            _ => {}
        }
        let kind = event.kind();
        let Some(id) = event.ticket() else { return Ok(Applied::default()) };
        let known = self.tickets.get(&id).ok_or(Contradiction::NoTicket { kind, ticket: id })?;
        let wrong = Contradiction::WrongState { kind, ticket: id, state: known.state };
        let mut ticket = known.clone();
        change(&mut ticket, at, event).ok_or(wrong)?;
        if let (
            Event::Ended { end: End::Released { failed: false }, .. },
            Some(claimed_at),
            State::Released,
        ) = (event, ticket.claimed_at, ticket.state)
        {
            self.run_times.add(&ticket, at.since(claimed_at));
        }
        let mut overtaken = Vec::new();
        if let Event::Granted { turn: Turn::EndsBefore | Turn::SpareUnits, .. } = event {
            let order = ticket.order(at);
            // Beyond the bound, they need not be counted and stored.
            let is_counted = |other: &&mut Ticket| {
                let is_ahead = other.state == State::Waiting && other.order(at) < order;
                is_ahead && other.overtaken < OVERTAKES_MAX
            };
            for other in self.tickets.values_mut().filter(is_counted) {
                other.overtaken += 1;
                overtaken.push(other.id);
            }
        }
        self.put(ticket.clone());
        Ok(Applied { ticket: Some(ticket), overtaken })
    }
}

/// Applies an event to a ticket; none when it cannot happen to it.
fn change(ticket: &mut Ticket, at: Timestamp, event: &Event) -> Option<()> {
    let step = |ticket: &mut Ticket, change| {
        ticket.state = next(ticket.state, change)?;
        Some(())
    };
    match event {
        Event::Configured { .. }
        | Event::Snapshot { .. }
        | Event::Breaker { .. }
        | Event::Enqueued { .. } => return None,
        Event::Asked { asked, least, weight, ask_by, .. } => {
            (ticket.state == State::Waiting).then_some(())?;
            ticket.weight = *weight;
            ticket.asked = *asked;
            ticket.least = *least;
            ticket.ask_by = *ask_by;
        }
        Event::Granted { parallel, ask_by, .. } => {
            step(ticket, Change::Grant)?;
            ticket.granted = Some(*parallel);
            ticket.granted_at = Some(at);
            ticket.ask_by = *ask_by;
        }
        Event::Estimated { eta, .. } => {
            (ticket.state == State::Waiting).then_some(())?;
            ticket.eta = Some(*eta);
        }
        Event::Claimed { call, .. } => {
            step(ticket, Change::Claim)?;
            if call.is_some() {
                ticket.call = call.clone();
            }
            ticket.claimed_at = Some(at);
            ticket.epoch = ticket.epoch.next();
        }
        Event::Unclaimed { ask_by, .. } => {
            step(ticket, Change::Unclaim)?;
            ticket.claimed_at = None;
            ticket.ask_by = *ask_by;
        }
        Event::Reacquired { call, .. } => {
            matches!(ticket.state, State::Running | State::Suspect).then_some(())?;
            if ticket.state == State::Suspect {
                step(ticket, Change::Confirm)?;
                ticket.doubted_at = None;
            }
            ticket.epoch = ticket.epoch.next();
            ticket.call = call.clone();
        }
        Event::Resized { parallel, asked, .. } => {
            ticket.state.counts().then_some(())?;
            ticket.granted = Some(*parallel);
            ticket.asked = *asked;
            ticket.least = ticket.least.min(*parallel);
            ticket.upgrade = None;
        }
        Event::Wanted { parallel, .. } => {
            ticket.state.counts().then_some(())?;
            ticket.upgrade = parallel.map(|parallel| Upgrade { parallel, since: at });
        }
        Event::Doubted { .. } => {
            step(ticket, Change::Doubt)?;
            ticket.doubted_at = Some(at);
        }
        Event::Confirmed { .. } => {
            step(ticket, Change::Confirm)?;
            ticket.doubted_at = None;
        }
        Event::Ended { end, .. } => {
            step(ticket, end.change())?;
            ticket.upgrade = None;
        }
    }
    Some(())
}
