//! Pools: scarce units of a database or a licence server, and which requests may use how many of them.

pub mod breaker;
pub mod command;
pub mod decide;
pub mod demand;
pub mod estimate;
pub mod event;
pub mod event_summary;
pub mod holder;
pub mod ledger;
pub mod on_demand;
pub mod pass;
pub mod reason;
pub mod refusal;
pub mod replay;
pub mod run_times;
pub mod settings;
pub mod simulate;
pub mod state;
pub mod ticket;
pub mod ticket_history;
pub mod unit_request;
pub mod usage;
pub mod weight;
pub mod what_if;

#[cfg(test)]
mod tests;

pub use breaker::{Breaker, BreakerChange};
pub use command::{Acquire, Answer, Command, Part, ReleaseBy};
pub use decide::Policy;
pub use event::{End, Event, Record};
pub use holder::Holder;
pub use ledger::Ledger;
pub use reason::Reason;
pub use refusal::ReleaseOutcome;
pub use settings::{PoolName, Settings};
pub use state::State;
pub use ticket::{Class, Ticket, TicketId};
pub use unit_request::UnitRequest;
pub use weight::{Shape, Weight, WeightModel};
