//! Schedules: when a job is launched by itself, and with which parameters.
//!
//! Reading order: [`definition`] (a schedule in words, as programs, files and tables have it), [`cron`], [`zone`] and
//! [`window`] (what the words mean), [`timetable`] (all ticks of a schedule), [`policy`] and [`turn`] (what becomes of
//! a tick that is due), [`template`] (the parameters of a tick).

pub mod definition;

pub mod cron;
pub mod window;
pub mod zone;

pub mod timetable;

pub mod policy;
pub mod turn;

pub mod template;

pub use cron::Cron;
pub use definition::{BadSchedule, Plan, Schedule};
pub use policy::{MissedRuns, Overlap, TickOutcome};
pub use template::Template;
pub use timetable::Timetable;
pub use turn::{Circumstances, Passed, PassedTick, ScheduleState, Turn};
pub use window::{Outside, Window};
pub use zone::Zone;
