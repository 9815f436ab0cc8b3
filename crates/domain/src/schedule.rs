//! Schedules: when a job starts by itself, and with which parameters.

pub mod cron;
pub mod definition;
pub mod policy;
pub mod template;
pub mod timetable;
pub mod turn;
pub mod window;
pub mod zone;

pub use cron::Cron;
pub use definition::{BadSchedule, Plan, Schedule};
pub use policy::{MissedRuns, Overlap, TickOutcome};
pub use template::Template;
pub use timetable::Timetable;
pub use turn::{Circumstances, Passed, PassedTick, ScheduleState, Turn};
pub use window::{Outside, Window};
pub use zone::Zone;

use crate::action::Action;

/// The action to offer now.
pub const fn possible(is_paused: bool) -> Action {
    if is_paused { Action::ScheduleResume } else { Action::SchedulePause }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_offers_to_pause_and_a_paused_one_to_resume() {
        assert_eq!(possible(false), Action::SchedulePause);
        assert_eq!(possible(true), Action::ScheduleResume);
    }
}
