//! Schedules as they are stored, and lists of them for people.

use crate::codec::DbTime;
use crate::error::{Result, StoreError, damaged};
use crate::statement::{Columns, Exists, One, statements, stored};
use crate::tx::Schedules;
use serde_json::{Map, Value};
use std::time::Duration;
use tidemill_domain::job::ExecutionId;
use tidemill_domain::schedule::{Schedule, TickOutcome};
use tidemill_domain::time::Timestamp;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScheduleRecord {
    pub schedule: Schedule,
    pub defined_at: Timestamp,
    /// The next undecided tick.
    pub next_at: Option<Timestamp>,
    /// Whether that tick is due and waits, for an earlier execution or for room.
    pub is_waiting: bool,
    /// The last decided tick.
    pub last_tick_at: Option<Timestamp>,
    pub pause: Option<Pause>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pause {
    pub at: Timestamp,
    pub by: String,
    pub reason: String,
}

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct TickRecord in ("tidemill_schedule_tick", "schedule tick_at") {
        pub tick: Timestamp = "tick_at",
        pub outcome: TickOutcome,
        /// Why it did not fire.
        pub reason: Option<String>,
        pub execution: Option<ExecutionId> = "execution_id",
        pub at: Timestamp,
    }
}

impl Schedules<'_> {
    /// By name.
    pub async fn list(&mut self, limit: u32) -> Result<Vec<ScheduleRecord>> {
        self.schedule_list(limit).await?.into_iter().map(TryInto::try_into).collect()
    }

    pub async fn find(&mut self, name: &str) -> Result<Option<ScheduleRecord>> {
        self.schedule_find(name).await?.map(TryInto::try_into).transpose()
    }
}

const TABLE: &str = "tidemill_schedule";

stored! {
    pub(crate) struct ScheduleRow in (TABLE, "name") |row| {
        pub(crate) name: String,
        pub(crate) job: String,
        /// A damaged definition must not hide the rest of the row.
        pub(crate) schedule: Result<Schedule> => schedule(row).map_err(StoreError::from),
        pub(crate) fingerprint: String,
        pub(crate) defined_at: Timestamp,
        pub(crate) next_at: Option<Timestamp>,
        pub(crate) is_waiting: bool,
        pub(crate) look_at: Option<Timestamp>,
        pub(crate) last_tick_at: Option<Timestamp>,
        pub(crate) paused_at: Option<Timestamp>,
        pub(crate) paused_by: Option<String>,
        pub(crate) pause_reason: Option<String>,
    }
}

fn schedule(row: &Columns<'_>) -> Result<Schedule, sqlx::Error> {
    let parameters: Map<String, Value> = row.json("parameters")?;
    let text = |(name, value): (String, Value)| Some((name, value.as_str()?.to_owned()));
    Ok(Schedule {
        name: row.get("name")?,
        job: row.get("job")?,
        cron: row.get("cron")?,
        zone: row.get("zone")?,
        windows: row.json("windows")?,
        outside: row.get("outside")?,
        missed: row.get("missed")?,
        overlap: row.get("overlap")?,
        grace: Duration::from_secs(row.get("grace_seconds")?),
        parameters: row.checked("parameters", parameters.into_iter().map(text).collect())?,
    })
}

pub(crate) fn windows(schedule: &Schedule) -> String {
    Value::from(schedule.windows.clone()).to_string()
}

pub(crate) fn parameters(schedule: &Schedule) -> String {
    let parameters: Map<String, Value> =
        schedule.parameters.iter().map(|(name, text)| (name.clone(), text.as_str().into())).collect();
    Value::from(parameters).to_string()
}

impl TryFrom<ScheduleRow> for ScheduleRecord {
    type Error = StoreError;

    fn try_from(row: ScheduleRow) -> Result<Self> {
        let pause = match (row.paused_at, row.paused_by, row.pause_reason) {
            (Some(at), Some(by), Some(reason)) => Some(Pause { at, by, reason }),
            (None, None, None) => None,
            _ => return Err(damaged(TABLE, "paused_at", row.name)),
        };
        Ok(Self {
            schedule: row.schedule?,
            defined_at: row.defined_at,
            next_at: row.next_at,
            is_waiting: row.is_waiting,
            last_tick_at: row.last_tick_at,
            pause,
        })
    }
}

statements! {
    /// Does nothing if the name exists; waits for a transaction that inserts it.
    fn schedule_insert(schedule: &Schedule, now: Timestamp, next_at: Option<Timestamp>) -> u64 {
        bind(
            &schedule.name, &schedule.job, &schedule.cron, &schedule.zone, windows(schedule), &schedule.outside,
            &schedule.missed, &schedule.overlap, schedule.grace.as_secs(), parameters(schedule),
            schedule.fingerprint(), now, next_at, false, next_at,
        )
        "insert into tidemill_schedule
             (name, job, cron, zone, windows, outside, missed, overlap, grace_seconds, parameters, fingerprint,
              defined_at, next_at, is_waiting, look_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
         on conflict (name) do nothing"
    }

    fn schedule_redefine(schedule: &Schedule, now: Timestamp, next_at: Option<Timestamp>) -> () {
        bind(
            &schedule.name, &schedule.job, &schedule.cron, &schedule.zone, windows(schedule), &schedule.outside,
            &schedule.missed, &schedule.overlap, schedule.grace.as_secs(), parameters(schedule),
            schedule.fingerprint(), now, next_at, false, next_at,
        )
        "update tidemill_schedule
         set job = $2, cron = $3, zone = $4, windows = $5, outside = $6, missed = $7, overlap = $8,
             grace_seconds = $9, parameters = $10, fingerprint = $11, defined_at = $12, next_at = $13,
             is_waiting = $14, look_at = $15
         where name = $1"
    }

    fn schedule_lock(name: &str) -> Option<ScheduleRow> {
        "select name, job, cron, zone, windows, outside, missed, overlap, grace_seconds, parameters, fingerprint,
                defined_at, next_at, is_waiting, look_at, last_tick_at, paused_at, paused_by, pause_reason
         from tidemill_schedule where name = $1 {for update}"
    }

    fn schedule_find(name: &str) -> Option<ScheduleRow> {
        "select name, job, cron, zone, windows, outside, missed, overlap, grace_seconds, parameters, fingerprint,
                defined_at, next_at, is_waiting, look_at, last_tick_at, paused_at, paused_by, pause_reason
         from tidemill_schedule where name = $1"
    }

    /// Locks the longest due one of these jobs; skips locked ones.
    fn schedule_lock_due(now: Timestamp, jobs: &[&str]) -> Option<ScheduleRow> {
        "select name, job, cron, zone, windows, outside, missed, overlap, grace_seconds, parameters, fingerprint,
                defined_at, next_at, is_waiting, look_at, last_tick_at, paused_at, paused_by, pause_reason
         from tidemill_schedule where look_at <= $1 and paused_at is null and job {in $2}
         order by look_at, name limit 1 {for update skip locked}"
    }

    fn schedule_next_look(jobs: &[&str]) -> One<Option<DbTime>> {
        "select min(look_at) from tidemill_schedule where paused_at is null and job {in $1}"
    }

    fn schedule_save_state(row: &ScheduleRow) -> () {
        bind(&row.name, row.next_at, row.is_waiting, row.look_at, row.last_tick_at)
        "update tidemill_schedule set next_at = $2, is_waiting = $3, look_at = $4, last_tick_at = $5
         where name = $1"
    }

    fn schedule_save_pause(row: &ScheduleRow) -> () {
        bind(&row.name, row.paused_at, &row.paused_by, &row.pause_reason)
        "update tidemill_schedule set paused_at = $2, paused_by = $3, pause_reason = $4 where name = $1"
    }

    fn schedule_list(limit: u32) -> Vec<ScheduleRow> {
        "select name, job, cron, zone, windows, outside, missed, overlap, grace_seconds, parameters, fingerprint,
                defined_at, next_at, is_waiting, look_at, last_tick_at, paused_at, paused_by, pause_reason
         from tidemill_schedule order by name limit $1"
    }

    /// Whether an execution of its ticks, or a later one of the same instance, runs or is due for a restart.
    fn schedule_is_unresolved(name: &str) -> One<bool> {
        "select exists (
             select 1
             from batch_job_execution e
             join batch_job_execution first on first.job_instance_id = e.job_instance_id
             join tidemill_schedule_tick t on t.execution_id = first.job_execution_id
             where t.schedule = $1
               and e.status in ('STARTING', 'STARTED', 'STOPPING', 'UNKNOWN')
         ) or exists (
             select 1
             from tidemill_job_execution n
             join batch_job_execution e on e.job_execution_id = n.job_execution_id
             join batch_job_execution first on first.job_instance_id = e.job_instance_id
             join tidemill_schedule_tick t on t.execution_id = first.job_execution_id
             where t.schedule = $1
               and n.restart_due {= 1}
         )"
    }

    /// A second safeguard: zero if this tick was decided before.
    fn schedule_tick_insert(
        schedule: &str, tick: Timestamp, outcome: &str, reason: Option<&str>, execution: Option<i64>, at: Timestamp,
    ) -> u64 {
        "insert into tidemill_schedule_tick (schedule, tick_at, outcome, reason, execution_id, at)
         values ($1, $2, $3, $4, $5, $6)
         on conflict (schedule, tick_at) do nothing"
    }

    fn schedule_tick_exists(schedule: &str, tick_at: Timestamp) -> Exists {
        "select 1 from tidemill_schedule_tick where schedule = $1 and tick_at = $2"
    }

    /// At most `limit` ticks of a schedule before `before`, the newest first.
    pub fn Schedules::ticks(schedule: &str, before: Option<Timestamp>, limit: u32) -> Vec<TickRecord> {
        "select schedule, tick_at, outcome, reason, execution_id, at from tidemill_schedule_tick
         where schedule = $1 and ($2{::timestamptz} is null or tick_at < $2)
         order by tick_at desc limit $3"
    }

    /// Keeps the newest.
    fn schedule_tick_prune(schedule: &str, keep: u32) -> u64 {
        "delete from tidemill_schedule_tick
         where schedule = $1
           and tick_at <= (
               select tick_at
               from tidemill_schedule_tick
               where schedule = $1
               order by tick_at desc
               limit 1
               offset $2
           )"
    }

    /// Deletes its ticks too.
    fn schedule_delete(name: &str) -> u64 {
        "delete from tidemill_schedule where name = $1"
    }
}
