//! Who is told what happens. All methods have a default that does nothing.
//!
//! Listeners are told; they do not decide. What they do takes the step's own time, so it should be short.
#![expect(unused_variables, reason = "the defaults do nothing")]

use crate::job::scope::StepScope;
use tidemill_domain::item::{ItemError, Phase};
use tidemill_domain::job::{BatchStatus, Counters, ExecutionContext, ExecutionId, ExitStatus, JobParameters};

/// A job that is about to run, or has run.
#[derive(Clone, Debug)]
pub struct JobRun {
    /// Name of the job.
    pub job: String,
    /// This run.
    pub execution: ExecutionId,
    /// Its parameters.
    pub parameters: JobParameters,
    /// Where it is.
    pub status: BatchStatus,
    /// How it ended; `UNKNOWN` before that.
    pub exit: ExitStatus,
}

/// Is told of jobs.
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
    /// Its status.
    pub status: BatchStatus,
    /// Its exit status so far.
    pub exit: &'a ExitStatus,
    /// What it counted.
    pub counters: &'a Counters,
    /// What it remembers.
    pub context: &'a ExecutionContext,
    /// What the job remembers; steps pass values to later ones here.
    pub job_context: &'a mut ExecutionContext,
}

/// Is told of steps.
pub trait StepListener: Send + Sync {
    /// Before the step runs. It may put values into what the step remembers.
    fn before_step(&self, scope: &StepScope, context: &mut ExecutionContext) {}

    /// After the step. A returned exit status is combined with the step's own: the more severe one wins.
    fn after_step(&self, run: &mut StepRun<'_>) -> Option<ExitStatus> {
        None
    }
}

/// Is told of chunks.
pub trait ChunkListener: Send + Sync {
    /// A chunk was read and is about to be processed; also for each repetition.
    fn before_chunk(&self, scope: &StepScope) {}

    /// A chunk, or one item of it in a scan, has committed.
    fn after_chunk(&self, scope: &StepScope, counters: &Counters) {}

    /// A chunk was rolled back.
    fn after_chunk_error(&self, scope: &StepScope, counters: &Counters) {}
}

/// Is told of items. Reads are reported as they happen, which may be ahead of the chunk that is being written.
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

/// Is told of skips: once for each, just before the commit that makes it final.
pub trait SkipListener<I, O>: Send + Sync {
    /// A read was skipped.
    fn on_skip_in_read(&self, error: &ItemError) {}

    /// An item was skipped because it could not be processed.
    fn on_skip_in_process(&self, item: &I, error: &ItemError) {}

    /// An item was skipped because it could not be written.
    fn on_skip_in_write(&self, item: &O, error: &ItemError) {}
}

/// Is told of attempts that failed and are followed by another.
pub trait RetryListener: Send + Sync {
    /// An attempt failed, and there is another one.
    fn on_retry(&self, phase: Phase, error: &ItemError) {}
}
