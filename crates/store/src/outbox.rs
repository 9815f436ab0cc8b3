//! The outbox: events, the relays that publish them, and how far each slot was read.
//!
//! Reading order: [`event`] and [`detail`] (how events are written, and what people see of them), [`relay`] (who publishes), [`reading`]
//! (what is published next), [`failed_event`] (what was refused), [`place`] (how far each slot is); then what is seen to now and then: [`partition`],
//! [`retention`], [`restore`], [`notify`], [`lag`] and [`backlog`]; [`audit`], what verify compares with; [`receipt`], what
//! is known of receipts; and [`attached`], tables that were there before.

pub mod detail;
pub mod event;
pub mod failed_event;
pub mod reading;
pub mod receipt;
pub mod relay;

pub mod backlog;
pub mod lag;
pub mod notify;
pub mod partition;
pub mod place;
pub mod restore;
pub mod retention;

pub mod audit;

pub mod attached;

pub use attached::{AttachError, AttachedRecord, AttachedStanding, TableLook};
pub use audit::{AuditFrom, AuditedEvent, AuditedFailedEvent, OutboxStanding};
pub use backlog::{Backlog, FailedEventCounts};
pub use detail::{EventDetail, RelayDetail};
pub use event::{EventFilter, EventRecord, publish_on};
pub use lag::{OutboxStats, SlotLag};
pub use notify::{Notify, NotifyError};
pub use partition::{Extended, Partition};
pub use restore::Checked;
pub use retention::Retained;

use crate::error::{StoreError, damaged};
use tidemill_domain::outbox::Slot;

const FAILED_EVENT: (&str, &str) = ("tidemill_outbox_exception", "event_id");

/// Topic of the wake-up that is sent when events were written.
pub const EVENTS: &str = "outbox";

/// Topic of the wake-up that is sent when slots can be had.
pub const SLOTS: &str = "outbox_slots";

pub(crate) fn numbers(slots: &[Slot]) -> Vec<i16> {
    slots.iter().map(|slot| i16::from(slot.get())).collect()
}

fn slot_of(number: i16) -> Option<Slot> {
    u8::try_from(number).ok().map(Slot::new)
}

/// A slot, as it is stored in the table of slots.
fn own_slot(number: i16) -> Result<Slot, StoreError> {
    slot_of(number).ok_or_else(|| damaged("tidemill_outbox_slot", "slot", number))
}

/// The outbox, as the audit log names it.
const OBJECT: &str = "outbox/all";
