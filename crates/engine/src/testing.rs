//! For tests of job authors: runs jobs on an in-memory database, with a clock that the test moves.
//!
//! ```
//! use tidemill_engine::item::{ItemsReader, ItemsWriter};
//! use tidemill_engine::job::{Job, Step};
//! use tidemill_engine::testing::JobBench;
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let written = ItemsWriter::default();
//! let job = Job::new("double").step(
//!     Step::chunk("all", 10)
//!         .reader(ItemsReader::new("numbers", 1..=3))
//!         .process(|n: &i64| Ok(Some(n * 2)))
//!         .writer(written.clone())
//!         .build(),
//! );
//!
//! let run = JobBench::new().await.unwrap().run(&job, &Default::default()).await.unwrap();
//!
//! assert!(run.is_completed());
//! assert_eq!(run.step("all").unwrap().counters.write, 3);
//! assert_eq!(written.items(), [2, 4, 6]);
//! # });
//! ```

use crate::job::{ExecutionEnd, Job, JobError, JobRegistry, Launcher};
use crate::schedule::{Schedule, ScheduleRegistry, Turned};
use crate::{EngineError, Process, ProcessOptions, schedule};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::job::{BatchStatus, ExecutionContext, JobParameters};
use tidemill_domain::process::Identity;
use tidemill_domain::time::{FakeClock, Timestamp};
use tidemill_store::job::{StepRecord, StoredContext};
use tidemill_store::schedule::{TICKS_KEPT, TickRecord};
use tidemill_store::{Init, Store, StoreOptions};

/// Longer than any test moves its clock.
const TTL: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A database, a process and a clock to run jobs on.
#[derive(Debug)]
pub struct JobBench {
    store: Store,
    clock: Arc<FakeClock>,
    process: Process,
}

tidemill_domain::getters!(JobBench {
    /// The database.
    &store: Store,
    /// The clock.
    &clock: FakeClock,
    /// The process that runs the jobs.
    &process: Process,
});

impl JobBench {
    /// A bench on an in-memory database. The time is 2026-11-15 02:00 UTC.
    #[crate::boxed]
    pub async fn new() -> Result<Self, JobError> {
        let clock =
            Arc::new(FakeClock::at("2026-11-15T02:00:00Z".parse().expect("the instant is well formed")));
        let options = StoreOptions { clock: Some(clock.clone()), ..StoreOptions::default() };
        let store = Store::open("sqlite::memory:".parse()?, &options).await?;
        store.initialise(Init::Always).await?;
        Self::on(store, clock).await
    }

    /// A bench on this database, which must be opened with this clock.
    pub async fn on(store: Store, clock: Arc<FakeClock>) -> Result<Self, JobError> {
        Self::with_lease(store, clock, TTL).await
    }

    /// [`on`](Self::on) with a process that expires when the clock moves by `ttl`.
    pub async fn with_lease(store: Store, clock: Arc<FakeClock>, ttl: Duration) -> Result<Self, JobError> {
        let identity = Identity { name: "bench".into(), host: "host".into(), pid: 1, version: "1".into() };
        let options = ProcessOptions { identity, ttl };
        let process = Process::register(store.clone(), clock.clone(), options).await?;
        Ok(Self { store, clock, process })
    }

    /// A launcher of one job.
    pub fn launcher(&self, job: &Job) -> Result<Launcher, JobError> {
        let jobs = JobRegistry::new([job.clone()])?;
        Ok(Launcher::new(self.store.clone(), self.process.clone(), self.clock.clone(), jobs))
    }

    /// Runs a job to its end, or continues it.
    pub async fn run(&self, job: &Job, parameters: &JobParameters) -> Result<TestRun, JobError> {
        let launcher = self.launcher(job)?;
        let running = launcher.launch(job.name(), parameters, &Actor::system()).await?;
        let end = running.ended().await?;
        self.look(end).await
    }

    /// Registers schedules of the launcher's jobs, as a server does when it starts.
    pub async fn define(
        &self,
        launcher: &Launcher,
        schedules: impl IntoIterator<Item = Schedule>,
    ) -> Result<(), JobError> {
        let schedules = ScheduleRegistry::new(schedules, &launcher.jobs())?;
        schedule::register(&self.store, &schedules, &Actor::system()).await
    }

    /// Fires due ticks by the clock, one after the other, each to its end.
    #[crate::boxed]
    pub async fn fire_due(&self, launcher: &Launcher) -> Result<Vec<FiredTick>, JobError> {
        let mut fired = Vec::new();
        loop {
            match schedule::turn(launcher).await? {
                Turned::Nothing => return Ok(fired),
                Turned::Fired { schedule, tick, running } => {
                    let run = self.look(running.ended().await?).await?;
                    fired.push(FiredTick { schedule, tick, run });
                }
                Turned::Passed | Turned::Refused(_) => {}
            }
        }
    }

    /// The recorded ticks of a schedule, the oldest first.
    pub async fn ticks(&self, schedule: &str) -> Result<Vec<TickRecord>, JobError> {
        let mut ticks = self.store.read().await?.schedules().ticks(schedule, None, TICKS_KEPT).await?;
        ticks.reverse();
        Ok(ticks)
    }

    /// The recorded steps of an execution that ended.
    #[crate::boxed]
    pub async fn look(&self, end: ExecutionEnd) -> Result<TestRun, JobError> {
        let mut tx = self.store.read().await?;
        let steps = tx.jobs().steps(end.execution).await?;
        let mut recorded = Vec::with_capacity(steps.len());
        for step in steps {
            let context = match tx.jobs().step_context(step.id).await? {
                Some(StoredContext::Readable(context)) => context,
                _ => ExecutionContext::new(),
            };
            recorded.push((step, context));
        }
        tx.rollback().await.map_err(EngineError::from)?;
        Ok(TestRun { end, steps: recorded })
    }
}

/// A tick that fired on a bench.
#[derive(Debug)]
pub struct FiredTick {
    /// Name of the schedule.
    pub schedule: String,
    /// The tick.
    pub tick: Timestamp,
    /// The execution, which has ended.
    pub run: TestRun,
}

/// An execution that ended, with its recorded steps.
#[derive(Debug)]
pub struct TestRun {
    /// How it ended.
    pub end: ExecutionEnd,
    steps: Vec<(StepRecord, ExecutionContext)>,
}

impl TestRun {
    /// Whether it completed.
    pub fn is_completed(&self) -> bool {
        self.end.status == BatchStatus::Completed
    }

    /// The steps that ran, in order.
    pub fn steps(&self) -> impl Iterator<Item = &StepRecord> {
        self.steps.iter().map(|(step, _)| step)
    }

    /// The step of this name, if it ran.
    pub fn step(&self, name: &str) -> Option<&StepRecord> {
        self.steps().find(|step| step.name == name)
    }

    /// The context of the step of this name.
    pub fn context(&self, name: &str) -> Option<&ExecutionContext> {
        self.steps.iter().find(|(step, _)| step.name == name).map(|(_, context)| context)
    }
}
