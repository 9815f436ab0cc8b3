//! Rows of schedules.

use super::{Pause, ScheduleRecord};
use crate::codec::DbTime;
use crate::error::{StoreError, damaged};
use serde_json::{Map, Value};
use std::time::Duration;
use tidemill_domain::schedule::Schedule;
use tidemill_domain::time::Timestamp;

const TABLE: &str = "tidemill_schedule";

crate::statement::row! {
    pub(crate) struct ScheduleRow {
        pub(crate) name: String,
        pub(crate) job: String,
        pub(crate) cron: String,
        pub(crate) zone: String,
        pub(crate) windows: String,
        pub(crate) outside: String,
        pub(crate) missed: String,
        pub(crate) overlap: String,
        pub(crate) grace_seconds: i64,
        pub(crate) parameters: String,
        pub(crate) fingerprint: String,
        pub(crate) defined_at: DbTime,
        pub(crate) next_at: Option<DbTime>,
        pub(crate) is_waiting: bool,
        pub(crate) look_at: Option<DbTime>,
        pub(crate) last_tick_at: Option<DbTime>,
        pub(crate) paused_at: Option<DbTime>,
        pub(crate) paused_by: Option<String>,
        pub(crate) pause_reason: Option<String>,
    }
}

impl ScheduleRow {
    /// Defined now, without ticks.
    pub(crate) fn new(schedule: &Schedule, now: Timestamp, next_at: Option<Timestamp>) -> Self {
        let parameters: Map<String, Value> =
            schedule.parameters.iter().map(|(name, text)| (name.clone(), text.as_str().into())).collect();
        let windows: Vec<Value> = schedule.windows.iter().map(|window| window.as_str().into()).collect();
        Self {
            name: schedule.name.clone(),
            job: schedule.job.clone(),
            cron: schedule.cron.clone(),
            zone: schedule.zone.clone(),
            windows: Value::from(windows).to_string(),
            outside: schedule.outside.clone(),
            missed: schedule.missed.clone(),
            overlap: schedule.overlap.clone(),
            grace_seconds: i64::try_from(schedule.grace.as_secs()).unwrap_or(i64::MAX),
            parameters: Value::from(parameters).to_string(),
            fingerprint: schedule.fingerprint(),
            defined_at: now.into(),
            next_at: next_at.map(Into::into),
            is_waiting: false,
            look_at: next_at.map(Into::into),
            last_tick_at: None,
            paused_at: None,
            paused_by: None,
            pause_reason: None,
        }
    }

    pub(crate) fn schedule(&self) -> Result<Schedule, StoreError> {
        let broken = |column| damaged(TABLE, column, &self.name);
        let windows: Vec<String> = match serde_json::from_str(&self.windows) {
            Ok(Value::Array(windows)) => texts(windows).ok_or_else(|| broken("windows"))?,
            _ => return Err(broken("windows")),
        };
        let parameters = match serde_json::from_str(&self.parameters) {
            Ok(Value::Object(parameters)) => {
                let (names, values): (Vec<String>, Vec<Value>) = parameters.into_iter().unzip();
                names.into_iter().zip(texts(values).ok_or_else(|| broken("parameters"))?).collect()
            }
            _ => return Err(broken("parameters")),
        };
        Ok(Schedule {
            name: self.name.clone(),
            job: self.job.clone(),
            cron: self.cron.clone(),
            zone: self.zone.clone(),
            windows,
            outside: self.outside.clone(),
            missed: self.missed.clone(),
            overlap: self.overlap.clone(),
            grace: Duration::from_secs(
                u64::try_from(self.grace_seconds).map_err(|_| broken("grace_seconds"))?,
            ),
            parameters,
        })
    }
}

fn texts(values: Vec<Value>) -> Option<Vec<String>> {
    let text = |value| if let Value::String(text) = value { Some(text) } else { None };
    values.into_iter().map(text).collect()
}

impl TryFrom<ScheduleRow> for ScheduleRecord {
    type Error = StoreError;

    fn try_from(row: ScheduleRow) -> Result<Self, StoreError> {
        let schedule = row.schedule()?;
        let pause = match (row.paused_at, row.paused_by, row.pause_reason) {
            (Some(at), Some(by), Some(reason)) => Some(Pause { at: at.into(), by, reason }),
            (None, None, None) => None,
            _ => return Err(damaged(TABLE, "paused_at", row.name)),
        };
        Ok(Self {
            schedule,
            defined_at: row.defined_at.into(),
            next_at: row.next_at.map(Into::into),
            is_waiting: row.is_waiting,
            last_tick_at: row.last_tick_at.map(Into::into),
            pause,
        })
    }
}
