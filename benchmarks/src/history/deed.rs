//! The measured operations. Each is a whole transaction, as in a server or a command.

use anyhow::{Context, Result, bail, ensure};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::retention::{Retention, Unfinished};
use tidemill_domain::job::step::StepRules;
use tidemill_domain::job::{
    BatchStatus, ExecutionContext, ExecutionId, ExitStatus, InstanceId, JobParameters,
};
use tidemill_domain::process::Identity;
use tidemill_domain::time::Clock;
use tidemill_engine::{Process, ProcessOptions, SystemClock};
use tidemill_store::job::{EndRecorded, ExecutionFilter, LaunchRequest, Launched, StepRequest};
use tidemill_store::{Store, Tx};

/// Rows per page.
const PAGE: u32 = 50;

/// Instances that one transaction deletes.
const SHARE: u32 = 20;

/// An operation on jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Deed {
    Launch,
    LaunchTicker,
    StartStep,
    List,
    ListMiddle,
    ListJob,
    ListJobMiddle,
    ListFailed,
    ListJobFailed,
    ListInstance,
    Show,
    Jobs,
    Instances,
    TakeDueRestart,
    RecoverOrphans,
    Purge,
}

impl Deed {
    pub(super) const ALL: [Self; 16] = [
        Self::Launch,
        Self::LaunchTicker,
        Self::StartStep,
        Self::List,
        Self::ListMiddle,
        Self::ListJob,
        Self::ListJobMiddle,
        Self::ListFailed,
        Self::ListJobFailed,
        Self::ListInstance,
        Self::Show,
        Self::Jobs,
        Self::Instances,
        Self::TakeDueRestart,
        Self::RecoverOrphans,
        Self::Purge,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Launch => "launch, a new instance",
            Self::LaunchTicker => "launch, an instance that ran often",
            Self::StartStep => "start a step of such an instance",
            Self::List => "list, first page",
            Self::ListMiddle => "list, a page in the middle",
            Self::ListJob => "list of a job, first page",
            Self::ListJobMiddle => "list of a job, in the middle",
            Self::ListFailed => "list of FAILED",
            Self::ListJobFailed => "list of a job and FAILED",
            Self::ListInstance => "list of an instance",
            Self::Show => "show an execution and its steps",
            Self::Jobs => "list jobs",
            Self::Instances => "list instances of a job",
            Self::TakeDueRestart => "take a restart that is due: none",
            Self::RecoverOrphans => "recover orphans: none",
            Self::Purge => "purge 20 instances",
        }
    }
}

/// A database with a history, and a process that uses it.
pub(super) struct Stage {
    store: Store,
    process: Process,
    clock: SystemClock,
    executions: u64,
    /// A counter that makes every launch a new instance.
    launches: i64,
}

impl Stage {
    /// Fills an empty database.
    pub(super) async fn fill(store: Store, executions: u64) -> Result<Self> {
        let mut tx = store.begin().await?;
        tx.fill_history(executions).await?;
        tx.commit().await?;
        let pid = std::process::id();
        let identity = Identity { name: "bench".into(), host: "bench".into(), pid, version: "0".into() };
        let options = ProcessOptions { identity, ttl: Duration::from_secs(60) };
        let process = Process::start(store.clone(), Arc::new(SystemClock::new()), options).await?;
        Ok(Self { store, process, clock: SystemClock::new(), executions, launches: 0 })
    }

    pub(super) async fn close(self) -> Result<()> {
        self.process.stop().await?;
        self.store.close().await;
        Ok(())
    }

    /// Runs one round. The cleanup afterwards is not measured.
    pub(super) async fn round(&mut self, deed: Deed) -> Result<Duration> {
        match deed {
            Deed::Launch => {
                self.launches += 1;
                let parameters = JobParameters::new().with("launch", self.launches);
                self.launch("load_3", &parameters).await
            }
            Deed::LaunchTicker => self.launch("ticker", &JobParameters::new()).await,
            Deed::StartStep => self.start_step().await,
            Deed::TakeDueRestart | Deed::RecoverOrphans | Deed::Purge => {
                let start = self.clock.monotonic();
                let mut tx = self.store.begin().await?;
                change(&mut tx, deed).await?;
                tx.commit().await?;
                Ok(self.clock.monotonic().since(start))
            }
            _ => {
                let start = self.clock.monotonic();
                let mut tx = self.store.read().await?;
                look(&mut tx, deed, self.executions).await?;
                tx.rollback().await?;
                Ok(self.clock.monotonic().since(start))
            }
        }
    }

    async fn launch(&self, job: &str, parameters: &JobParameters) -> Result<Duration> {
        let start = self.clock.monotonic();
        let launched = self.begin(job, parameters).await?;
        let took = self.clock.monotonic().since(start);
        self.end(&launched).await?;
        Ok(took)
    }

    async fn start_step(&self) -> Result<Duration> {
        let launched = self.begin("ticker", &JobParameters::new()).await?;
        let start = self.clock.monotonic();
        let mut tx = self.store.begin().await?;
        tx.jobs()
            .start_step(&StepRequest {
                execution: launched.execution,
                instance: launched.instance,
                lease: &launched.lease,
                fence: launched.granted.fence,
                step: "load",
                rules: StepRules::default(),
                seed: &ExecutionContext::new(),
            })
            .await?;
        tx.commit().await?;
        let took = self.clock.monotonic().since(start);
        self.end(&launched).await?;
        Ok(took)
    }

    async fn begin(&self, job: &str, parameters: &JobParameters) -> Result<Launched> {
        let mut tx = self.store.begin().await?;
        let launched = tx
            .jobs()
            .launch(&LaunchRequest {
                job,
                parameters,
                parameters_valid: Ok(()),
                is_restartable: true,
                on_crash: OnCrash::Fail,
                crash_restarts: 0,
                notify: &[],
                fingerprint: None,
                accepts_change: false,
                by: self.process.id(),
                actor: &Actor::system(),
            })
            .await??;
        tx.commit().await?;
        Ok(launched)
    }

    async fn end(&self, launched: &Launched) -> Result<()> {
        let (status, exit) = (BatchStatus::Completed, ExitStatus::completed());
        let mut tx = self.store.begin().await?;
        let (lease, fence) = (&launched.lease, launched.granted.fence);
        let ended = tx.jobs().end_execution(launched.execution, lease, fence, status, &exit).await?;
        ensure!(ended == EndRecorded::Done, "the end of an execution was refused");
        Ok(tx.commit().await?)
    }
}

async fn change(tx: &mut Tx, deed: Deed) -> Result<()> {
    match deed {
        Deed::TakeDueRestart => {
            drop(tx.jobs().take_due_restart(&[("ticker", None), ("load_3", None)]).await?)
        }
        Deed::RecoverOrphans => drop(tx.jobs().recover_orphans(100).await?),
        _ => {
            let retention = Retention::new(Some(Duration::ZERO), None, Unfinished::Forget)?;
            let walk = tx.jobs().begin_purge("load_5", &retention).await?;
            let went = tx.jobs().purge_share(&walk, SHARE).await?.removed.instances;
            if went != u64::from(SHARE) {
                bail!("{went} instances were purged instead of {SHARE}; use fewer rounds");
            }
        }
    }
    Ok(())
}

async fn look(tx: &mut Tx, deed: Deed, executions: u64) -> Result<()> {
    let middle = i64::try_from(executions / 2)?;
    let all = ExecutionFilter::default();
    let of_job = ExecutionFilter { job: Some("load_3".into()), ..all.clone() };
    let (filter, before) = match deed {
        Deed::List => (all, None),
        Deed::ListMiddle => (all, Some(middle)),
        Deed::ListJob => (of_job, None),
        Deed::ListJobMiddle => (of_job, Some(middle)),
        Deed::ListFailed => (ExecutionFilter { status: Some(BatchStatus::Failed), ..all }, None),
        Deed::ListJobFailed => {
            (ExecutionFilter { job: Some("load_7".into()), status: Some(BatchStatus::Failed), ..all }, None)
        }
        // An instance that failed once and was restarted.
        Deed::ListInstance => {
            (ExecutionFilter { instance: Some(InstanceId::new(middle / 10 * 10 + 9)), ..all }, None)
        }
        Deed::Jobs => {
            tx.jobs().list(100).await?;
            return Ok(());
        }
        Deed::Instances => {
            tx.jobs().instances("load_3", None, PAGE).await?;
            return Ok(());
        }
        _ => {
            let id = ExecutionId::new(middle + 3);
            tx.jobs().execution(id).await?.context("the execution in the middle is there")?;
            tx.jobs().steps(id).await?;
            return Ok(());
        }
    };
    let found = tx.jobs().executions(&filter, before.map(ExecutionId::new), PAGE).await?;
    if found.is_empty() {
        bail!("the list is empty");
    }
    Ok(())
}
