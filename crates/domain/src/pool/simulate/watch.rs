//! Watches a simulated pool: counts decisions that must not happen, with other code than that which decides.

use crate::pool::{Event, Record, Settings, TicketId, Weight};
use std::collections::HashMap;
use std::num::NonZeroU32;

#[derive(Debug, Default)]
pub(super) struct Watch {
    requests: HashMap<TicketId, Request>,
    /// The units of all live tickets.
    held: u64,
    pub(super) violations: u64,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    weight: Weight,
    asked: NonZeroU32,
    least: NonZeroU32,
    units: u64,
}

impl Watch {
    /// `settings` are those in force at the record. A grant must be within the limit of the pool and the bounds of the
    /// request, not while the pool is paused, and only one for each ticket.
    pub(super) fn see(&mut self, settings: &Settings, record: &Record) {
        match &record.event {
            Event::Enqueued { ticket } => {
                let (weight, asked, least) = (ticket.weight, ticket.asked, ticket.least);
                self.requests.insert(ticket.id, Request { weight, asked, least, units: 0 });
            }
            Event::Granted { ticket, parallel, .. } | Event::Resized { ticket, parallel, .. } => {
                let Some(request) = self.requests.get_mut(ticket) else {
                    self.violations += 1;
                    return;
                };
                let is_second = request.units > 0 && matches!(record.event, Event::Granted { .. });
                self.held -= request.units;
                request.units = request.weight.units(*parallel);
                self.held += request.units;
                let is_within = self.held <= settings.limit_at(record.at);
                let is_asked_for = (request.least..=request.asked).contains(parallel);
                let is_allowed = is_within && is_asked_for && !is_second && settings.paused.is_none();
                self.violations += u64::from(!is_allowed);
            }
            Event::Ended { ticket, .. } => {
                self.held -= self.requests.remove(ticket).map_or(0, |request| request.units);
            }
            _ => {}
        }
    }
}
