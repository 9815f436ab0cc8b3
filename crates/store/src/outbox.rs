//! The outbox: events, the relays that publish them, and how far each slot was read.

pub mod event;
pub mod reading;
pub mod relay;

pub use event::{EventFilter, publish_on};

/// Topic of the wake-up that is sent when events were written.
pub const EVENTS: &str = "outbox";

/// Topic of the wake-up that is sent when slots can be had.
pub const SLOTS: &str = "outbox_slots";
pub mod audit;
pub use audit::{AuditFrom, AuditedEvent, AuditedException, OutboxStanding};
