//! The outbox: events, published in order for each aggregate by any number of relays.

pub mod admission;
pub mod attached;
pub mod cursor;
pub mod event;
pub mod failed_event;
pub mod group;
pub mod instance;
pub mod lifecycle_events;
pub mod line;
mod numbers;
pub mod partition;
pub mod receipt;
pub mod relay;
pub mod restore;
pub mod share;
pub mod snapshot;
pub mod stored;
pub mod tally;
pub mod verify;
pub mod window;

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
