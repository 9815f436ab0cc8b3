//! Schedules launch jobs. A program registers its schedules when it starts; after that they are in the database, and
//! any process that has the job fires them, each tick once.
//!
//! One turn is one transaction: it locks a due schedule, decides, inserts the execution, records the tick and moves on
//! to the next. A second process finds the schedule locked and skips it.

pub use tidemill_domain::schedule::{MissedRuns, Outside, Overlap, Schedule};

use crate::job::{JobError, JobRegistry, Launcher, Launching, Running};
use crate::{EngineError, Next, Service, metrics, transact};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::{Actor, Role};
use tidemill_domain::code::Code;
use tidemill_domain::job::ExecutionId;
use tidemill_domain::job::instance::next_instance;
use tidemill_domain::poll::Pace;
use tidemill_domain::schedule::{BadSchedule, Plan};
use tidemill_domain::time::Timestamp;
use tidemill_store::schedule::{Defined, DueSchedule, DueTick, Room, SCHEDULE_CHANGED};
use tidemill_store::{Store, StoreError, Tx};

/// How often to look if no wake-up arrives and no tick is near.
const PACE: Pace = Pace { min: Duration::from_millis(20), max: Duration::from_secs(1) };

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
    /// let nightly = Schedule::new("nightly", "nothing").cron("0 2 * * *");
    /// let refused = ScheduleRegistry::new([nightly], &JobRegistry::default()).unwrap_err();
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

/// The result of a turn.
#[derive(Debug)]
#[non_exhaustive]
pub enum Turned {
    /// No schedule was due.
    Nothing,
    /// A schedule was due, but no tick fired: ticks were missed or skipped, one waits, or another process recorded it.
    Passed,
    /// A tick fired.
    Fired {
        /// Name of the schedule.
        schedule: String,
        /// The tick.
        tick: Timestamp,
        /// The execution, which runs in this process.
        running: Running,
    },
    /// A tick was due, but its launch was refused for this reason.
    Refused(String),
}

/// Fires due schedules until the launcher's process ends.
#[crate::boxed]
pub async fn run(launcher: Launcher) {
    let mut service = Service::polling("looking for schedules that are due", PACE)
        .wake_by(launcher.store().wakeup(SCHEDULE_CHANGED))
        .until_end_of(launcher.process());
    while service.is_due().await {
        service.ended(look(&launcher).await);
    }
}

async fn look(launcher: &Launcher) -> Result<Next, JobError> {
    let names = launcher.jobs().names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut tx = launcher.store().read().await?;
    let (now, look_at) = tx.schedules().next_look(&names).await?;
    drop(tx);
    let Some(look_at) = look_at else { return Ok(Next::Rest) };
    if look_at > now {
        return Ok(Next::AtMost(look_at.since(now)));
    }
    // In a task: cancelling this loop must not leave an execution that does not run.
    let own = launcher.clone();
    let turned = match tokio::spawn(async move { turn(&own).await }).await {
        Ok(turned) => turned?,
        Err(error) => {
            tracing::error!(%error, "firing a schedule ended in a panic");
            return Ok(Next::Rest);
        }
    };
    Ok(if matches!(turned, Turned::Nothing) { Next::Rest } else { Next::Soon })
}

/// Takes one due schedule, and launches its job if a tick is due.
#[crate::boxed]
pub async fn turn(launcher: &Launcher) -> Result<Turned, JobError> {
    let names = launcher.jobs().names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if names.is_empty() {
        return Ok(Turned::Nothing);
    }
    let mut launching = launcher.launching().await;
    let room = if launching.is_full() { Room::Full } else { Room::Free };
    let mut tx = launcher.store().begin().await?;
    let Some(taken) = tx.schedules().take_due(&names, room).await? else { return Ok(Turned::Nothing) };
    let DueSchedule { schedule, passed, due } = taken;
    let fired = match due {
        DueTick::Fires { tick, job, plan, now } => {
            let made = make(
                launcher,
                &mut launching,
                &mut tx,
                Tick { schedule: &schedule, tick, job: &job, plan: &plan },
            );
            let made = made.await?;
            if !tx
                .schedules()
                .record_tick(&schedule, tick, made.as_ref().map_err(String::as_str).copied())
                .await?
            {
                tx.rollback().await?;
                tracing::warn!("tick {tick} of schedule {schedule} was recorded by somebody else");
                return Ok(Turned::Passed);
            }
            Some((tick, made, now))
        }
        DueTick::Nothing => None,
        DueTick::DecidedBefore { tick } => {
            tracing::warn!("tick {tick} of schedule {schedule} comes again: a clock was set back");
            None
        }
        DueTick::Damaged(bad) => {
            tracing::error!(
                "the stored definition of schedule {schedule} is not understood ({bad}); define it anew"
            );
            None
        }
    };
    tx.commit().await?;
    let running = launching.committed();
    for passed in &passed {
        tracing::warn!("tick {} of schedule {schedule} did not fire: {}", passed.at, passed.why.reason());
        metrics::schedule_ticks(&schedule, passed.why.outcome().as_str()).increment(1);
    }
    match fired {
        None => Ok(Turned::Passed),
        Some((tick, Err(why), _)) => {
            tracing::warn!("tick {tick} of schedule {schedule} was refused: {why}");
            metrics::schedule_ticks(&schedule, "refused").increment(1);
            Ok(Turned::Refused(why))
        }
        Some((tick, Ok(id), now)) => {
            let running = running.expect("what was launched has been prepared");
            tracing::info!(execution.id = %id, "tick {tick} of schedule {schedule} launched execution {id}");
            metrics::schedule_ticks(&schedule, "fired").increment(1);
            metrics::schedule_lag(&schedule).record(now.since(tick));
            Ok(Turned::Fired { schedule, tick, running })
        }
    }
}

struct Tick<'a> {
    schedule: &'a str,
    tick: Timestamp,
    job: &'a str,
    plan: &'a Plan,
}

/// Inserts the execution of a tick, or returns why it is refused. Errors of this process or the database leave the tick
/// due.
async fn make(
    launcher: &Launcher,
    launching: &mut Launching<'_>,
    tx: &mut Tx,
    up: Tick<'_>,
) -> Result<Result<ExecutionId, String>, JobError> {
    let refused = |code: Code, why: &dyn std::fmt::Display| Ok(Err(format!("{code}: {why}")));
    let jobs = launcher.jobs();
    let specs = jobs.get(up.job)?.parameters();
    let mut parameters = match up.plan.parameters_at(up.tick, specs) {
        Ok(parameters) => parameters,
        Err(why) => return refused(Code::BadJobParameters, &why),
    };
    if up.plan.means_one_instance(specs) {
        let greatest = tx.jobs().greatest_run_id(up.job).await?;
        parameters = match next_instance(parameters, greatest) {
            Ok(parameters) => parameters,
            Err(why) => return refused(Code::BadJobParameters, &why),
        };
    }
    let actor = Actor { name: format!("schedule {}", up.schedule), role: Role::System, request_id: None };
    tx.savepoint().await?;
    match launching.launch(tx, up.job, &parameters, &actor).await {
        Ok(id) => Ok(Ok(id)),
        Err(error @ JobError::Refused { .. }) => refused(error.code(), &error),
        // The stored data of this instance is damaged, and will be the next time too.
        Err(JobError::Engine(EngineError::Store(
            error @ (StoreError::DamagedRow { .. } | StoreError::BadContext { .. }),
        ))) => {
            tx.rollback_to_savepoint().await?;
            refused(error.code(), &error)
        }
        Err(error) => Err(error),
    }
}
