//! Schedules, their due ticks, and the outcome of each tick.
//!
//! Reading order: [`define`], [`turn`] (takes a due schedule, in the transaction that launches its job), [`list`], [`watch`] (for alerts).

pub mod define;
pub mod list;
pub mod turn;
pub mod watch;

pub use define::Defined;
pub use list::{Pause, ScheduleRecord, TickRecord};
pub use turn::{DueSchedule, DueTick, Room};
pub use watch::{NextTick, UnlaunchedTicks};

/// Wake-up topic: a schedule may be due earlier than before.
pub const SCHEDULE_CHANGED: &str = "schedule_changed";

/// Ticks kept per schedule.
pub const TICKS_KEPT: u32 = 1000;

/// The audited object.
fn object(name: &str) -> String {
    format!("schedule/{name}")
}
