//! Steps that are divided: a partitioner names the parts, and a worker step runs once for each.
//!
//! `manage` is the divided step itself, which also runs partitions; `worker` runs those of other processes' jobs;
//! `run_partition` is one partition; `partitioners` has ready-made partitioners.

mod manage;
mod partitioners;
mod run_partition;
mod worker;

use crate::job::describe::Described;
use crate::job::scope::StepScope;
use crate::job::step::{BoxFuture, Step, StepBody, StepEnd, StepFailure, StepTask};
use serde_json::Value;
use std::future::Future;
use std::sync::Arc;
use tidemill_domain::item::ItemError;
use tidemill_domain::job::ExecutionContext;
use tidemill_domain::job::spark::Granted;

pub use partitioners::RangePartitioner;
#[cfg(test)]
pub(crate) use worker::PACE as WORKER_PACE;
pub use worker::run as run_worker;

/// How many partitions a step is divided into unless something else is said, as in Spring Batch.
const GRID: usize = 6;

/// One part of a divided step.
#[derive(Clone, PartialEq, Debug)]
pub struct Partition {
    key: String,
    context: ExecutionContext,
}

impl Partition {
    /// A part with this key, which tells it from the others and from which it is known again after a restart.
    pub fn new(key: impl Into<String>) -> Self {
        Self { key: key.into(), context: ExecutionContext::new() }
    }

    /// Puts a value into what the part remembers from its start on; see [`StepScope::context`].
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.context.put(key, value);
        self
    }

    /// Its key.
    pub fn key(&self) -> &str {
        &self.key
    }
}

/// Divides a step.
///
/// Any `Fn(&StepScope, usize) -> Result<Vec<Partition>, ItemError>` is one.
pub trait Partitioner: Send + Sync + 'static {
    /// The parts. `grid` is how many are wanted; more or fewer are all right. It is called again in a restart, with the
    /// same `grid`: parts of the same key are the same then, and go on with what they remember.
    fn partition(
        &self,
        scope: &StepScope,
        grid: usize,
    ) -> impl Future<Output = Result<Vec<Partition>, ItemError>> + Send;

    /// Whether the parts of the first run are all that there ever are, so that a restart adds none: where others would
    /// overlap them.
    fn is_fixed(&self) -> bool {
        false
    }
}

impl<F> Partitioner for F
where
    F: Fn(&StepScope, usize) -> Result<Vec<Partition>, ItemError> + Send + Sync + 'static,
{
    async fn partition(&self, scope: &StepScope, grid: usize) -> Result<Vec<Partition>, ItemError> {
        self(scope, grid)
    }
}

/// A partitioner whose type is forgotten.
trait AnyPartitioner: Send + Sync {
    fn is_fixed(&self) -> bool;

    fn partition<'a>(
        &'a self,
        scope: &'a StepScope,
        grid: usize,
    ) -> BoxFuture<'a, Result<Vec<Partition>, ItemError>>;
}

impl<P: Partitioner> AnyPartitioner for P {
    fn is_fixed(&self) -> bool {
        Partitioner::is_fixed(self)
    }

    fn partition<'a>(
        &'a self,
        scope: &'a StepScope,
        grid: usize,
    ) -> BoxFuture<'a, Result<Vec<Partition>, ItemError>> {
        Box::pin(Partitioner::partition(self, scope, grid))
    }
}

/// How many partitions are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Grid {
    Fixed(usize),
    /// As many as a pool grants.
    Granted,
}

/// A divided step; what follows are options.
pub struct PartitionedStep {
    name: String,
    worker: Step,
    partitioner: Arc<dyn AnyPartitioner>,
    grid: Grid,
    concurrency: Option<usize>,
    is_local: bool,
}

impl PartitionedStep {
    pub(crate) fn new(name: String, worker: Step, partitioner: impl Partitioner) -> Self {
        let partitioner = Arc::new(partitioner);
        Self { name, worker, partitioner, grid: Grid::Fixed(GRID), concurrency: None, is_local: false }
    }

    /// How many partitions are wanted.
    #[must_use]
    pub fn grid(mut self, grid: usize) -> Self {
        self.grid = Grid::Fixed(grid);
        self
    }

    /// As many partitions are wanted as the step's [pool](Step::pool) grants when it first runs.
    #[must_use]
    pub fn grid_granted(mut self) -> Self {
        self.grid = Grid::Granted;
        self
    }

    /// How many of them the process that runs the job runs at the same time; as many as it has processors unless said.
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = Some(concurrency);
        self
    }

    /// Only the process that runs the job runs its partitions.
    #[must_use]
    pub fn local(mut self) -> Self {
        self.is_local = true;
        self
    }

    /// The step.
    pub fn build(self) -> Step {
        Step::new(self.name.clone(), Arc::new(self))
    }

    /// How many partitions are wanted.
    fn grid_of(&self, granted: Option<&Granted>) -> usize {
        match (self.grid, granted) {
            (Grid::Fixed(grid), _) => grid,
            (Grid::Granted, Some(granted)) => count(granted),
            (Grid::Granted, None) => GRID,
        }
    }

    /// How many of them run here at the same time; with units of a pool, no more than those.
    fn concurrency_here(&self, granted: Option<&Granted>) -> usize {
        if let Some(granted) = granted.map(count) {
            return self.concurrency.unwrap_or(granted).min(granted);
        }
        self.concurrency
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get))
    }
}

impl StepBody for PartitionedStep {
    fn run<'a>(&'a self, task: &'a mut StepTask) -> BoxFuture<'a, Result<StepEnd, StepFailure>> {
        Box::pin(manage::run(self, task))
    }

    fn type_word(&self) -> &'static str {
        "partition"
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

/// At least one: nothing else is granted.
fn count(granted: &Granted) -> usize {
    usize::try_from(granted.units).unwrap_or(usize::MAX).max(1)
}
