//! The outbox: what happened, published in order for each aggregate by any number of relays.
//!
//! Reading order: [`event`] (what is published, and in which of the 256 slots), [`stored`] and [`record`] (an event in
//! its table, and on its way out), [`mark`] and [`window`] (how far a slot was read without losing what commits late),
//! [`cursor`] (slots that are read together); then [`relay`], [`instance`], [`admission`] and [`share`] (who publishes,
//! and which slots each relay has).

pub mod event;
pub mod line;
pub mod record;
pub mod stored;

pub mod cursor;
pub mod mark;
pub mod window;

pub mod admission;
pub mod instance;
pub mod relay;
pub mod share;

pub use admission::{JoinRefusal, admit, missing_shares};
pub use cursor::Cursor;
pub use event::{Aggregate, BadEvent, EventId, Headers, NewEvent, Payload, Seq, Slot};
pub use instance::{BadInstance, Instance};
pub use mark::Mark;
pub use record::Record;
pub use relay::{LiveRelay, RelayId};
pub use stored::{StoredEvent, StoredHeaders};
mod numbers;
pub mod verify;
pub use event::{Aggregate, BadEvent, EventId, NewEvent, Payload, Seq, Slot};
pub use line::Published;
pub use verify::{Auditor, Verdict};
pub use window::Window;
