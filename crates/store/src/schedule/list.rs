//! Schedules as they are stored, and lists of them for people.

use crate::error::{Result, StoreError, damaged};
use crate::statement::{Columns, stored};
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
