//! Schedules and their ticks.

use crate::{Page, shapes};
use std::collections::BTreeMap;
use tidemill_domain::time::Timestamp;
use tidemill_store::schedule::{Pause, ScheduleRecord, TickRecord};

tidemill_domain::words! {
    pub enum ScheduleState {
        Active = "active",
        Paused = "paused",
        /// A tick is due and waits for an earlier execution or for room.
        Waiting = "waiting",
    }
}

impl From<&ScheduleRecord> for ScheduleState {
    fn from(record: &ScheduleRecord) -> Self {
        match (&record.pause, record.is_waiting) {
            (Some(_), _) => Self::Paused,
            (None, true) => Self::Waiting,
            (None, false) => Self::Active,
        }
    }
}

shapes! {
    /// A schedule.
    pub struct Schedule from (record, is_job_registered): (&ScheduleRecord, Option<bool>) {
        name: String = record.schedule.name.clone(),
        /// The job that the schedule launches.
        job: String = record.schedule.job.clone(),
        /// A cron expression.
        cron: String = record.schedule.cron.clone(),
        /// Time zone of the cron expression.
        zone: String = record.schedule.zone.clone(),
        /// The schedule fires only within these windows; at any time if there are none.
        windows: Vec<String> = record.schedule.windows.clone(),
        /// Ticks outside the windows: `drop` or `defer`.
        outside: String = record.schedule.outside.clone(),
        /// Missed ticks: `skip`, `latest` or `all N`.
        missed: String = record.schedule.missed.clone(),
        /// A tick while an earlier execution runs: `allow`, `skip` or `wait`.
        overlap: String = record.schedule.overlap.clone(),
        /// A tick that is later than this counts as missed.
        grace_seconds: u64 = record.schedule.grace.as_secs(),
        /// Parameters of every launch, with their placeholders.
        parameters: BTreeMap<String, String> = record.schedule.parameters.iter().cloned().collect(),
        /// `active`, `paused` or `waiting`.
        state: &'static str = ScheduleState::from(record).as_str(),
        /// Whether this server has the job and can launch it; null on the command line.
        is_job_registered: Option<bool> = is_job_registered,
        /// The next tick without an outcome.
        next_at: Option<Timestamp> = record.next_at,
        /// Whether that tick is due and waits for an earlier execution or for room.
        is_waiting: bool = record.is_waiting,
        /// The last tick with an outcome.
        last_tick_at: Option<Timestamp> = record.last_tick_at,
        /// When the definition was last changed.
        defined_at: Timestamp = record.defined_at,
        pause: Option<SchedulePause> = record.pause.as_ref().map(SchedulePause::from),
    }

    /// A pause of a schedule.
    pub struct SchedulePause from pause: &Pause {
        at: Timestamp = pause.at,
        by: String = pause.by.clone(),
        reason: String = pause.reason.clone(),
    }

    /// The outcome of a tick.
    pub struct ScheduleTick from record: &TickRecord {
        tick_at: Timestamp = record.tick,
        /// `fired`, `skipped`, `missed` or `refused`.
        outcome: &'static str = record.outcome.as_str(),
        /// The execution that the tick launched.
        execution: Option<i64> = record.execution.map(|execution| execution.get()),
        decided_at: Timestamp = record.at,
        /// Why the tick did not fire.
        reason: Option<String> = record.reason.clone(),
    }

    /// A page of ticks, the newest first.
    pub struct ScheduleTicks {
        items: Vec<ScheduleTick>,
        /// Pass this as `before` to get the next page; null on the last page.
        next: Option<Timestamp>,
    }

    /// Filters for a list of schedules.
    pub struct ListSchedules in query {
        /// Maximum number of schedules, from 1 to 500. Default 50.
        limit: Option<u32>,
    }

    /// Filters for a list of ticks.
    pub struct ListTicks in query {
        /// Maximum number of ticks, from 1 to 500. Default 50.
        limit: Option<u32>,
        /// Only ticks before this time: `next` of the previous page.
        before: Option<String>,
    }
}

impl From<&ScheduleRecord> for Schedule {
    fn from(record: &ScheduleRecord) -> Self {
        Self::from((record, None))
    }
}

impl ScheduleTicks {
    /// A page of at most `limit` ticks, as [`Page::of`] makes it.
    pub fn of(records: &[TickRecord], limit: u32) -> Self {
        let Page { items, next } = Page::of(records, limit, |record| record.tick.as_micros());
        Self { items, next: next.map(Timestamp::from_micros) }
    }
}
