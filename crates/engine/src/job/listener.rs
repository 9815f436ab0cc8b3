//! Listener traits. All methods do nothing by default.
//!
//! Listeners observe; they do not decide. They run within the step, so they should be fast.
#![expect(unused_variables, reason = "the defaults do nothing")]

use crate::job::StepScope;
use std::sync::Arc;
use tidemill_domain::item::{ItemError, Phase};
use tidemill_domain::job::step::counted_before;
use tidemill_domain::job::{BatchStatus, Counters, ExecutionContext, ExecutionId, ExitStatus, JobParameters};

/// A job that is about to run, or has run.
#[derive(Clone, Debug)]
pub struct JobRun {
    /// Name of the job.
    pub job: String,
    /// The execution.
    pub execution: ExecutionId,
    /// The parameters.
    pub parameters: JobParameters,
    /// The current status.
    pub status: BatchStatus,
    /// The exit status; `UNKNOWN` before the end.
    pub exit: ExitStatus,
}

/// Observes jobs.
pub trait JobListener: Send + Sync {
    /// Before the first step.
    fn before_job(&self, run: &JobRun) {}

    /// After the last step, however it ended.
    fn after_job(&self, run: &JobRun) {}
}

/// How a step ended.
#[derive(Debug)]
pub struct StepRun<'a> {
    /// The step.
    pub scope: &'a StepScope,
    /// The status.
    pub status: BatchStatus,
    /// The exit status so far.
    pub exit: &'a ExitStatus,
    /// The counters.
    pub counters: &'a Counters,
    /// The context of the step.
    pub context: &'a ExecutionContext,
    /// The context of the job; steps pass values to later steps here.
    pub job_context: &'a mut ExecutionContext,
}

impl StepRun<'_> {
    /// Items that this run and the runs that it continues have read, written, filtered and skipped.
    pub fn totals(&self) -> Counters {
        let mut totals = counted_before(self.context);
        totals += *self.counters;
        totals
    }
}

/// Observes steps.
pub trait StepListener: Send + Sync {
    /// Before the step. May add values to its context.
    fn before_step(&self, scope: &StepScope, context: &mut ExecutionContext) {}

    /// After the step. A returned exit status is combined with the step's own: the more severe one wins.
    fn after_step(&self, run: &mut StepRun<'_>) -> Option<ExitStatus> {
        None
    }
}

/// Copies values of a step's context to the context of the job.
pub(super) struct Promote(pub(super) Vec<String>);

impl StepListener for Promote {
    fn after_step(&self, run: &mut StepRun<'_>) -> Option<ExitStatus> {
        if run.status == BatchStatus::Completed {
            for key in &self.0 {
                // Null removes what an earlier run has set.
                run.job_context.put(key, run.context.get(key).cloned().unwrap_or_default());
            }
        }
        None
    }
}

/// Observes chunks.
pub trait ChunkListener: Send + Sync {
    /// A chunk was read and is about to be processed; also for each repetition.
    fn before_chunk(&self, scope: &StepScope) {}

    /// A chunk, or one item of it in a scan, has committed.
    fn after_chunk(&self, scope: &StepScope, counters: &Counters) {}

    /// A chunk was rolled back.
    fn after_chunk_error(&self, scope: &StepScope, counters: &Counters) {}
}

/// Observes items. Reads are reported as they happen, which may be ahead of the chunk being written.
pub trait ItemListener<I, O>: Send + Sync {
    /// An item is about to be read.
    fn before_read(&self) {}

    /// An item was read.
    fn after_read(&self, item: &I) {}

    /// An item could not be read.
    fn on_read_error(&self, error: &ItemError) {}

    /// An item is about to be processed.
    fn before_process(&self, item: &I) {}

    /// An item was processed; without an output it was filtered.
    fn after_process(&self, item: &I, output: Option<&O>) {}

    /// An item could not be processed.
    fn on_process_error(&self, item: &I, error: &ItemError) {}

    /// Items are about to be written.
    fn before_write(&self, items: &[O]) {}

    /// Items were written, but have not committed yet.
    fn after_write(&self, items: &[O]) {}

    /// Items could not be written.
    fn on_write_error(&self, items: &[O], error: &ItemError) {}
}

/// Observes skips: once for each, just before the commit that makes it final.
pub trait SkipListener<I, O>: Send + Sync {
    /// A read was skipped.
    fn on_skip_in_read(&self, error: &ItemError) {}

    /// An item was skipped because it could not be processed.
    fn on_skip_in_process(&self, item: &I, error: &ItemError) {}

    /// An item was skipped because it could not be written.
    fn on_skip_in_write(&self, item: &O, error: &ItemError) {}
}

/// Observes failed attempts that are retried.
pub trait RetryListener: Send + Sync {
    /// An attempt failed and will be retried.
    fn on_retry(&self, phase: Phase, error: &ItemError) {}
}

/// The listeners of a chunk step.
pub(super) struct Listeners<I, O> {
    pub(super) chunk: Vec<Arc<dyn ChunkListener>>,
    pub(super) item: Vec<Arc<dyn ItemListener<I, O>>>,
    pub(super) skip: Vec<Arc<dyn SkipListener<I, O>>>,
    pub(super) retry: Vec<Arc<dyn RetryListener>>,
}

impl<I, O> Default for Listeners<I, O> {
    fn default() -> Self {
        Self { chunk: Vec::new(), item: Vec::new(), skip: Vec::new(), retry: Vec::new() }
    }
}

impl<I, O> Listeners<I, O> {
    pub(super) fn before_chunk(&self, scope: &StepScope) {
        self.chunk.iter().for_each(|listener| listener.before_chunk(scope));
    }

    pub(super) fn after_process(&self, item: &I, processed: &Result<Option<O>, ItemError>) {
        self.item.iter().for_each(|listener| match processed {
            Ok(output) => listener.after_process(item, output.as_ref()),
            Err(error) => listener.on_process_error(item, error),
        });
    }

    pub(super) fn after_write(&self, items: &[O], written: &Result<(), ItemError>) {
        self.item.iter().for_each(|listener| match written {
            Ok(()) => listener.after_write(items),
            Err(error) => listener.on_write_error(items, error),
        });
    }

    /// `item` is unknown after a failed read; `output` is known only after a failed write.
    pub(super) fn skipped(&self, phase: Phase, item: Option<&I>, output: Option<&O>, error: &ItemError) {
        self.skip.iter().for_each(|listener| match (phase, item, output) {
            (Phase::Read, ..) => listener.on_skip_in_read(error),
            (Phase::Process, Some(item), _) => listener.on_skip_in_process(item, error),
            (Phase::Write, _, Some(output)) => listener.on_skip_in_write(output, error),
            _ => {}
        });
    }
}
