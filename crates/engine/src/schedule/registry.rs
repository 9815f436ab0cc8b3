//! Registering the schedules of a program.

use crate::job::{JobError, JobRegistry};
use crate::transact;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidemill_domain::audit::Actor;
use tidemill_domain::schedule::{BadSchedule, Plan, Schedule};
use tidemill_store::Store;
use tidemill_store::schedule::Defined;

/// The schedules of a program, by name.
#[derive(Clone, Debug, Default)]
pub struct ScheduleRegistry {
    schedules: Arc<BTreeMap<String, (Schedule, Plan)>>,
}

impl ScheduleRegistry {
    /// Checks the schedules against the jobs.
    ///
    /// ```
    /// use tidemill_engine::job::JobRegistry;
    /// use tidemill_engine::schedule::{Schedule, ScheduleRegistry};
    ///
    /// let nobody = Schedule::new("nightly", "nothing").cron("0 2 * * *");
    /// let refused = ScheduleRegistry::new([nobody], &JobRegistry::default()).unwrap_err();
    /// assert_eq!(refused.code().to_string(), "TM1023");
    /// ```
    pub fn new(schedules: impl IntoIterator<Item = Schedule>, jobs: &JobRegistry) -> Result<Self, JobError> {
        let mut known = BTreeMap::new();
        for schedule in schedules {
            let name = schedule.name.clone();
            let bad = |bad| JobError::BadSchedule { schedule: name.clone(), bad };
            let job = jobs.get(&schedule.job).map_err(|error| bad(BadSchedule::new("job", error)))?;
            let plan = schedule.plan_for(job.parameters()).map_err(bad)?;
            if known.insert(name.clone(), (schedule, plan)).is_some() {
                return Err(bad(BadSchedule::new("name", "two schedules have this name")));
            }
        }
        Ok(Self { schedules: Arc::new(known) })
    }

    /// Whether there are no schedules.
    pub fn is_empty(&self) -> bool {
        self.schedules.is_empty()
    }

    /// All schedules, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Schedule> {
        self.schedules.values().map(|(schedule, _)| schedule)
    }
}

/// Registers the schedules of this program in the database. Unchanged ones keep their next tick and their pause;
/// those of other programs stay.
#[crate::boxed]
pub async fn register(store: &Store, schedules: &ScheduleRegistry, actor: &Actor) -> Result<(), JobError> {
    for (schedule, plan) in schedules.schedules.values() {
        let defined = transact(store, async |tx| tx.schedules().define(schedule, plan, actor).await).await?;
        let name = &schedule.name;
        match defined {
            Defined::New => tracing::info!("schedule {name} is new"),
            Defined::Changed => tracing::info!("schedule {name} has changed"),
            Defined::Unchanged => {}
        }
    }
    Ok(())
}
