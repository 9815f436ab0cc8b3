//! Pools: scarce units of a database or a licence server, and who may use how many of them now.
//!
//! Reading order: [`settings`], [`capacity`] and [`weight`] (what a pool is and what a request costs), [`holder`],
//! [`class`], [`asked`] and [`ticket`] (who asks, and for how much), [`state`] (the life of a ticket), [`event`] and [`ledger`] (all that was
//! decided, and what follows from it), [`ladder`] and [`decide`] (who may start now: the policies), [`estimate`]
//! (how long the others wait), [`command`] and [`pass`] (many requests in one go), [`replay`] (the auditor),
//! [`reason`], [`story`], [`account`] and [`usage`] (what people are told), [`what_if`] (what would have happened
//! otherwise).

pub mod capacity;
pub mod settings;
pub mod weight;

pub mod asked;
pub mod class;
pub mod holder;
pub mod state;
pub mod ticket;

pub mod event;
pub mod ledger;

pub mod decide;
pub mod estimate;
pub mod ladder;

pub mod command;
pub mod pass;

pub mod replay;

pub mod account;
pub mod reason;
pub mod story;
pub mod usage;
pub mod what_if;

#[cfg(test)]
mod tests;

pub use asked::Asked;
pub use class::Class;
pub use command::{Acquire, Answer, Command, Part, ReleaseBy};
pub use decide::Policy;
pub use event::{End, Event, Record};
pub use holder::Holder;
pub use ledger::Ledger;
pub use reason::Reason;
pub use settings::{PoolName, Settings};
pub use state::State;
pub use ticket::{Ticket, TicketId};
pub use weight::{Shape, Weight, WeightModel};
