//! Pools: scarce units of a database or a licence server, and who may use how many of them now.
//!
//! Reading order: [`settings`], [`capacity`] and [`weight`] (what a pool is and what a request costs), [`holder`],
//! [`unit_request`] and [`ticket`] (who asks, and for how much), [`state`] (the life of a ticket), [`event`] and [`ledger`]
//! (all that was decided, and what follows from it), [`decide`] (who may start now: the policies), [`estimate`] (how long
//! the others wait), [`command`] and [`pass`] (many requests in one go), [`replay`] (the auditor),
//! [`reason`], [`event_summary`], [`ticket_history`] and [`usage`] (what people are told), [`what_if`] (what would have happened
//! otherwise).

pub mod capacity;
pub mod settings;
pub mod weight;

pub mod holder;
pub mod state;
pub mod ticket;
pub mod unit_request;

pub mod event;
pub mod ledger;

pub mod decide;
pub mod estimate;

pub mod command;
pub mod pass;

pub mod replay;

pub mod event_summary;
pub mod reason;
pub mod ticket_history;
pub mod usage;
pub mod what_if;

#[cfg(test)]
mod tests;

pub use command::{Acquire, Answer, Command, Part, ReleaseBy};
pub use decide::Policy;
pub use event::{End, Event, Record};
pub use holder::Holder;
pub use ledger::Ledger;
pub use reason::Reason;
pub use settings::{PoolName, Settings};
pub use state::State;
pub use ticket::{Class, Ticket, TicketId};
pub use unit_request::UnitRequest;
pub use weight::{Shape, Weight, WeightModel};
