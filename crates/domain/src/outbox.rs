//! The outbox: what happened, published in order for each aggregate by any number of relays.
//!
//! Reading order: [`event`] (what is published, and in which of the 256 slots), [`mark`] and [`window`] (how far
//! a slot was read without losing what commits late), [`cursor`] (slots that are read together), [`record`]
//! (what goes out).

pub mod event;
pub mod record;

pub mod cursor;
pub mod mark;
pub mod window;

pub use cursor::Cursor;
pub use event::{Aggregate, BadEvent, EventId, NewEvent, Payload, Seq, Slot};
pub use mark::Mark;
pub use record::Record;
pub use window::Window;
