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
pub mod lag;
pub mod notice;
pub mod partition;
pub mod place;
pub mod restore;
pub mod retention;
pub use lag::{Backlog, ExceptionCounts, OutboxStats, SlotLag};
pub use notice::{Notice, NoticeError};
pub use partition::{Extended, Partition};
pub use restore::Checked;
pub use retention::Retained;
/// The outbox, as the audit log names it.
const OBJECT: &str = "outbox/all";
