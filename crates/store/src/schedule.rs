//! Schedules: which there are, which tick is due, and what became of each.
//!
//! Reading order: [`define`] (a program brings its schedules), [`turn`] (one that is due is taken, in the transaction
//! in which its job is launched), [`operate`] (what people may do), [`list`] (what they see).

pub mod define;

pub mod turn;

pub mod list;
pub mod operate;
pub(crate) mod row;

pub use define::Defined;
pub use list::{Pause, ScheduleRecord, TickRecord};
pub use turn::{DueTick, Room, Taken};

/// Topic of the wake-up that is sent when a schedule may be due earlier than it was.
pub const SCHEDULE_CHANGED: &str = "schedule_changed";

/// How many ticks of a schedule are kept.
pub const TICKS_KEPT: u32 = 1000;

/// A schedule, as the audit log names it.
fn object(name: &str) -> String {
    format!("schedule/{name}")
}
