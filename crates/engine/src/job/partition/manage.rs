//! The divided step: creates the partitions, runs some of them, and waits for all.

use super::{Grid, PartitionedStep, run_partition};
use crate::job::{
    Described, LostAnswer, Outcome, Step, StepBody, StepFailure, StepFuture, StepResources, StepTask,
    Urgency, step_seed, while_away,
};
use crate::transact;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::{Actor, Role};
use tidemill_domain::code::Code;
use tidemill_domain::job::step::COUNTED_KEY;
use tidemill_domain::job::{BatchStatus, Counters, ExecutionContext, ExitStatus, StepExecutionId};
use tidemill_store::StoreError;
use tidemill_store::job::partition::partition_ended_topic;
use tidemill_store::job::{
    Claim, KnownWorker, PartitionOutcome, PartitionRequest, PartitionStart, StepRequest,
};
use tokio::task::JoinSet;
use tracing::Instrument;

/// Context key of the grid, so that a restart divides like the first run. Named by Spring Batch.
const GRID_KEY: &str = "SimpleStepExecutionSplitter.GRID_SIZE";

/// How often to check for free or ended partitions if no wake-up arrives.
const PAUSE: Duration = Duration::from_millis(500);

impl StepBody for PartitionedStep {
    fn run<'a>(&'a self, task: &'a mut StepTask) -> StepFuture<'a> {
        Box::pin(run(self, task))
    }

    fn worker(&self) -> Option<&Step> {
        Some(&self.worker)
    }

    fn needs_units(&self) -> bool {
        self.grid == Grid::Granted
    }

    fn describe(&self) -> Vec<Described> {
        let grid = match self.grid {
            Grid::Fixed(grid) => grid.to_string(),
            Grid::Granted => "as many as the pool grants".to_owned(),
        };
        let mut all = vec![("partitions", grid)];
        all.extend(self.concurrency.map(|concurrency| ("at once", concurrency.to_string())));
        all.push(("worker", self.worker.name().to_owned()));
        all.extend(self.worker.describe());
        all
    }

    fn check(&self) -> Result<(), String> {
        if self.grid == Grid::Fixed(0) {
            return Err("the grid is 0; it must be at least 1".into());
        }
        if self.concurrency == Some(0) {
            return Err("the concurrency is 0; it must be at least 1".into());
        }
        if self.worker.worker().is_some() {
            return Err("its worker is divided as well; only a step that is not can be a worker".into());
        }
        let name = self.worker.name();
        tidemill_domain::job::check_name(name).map_err(|error| format!("its worker {name:?}: {error}"))?;
        self.worker.check().map_err(|why| format!("its worker {name:?}: {why}"))
    }
}

async fn run(step: &PartitionedStep, task: &mut StepTask) -> Result<Outcome, StepFailure> {
    let grid = task
        .context
        .get_long(GRID_KEY)
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or_else(|| step.grid_of(task.scope.granted()));
    task.context.put(GRID_KEY, i64::try_from(grid).unwrap_or(i64::MAX));
    // Not counted: the step's counters are those of its partitions, in all runs.
    task.context.remove(COUNTED_KEY);
    let mut chunk = task.chunk(None);
    task.commit(&mut chunk, Counters::default()).await?;
    let partitions = (step.partitions)(&task.scope, grid).await?;
    let partitions: Vec<(String, ExecutionContext)> =
        partitions.into_iter().map(|partition| (partition.key, partition.context)).collect();
    let mut manager =
        PartitionManager { step, task, seed: step_seed(step.worker.type_word()), is_stopping: false };
    let chains = manager.start(&partitions).await?;
    manager.all().await?;
    manager.end(&chains).await
}

struct PartitionManager<'a> {
    step: &'a PartitionedStep,
    task: &'a mut StepTask,
    /// Initial context of every partition.
    seed: ExecutionContext,
    is_stopping: bool,
}

impl PartitionManager<'_> {
    fn id(&self) -> StepExecutionId {
        self.task.scope.step_execution()
    }

    fn worker(&self) -> StepRequest<'_> {
        let (scope, lease) = (&self.task.scope, &self.task.resources.lease);
        StepRequest {
            execution: scope.execution(),
            instance: scope.instance(),
            lease: lease.key(),
            fence: lease.fence(),
            step: self.step.worker.name(),
            rules: self.step.worker.rules,
            seed: &self.seed,
        }
    }

    /// Creates the partitions, and returns the chains of runs that count for this step.
    async fn start(&self, partitions: &[(String, ExecutionContext)]) -> Result<Vec<i64>, StepFailure> {
        let request = PartitionRequest {
            worker: self.worker(),
            job: self.task.scope.job(),
            manager: self.id(),
            partitions,
            is_fixed: self.step.is_fixed,
            // Units are held by this process, so other processes must not use them.
            only: (self.step.is_local || self.task.scope.granted().is_some())
                .then(|| self.task.resources.lease.process().id()),
        };
        let store = self.task.scope.store();
        let start = || transact(store, async |tx| tx.jobs().start_partitions(&request).await);
        match self.patiently(start).await? {
            PartitionStart::Started(chains) => Ok(chains),
            PartitionStart::Refused(refusal) => Err(StepFailure::failed(refusal.code(), refusal.to_string())),
            PartitionStart::Fenced => Err(StepFailure::LeaseLost),
        }
    }

    /// Waits until every partition has ended, here or elsewhere.
    async fn all(&mut self) -> Result<(), StepFailure> {
        let mut ended = self.task.scope.store().wakeup(&partition_ended_topic(self.id()));
        // Aborting this step aborts what runs here; partitions elsewhere end with the execution.
        let mut running = JoinSet::new();
        loop {
            self.task.check()?;
            if self.task.shall_stop() {
                self.stop().await?;
            } else {
                self.claim(&mut running).await?;
            }
            let count =
                || async { self.task.scope.store().read().await?.jobs().open_partitions(self.id()).await };
            if running.is_empty() && self.patiently(count).await? == 0 {
                return Ok(());
            }
            let stop = self.task.resources.stop.clone();
            tokio::select! {
                Some(_recorded) = running.join_next() => {}
                _woken = ended.wait(PAUSE) => {}
                () = stop.asked(Urgency::AtChunkEnd), if !self.is_stopping => {}
                () = self.task.resources.lease.lost() => return Err(StepFailure::LeaseLost),
            }
        }
    }

    /// Runs as many more partitions as there is room for.
    async fn claim(&self, running: &mut JoinSet<()>) -> Result<(), StepFailure> {
        let room = self.step.concurrency_here(self.task.scope.granted()).saturating_sub(running.len());
        if room == 0 {
            return Ok(());
        }
        let (scope, process) = (&self.task.scope, self.task.resources.lease.process());
        let claim = Claim {
            by: process.id(),
            known: &[KnownWorker {
                job: scope.job(),
                fingerprint: scope.fingerprint(),
                step: self.step.worker.name(),
            }],
            manager: Some(self.id()),
            limit: u32::try_from(room).unwrap_or(u32::MAX),
        };
        let claimed = match run_partition::claim(scope.store(), process, &claim).await {
            Ok(claimed) => claimed,
            // The next round tries again, while we hold the lease of the execution.
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, "partitions could not be taken; will try again");
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        for (claimed, lease) in claimed {
            let resources = StepResources { lease: Arc::new(lease), ..self.task.resources.clone() };
            let run = run_partition::run(scope.parts(), self.step.worker.clone(), claimed, resources);
            running.spawn(run.in_current_span());
        }
        Ok(())
    }

    /// Requests a stop from other processes, and ends the partitions that are not running.
    async fn stop(&mut self) -> Result<(), StepFailure> {
        let name = format!("job {}", self.task.scope.job());
        let actor = Actor { name, role: Role::System, request_id: None };
        let attempt = || async {
            let mut tx = self.task.scope.store().begin().await?;
            if !tx.jobs().stop_free_partitions(self.id(), &self.worker()).await? {
                return Ok(false);
            }
            let _already_stopping = tx.jobs().request_stop(self.task.scope.execution(), &actor, None).await?;
            tx.commit().await?;
            Ok(true)
        };
        let is_ours = self.patiently(attempt).await?;
        self.is_stopping = true;
        if is_ours { Ok(()) } else { Err(StepFailure::LeaseLost) }
    }

    /// Ends with the worst result, and the sum of all counters.
    async fn end(&mut self, chains: &[i64]) -> Result<Outcome, StepFailure> {
        let sum = || async {
            let mut tx = self.task.scope.store().read().await?;
            let outcomes = tx.jobs().partition_outcome(self.id()).await?;
            Ok((outcomes, tx.jobs().partition_totals(chains).await?))
        };
        let (outcomes, totals) = self.patiently(sum).await?;
        self.task.counters = totals;
        summary(&outcomes)
    }

    /// Repeats an attempt while the database is away. It may happen twice if the first answer was lost.
    async fn patiently<T, F>(&self, attempt: impl FnMut() -> F) -> Result<T, StepFailure>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let lease = &self.task.resources.lease;
        while_away(lease, "partitions could not be managed", LostAnswer::Repeat, attempt).await
    }
}

fn summary(outcomes: &[PartitionOutcome]) -> Result<Outcome, StepFailure> {
    let all: u64 = outcomes.iter().map(|outcome| outcome.count).sum();
    let of = |status: BatchStatus| outcomes.iter().filter(move |outcome| outcome.status == status);
    let failed: u64 = outcomes
        .iter()
        .filter(|outcome| !matches!(outcome.status, BatchStatus::Completed | BatchStatus::Stopped))
        .map(|outcome| outcome.count)
        .sum();
    if failed > 0 {
        let first = of(BatchStatus::Failed).next();
        let first = first.map(|first| format!("; the first, {}: {}", first.first, first.exit.description));
        let text = format!("{failed} of {all} partitions failed{}", first.unwrap_or_default());
        return Err(StepFailure::failed(Code::ExecutionFailed, text));
    }
    if of(BatchStatus::Stopped).next().is_some() {
        return Ok(Outcome::stopped());
    }
    let exit = outcomes
        .iter()
        .fold(ExitStatus::completed(), |exit, outcome| exit.and(ExitStatus::new(outcome.exit.code.clone())));
    Ok(Outcome::completed(exit))
}
