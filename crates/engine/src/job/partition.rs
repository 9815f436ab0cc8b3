//! Divided steps: a partitioner names the partitions, and a worker step runs once for each.
//!
//! `manage` is the divided step, which also runs partitions; `worker` runs those of other processes' jobs.

mod manage;
mod partitioners;
mod run_partition;
mod worker;

use crate::BoxFuture;
use crate::job::{Step, StepScope};
use serde_json::Value;
use std::sync::Arc;
use tidemill_domain::item::ItemError;
use tidemill_domain::job::ExecutionContext;
use tidemill_domain::job::spark::Granted;

pub use partitioners::RangePartitioner;
#[cfg(test)]
pub(crate) use worker::PACE as WORKER_PACE;
pub use worker::run as run_worker;

/// Default number of partitions, as in Spring Batch.
const GRID: usize = 6;

/// One part of a divided step.
#[derive(Clone, PartialEq, Debug)]
#[must_use]
pub struct Partition {
    key: String,
    context: ExecutionContext,
}

impl Partition {
    /// A partition with this key, which must be unique and identifies it after a restart.
    pub fn new(key: impl Into<String>) -> Self {
        Self { key: key.into(), context: ExecutionContext::new() }
    }

    tidemill_domain::setters! {
        /// Adds a value to the initial context of the partition; see [`StepScope::context`].
        pub fn with(self, key: &str, value: impl Into<Value>) { self.context.put(key, value) }
    }

    /// The key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its initial context.
    pub fn context(&self) -> &ExecutionContext {
        &self.context
    }
}

/// Divides a step. Any `Fn(&StepScope, usize) -> Result<Vec<Partition>, ItemError>` is a partitioner.
pub trait Partitioner: Send + Sync + 'static {
    /// The partitions. `grid` is the requested number, which is only a hint. Called again in a restart, with the same
    /// `grid`: partitions of the same key continue with their context.
    fn partition(
        &self,
        scope: &StepScope,
        grid: usize,
    ) -> impl Future<Output = Result<Vec<Partition>, ItemError>> + Send;

    /// Whether a restart adds no partitions, because new ones would overlap those of the first run.
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

type MakePartitions =
    dyn for<'a> Fn(&'a StepScope, usize) -> BoxFuture<'a, Result<Vec<Partition>, ItemError>> + Send + Sync;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Grid {
    Fixed(usize),
    /// As many as a pool grants.
    Granted,
}

impl Step {
    /// A divided step: `worker` runs once for each partition, in this process and in all others that have the job. It
    /// ends when all of them have, with the worst result.
    ///
    /// ```
    /// # use tidemill_engine::item::{ItemsReader, ItemsWriter};
    /// # use tidemill_engine::job::{Job, Partition, Step};
    /// let worker = Step::chunk("import", 100)
    ///     .reader_with(|scope| {
    ///         let first = scope.context().get_long("first").unwrap_or(0);
    ///         Ok(ItemsReader::new("numbers", first..first + 1000))
    ///     })
    ///     .writer(ItemsWriter::default())
    ///     .build();
    /// let thousands = |_: &_, grid: usize| {
    ///     Ok((0..grid).map(|n| Partition::new(format!("part{n}")).with("first", n as i64 * 1000)).collect())
    /// };
    /// let job = Job::new("numbers").step(Step::partitioned("all", worker, thousands).grid(4).build());
    /// assert!(job.check().is_ok());
    /// ```
    pub fn partitioned(
        name: impl Into<String>,
        worker: Self,
        partitioner: impl Partitioner,
    ) -> PartitionedStep {
        let (is_fixed, partitioner) = (partitioner.is_fixed(), Arc::new(partitioner));
        PartitionedStep {
            name: name.into(),
            worker,
            partitions: Box::new(move |scope, grid| {
                let partitioner = partitioner.clone();
                Box::pin(async move { partitioner.partition(scope, grid).await })
            }),
            is_fixed,
            grid: Grid::Fixed(GRID),
            concurrency: None,
            is_local: false,
        }
    }
}

/// A divided step; everything else is optional.
#[must_use]
pub struct PartitionedStep {
    name: String,
    worker: Step,
    partitions: Box<MakePartitions>,
    is_fixed: bool,
    grid: Grid,
    concurrency: Option<usize>,
    is_local: bool,
}

impl PartitionedStep {
    tidemill_domain::setters! {
        /// Requested number of partitions.
        pub fn grid(self, grid: usize) { self.grid = Grid::Fixed(grid) }
        /// Requests as many partitions as the step's [pool](Step::pool) grants when it first runs.
        pub fn grid_granted(self) { self.grid = Grid::Granted }
        /// How many partitions the process of the job runs at once; the number of its CPUs by default.
        pub fn concurrency(self, concurrency: usize) { self.concurrency = Some(concurrency) }
        /// Runs partitions only in the process of the job.
        pub fn local(self) { self.is_local = true }
    }

    /// The step.
    pub fn build(self) -> Step {
        Step::new(self.name.clone(), "partition", self)
    }

    fn grid_of(&self, granted: Option<&Granted>) -> usize {
        match (self.grid, granted) {
            (Grid::Fixed(grid), _) => grid,
            (Grid::Granted, Some(granted)) => count(granted),
            (Grid::Granted, None) => GRID,
        }
    }

    /// With units of a pool, never more than those.
    fn concurrency_here(&self, granted: Option<&Granted>) -> usize {
        if let Some(granted) = granted.map(count) {
            return self.concurrency.unwrap_or(granted).min(granted);
        }
        self.concurrency
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get))
    }
}

fn count(granted: &Granted) -> usize {
    usize::try_from(granted.units).unwrap_or(usize::MAX).max(1)
}
