//! The outbox: events, the relays that publish them, and how far each slot was read.
//!
//! Reading order: [`event`] and [`detail`] (how events are written, and what people see of them), [`relay`] (who publishes), [`reading`]
//! (what is published next), [`exception`] (what was refused), [`place`] (how far each slot is); then what is seen to now and then: [`partition`],
//! [`retention`], [`restore`], [`notice`], [`lag`] and [`backlog`]; [`audit`], what verify compares with; [`receipt`], what
//! is known of receipts; and [`adopted`], tables that were there before.

pub mod detail;
pub mod event;
pub mod exception;
pub mod reading;
pub mod receipt;
pub mod relay;

pub mod backlog;
pub mod lag;
pub mod notice;
pub mod partition;
pub mod place;
pub mod restore;
pub mod retention;

pub mod audit;

pub mod adopted;

pub use adopted::{AdoptError, AdoptedRecord, AdoptedStanding, TableLook};
pub use audit::{AuditFrom, AuditedEvent, AuditedException, OutboxStanding};
pub use backlog::{Backlog, Excepted};
pub use detail::{EventDetail, RelayDetail};
pub use event::{EventFilter, EventRecord, publish_on};
pub use lag::{OutboxStats, SlotLag};
pub use notice::{Notice, NoticeError};
pub use partition::{Extended, Partition};
pub use restore::Checked;
pub use retention::Retained;

/// Topic of the wake-up that is sent when events were written.
pub const EVENTS: &str = "outbox";

/// Topic of the wake-up that is sent when slots can be had.
pub const SLOTS: &str = "outbox_slots";

/// The outbox, as the audit log names it.
const OBJECT: &str = "outbox/all";
