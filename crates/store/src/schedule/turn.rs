//! Takes a due schedule. The caller launches and records in the same transaction: without a commit it stays due.

use super::TICKS_KEPT;
use crate::codec::storable;
use crate::crash_point;
use crate::error::Result;
use crate::tx::Schedules;
use std::time::Duration;
use tidemill_domain::job::ExecutionId;
use tidemill_domain::schedule::turn::{self, Circumstances, PassedTick, ScheduleState};
use tidemill_domain::schedule::{BadSchedule, Plan, TickOutcome};
use tidemill_domain::time::Timestamp;

/// Pause for a tick that waits for an earlier execution.
const WAITING_PAUSE: Duration = Duration::from_secs(1);

/// Pause for a tick that found no room; other processes may have some.
const FULL_PAUSE: Duration = Duration::from_millis(250);

/// Pause for a schedule with an invalid row, so that it does not block the others.
const DAMAGED_PAUSE: Duration = Duration::from_secs(60);

/// Whether this process can run another execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    Free,
    /// A due tick waits.
    Full,
}

#[derive(Clone, PartialEq, Debug)]
pub struct DueSchedule {
    pub schedule: String,
    /// Ticks that did not fire; they are recorded.
    pub passed: Vec<PassedTick>,
    pub due: DueTick,
}

#[derive(Clone, PartialEq, Debug)]
pub enum DueTick {
    /// Launch it, and then record it with [`Schedules::record_tick`](crate::tx::Schedules::record_tick).
    Fires { tick: Timestamp, job: String, plan: Box<Plan>, now: Timestamp },
    /// The next tick is in the future, or this one waits.
    Nothing,
    /// The tick was decided before a clock was set back.
    DecidedBefore { tick: Timestamp },
    /// The stored definition is invalid. It is read again in a minute.
    Damaged(BadSchedule),
}

impl Schedules<'_> {
    /// The current time, and when to look at the next schedule of these jobs.
    pub async fn next_look(&mut self, jobs: &[&str]) -> Result<(Timestamp, Option<Timestamp>)> {
        let look_at = self.schedule_next_look(jobs).await?;
        Ok((self.now().await?, look_at.map(Into::into)))
    }

    /// Takes one due schedule of these jobs, and lets the domain decide. Records ticks that do not fire; launch and
    /// record the one that fires.
    #[crate::boxed]
    pub async fn take_due(&mut self, jobs: &[&str], room: Room) -> Result<Option<DueSchedule>> {
        let now = self.now().await?;
        let Some(mut row) = self.schedule_lock_due(now, jobs).await? else { return Ok(None) };
        let plan = match &row.schedule {
            Ok(schedule) => schedule.plan(),
            Err(error) => Err(BadSchedule::new("row", error)),
        };
        let plan = match plan {
            Ok(plan) => plan,
            Err(bad) => {
                row.look_at = Some(now.plus(DAMAGED_PAUSE));
                self.schedule_save_state(&row).await?;
                let due = DueTick::Damaged(bad);
                return Ok(Some(DueSchedule { schedule: row.name, passed: Vec::new(), due }));
            }
        };
        let has_room = room == Room::Free;
        let is_earlier_running = self.schedule_is_unresolved(&row.name).await?;
        let now = self.now().await?;
        let before = ScheduleState { next_at: row.next_at, is_waiting: row.is_waiting };
        let decided = turn::decide(&plan, before, Circumstances { now, is_earlier_running, has_room });
        let mut passed = Vec::with_capacity(decided.passed.len());
        for tick in decided.passed {
            let reason = Some(tick.why.reason());
            if self.insert_tick(&row.name, tick.at, tick.why.outcome(), reason, None, now).await? {
                passed.push(tick);
            }
        }
        row.next_at = decided.state.next_at;
        row.is_waiting = decided.state.is_waiting;
        row.look_at = match decided.state {
            ScheduleState { is_waiting: true, .. } if has_room => Some(now.plus(WAITING_PAUSE)),
            ScheduleState { is_waiting: true, .. } => Some(now.plus(FULL_PAUSE)),
            ScheduleState { next_at, .. } => next_at,
        };
        row.last_tick_at = decided.fires.or(passed.last().map(|passed| passed.at)).or(row.last_tick_at);
        self.schedule_save_state(&row).await?;
        if !passed.is_empty() {
            self.schedule_tick_prune(&row.name, TICKS_KEPT).await?;
        }
        let due = match decided.fires {
            None => DueTick::Nothing,
            Some(tick) if self.schedule_tick_exists(&row.name, tick).await? => {
                DueTick::DecidedBefore { tick }
            }
            Some(tick) => DueTick::Fires { tick, job: row.job.clone(), plan: Box::new(plan), now },
        };
        Ok(Some(DueSchedule { schedule: row.name, passed, due }))
    }

    /// Records the outcome of a tick that was to fire. False if another process has recorded it: then roll back.
    #[crate::boxed]
    pub async fn record_tick(
        &mut self,
        schedule: &str,
        tick: Timestamp,
        launched: Result<ExecutionId, &str>,
    ) -> Result<bool> {
        let now = self.now().await?;
        let is_first = match launched {
            Ok(execution) => {
                self.insert_tick(schedule, tick, TickOutcome::Fired, None, Some(execution), now).await?
            }
            Err(why) => self.insert_tick(schedule, tick, TickOutcome::Refused, Some(why), None, now).await?,
        };
        self.schedule_tick_prune(schedule, TICKS_KEPT).await?;
        crash_point!("schedule_fired");
        Ok(is_first)
    }

    async fn insert_tick(
        &mut self,
        schedule: &str,
        tick: Timestamp,
        outcome: TickOutcome,
        reason: Option<&str>,
        execution: Option<ExecutionId>,
        now: Timestamp,
    ) -> Result<bool> {
        let reason = reason.map(storable);
        let (outcome, execution) = (outcome.as_str(), execution.map(ExecutionId::get));
        Ok(self.schedule_tick_insert(schedule, tick, outcome, reason.as_deref(), execution, now).await? == 1)
    }
}
