//! The outbox: events, the relays that publish them, and how far each slot was read.
//!
//! Reading order: [`event`] and [`detail`] (writing and showing events), [`relay`] (membership), [`reading`] (what is
//! published next), [`failed_event`], [`place`] (the position of each slot); then maintenance: [`partition`],
//! [`retention`], [`restore`], [`notify`], [`lag`] and [`backlog`]; [`audit`] for verify; [`receipt`]; and
//! [`attached`], existing outbox tables.

pub mod attached;
pub mod audit;
pub mod backlog;
pub mod detail;
pub mod event;
pub mod failed_event;
pub mod lag;
pub mod notify;
pub mod partition;
pub mod place;
pub mod reading;
pub mod receipt;
pub mod relay;
pub mod restore;
pub mod retention;

pub use attached::{AttachError, AttachedRecord, AttachedStats, TableLook};
pub use audit::{AuditFrom, AuditedEvent, AuditedFailedEvent, OutboxPosition};
pub use backlog::{Backlog, FailedEventCounts};
pub use detail::{EventDetail, RelayDetail};
pub use event::{EventFilter, EventRecord, publish_on};
pub use lag::{OutboxStats, SlotLag};
pub use notify::{Notify, NotifyError};
pub use partition::{Extended, Partition};
pub use restore::Checked;
pub use retention::Retained;

use crate::error::{Result, damaged};
use tidemill_domain::outbox::{Count, Slot};

const FAILED_EVENT: (&str, &str) = ("tidemill_outbox_exception", "event_id");

/// Wake-up topic: events were written.
pub const EVENTS: &str = "outbox";

/// Wake-up topic: slots became free.
pub const SLOTS: &str = "outbox_slots";

pub(crate) fn numbers(slots: &[Slot]) -> Vec<i16> {
    slots.iter().map(|slot| i16::from(slot.get())).collect()
}

fn slot_of(number: i16) -> Option<Slot> {
    u8::try_from(number).ok().map(Slot::new)
}

fn own_slot(number: i16) -> Result<Slot> {
    slot_of(number).ok_or_else(|| damaged("tidemill_outbox_slot", "slot", number))
}

/// A count that stopped after `count_max` rows.
fn counted(rows: i64, count_max: u32) -> Count {
    Count::up_to(count_max.into(), rows.unsigned_abs())
}

/// The audited object.
const OBJECT: &str = "outbox/all";
