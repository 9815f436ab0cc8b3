//! The outbox: what happened, published in order for each aggregate by any number of relays.
//!
//! Reading order: [`event`] (what is published, and in which of the 256 slots), [`stored`] (an event in its
//! table, and on its way out as a [`line`]), [`snapshot`] and [`window`] (how far a slot was read without losing what
//! commits late), [`cursor`] (slots that are read together, and where each one stands); then [`relay`],
//! [`instance`], [`group`], [`admission`] and [`share`] (who publishes, and which slots each relay has), [`receipt`] (what
//! a sink with transactions has got), [`tally`] (what that has cost), [`partition`] and [`restore`] (what is kept, and
//! whether snapshots still mean anything), [`failed_event`] (what was not taken, and what became of an event), [`verify`]
//! (what arrived), [`lifecycle_events`] (what Tidemill itself tells), [`attached`] (tables that were there before).

pub mod event;
pub mod line;
pub mod stored;

pub mod cursor;
pub mod snapshot;
pub mod window;

pub mod admission;
pub mod group;
pub mod instance;
pub mod receipt;
pub mod relay;
pub mod share;
pub mod tally;

pub mod partition;
pub mod restore;

mod numbers;
pub mod verify;

pub mod failed_event;

pub mod lifecycle_events;

pub mod attached;

#[cfg(test)]
mod tests;

pub use admission::{JoinRefusal, admit, missing_shares};
pub use cursor::{Cursor, Place};
pub use event::{Aggregate, BadEvent, EventId, Headers, NewEvent, Payload, Seq, Slot};
pub use failed_event::{EventOutcome, FailedEvent, FailedEventState};
pub use group::{Group, Unit};
pub use instance::{BadInstance, Instance};
pub use lifecycle_events::LifecycleEvents;
pub use line::Published;
pub use receipt::Receipt;
pub use relay::{LiveRelay, RelayId};
pub use snapshot::Snapshot;
pub use stored::{Record, StoredEvent, StoredHeaders};
pub use tally::{Count, Effort, Tally};
pub use verify::{Auditor, Verdict};
pub use window::{IdRange, Window};
