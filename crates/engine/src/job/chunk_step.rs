//! Chunk steps: their parts, when a chunk is complete, and their fault policy.

use crate::job::listener::Listeners;
use crate::job::prepare_chunk::Lane;
use crate::job::reject::{RejectSink, Rejects, SourceRejects};
use crate::job::{
    ChunkListener, Described, ItemListener, ItemProcessor, ItemReader, ItemWriter, PassThrough,
    RetryListener, SkipListener, Step, StepBody, StepFuture, StepScope, StepTask, chunk_loop,
};
use crate::locked;
use serde::Serialize;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidemill_domain::backoff::Backoff;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::fault::{FaultPolicy, Kinds};
use tidemill_domain::words::plural;

/// Maximum number of threads of a step.
pub const THREADS_MAX: usize = 64;

impl Step {
    /// A step that reads, processes and writes items, `size` of them per transaction.
    pub fn chunk(name: impl Into<String>, size: usize) -> ChunkStepStart {
        ChunkStepStart { name: name.into(), size }
    }
}

/// A chunk step that needs a reader next.
#[derive(Debug)]
pub struct ChunkStepStart {
    name: String,
    size: usize,
}

impl ChunkStepStart {
    /// Sets the reader. Each run of the step uses a clone.
    pub fn reader<R: ItemReader + Clone>(self, reader: R) -> ChunkStepReading<R> {
        self.reader_with(clones_of(reader))
    }

    /// Sets a reader that is made for each run of the step, so it can depend on parameters.
    pub fn reader_with<R, F>(self, make: F) -> ChunkStepReading<R>
    where
        R: ItemReader,
        F: Fn(&StepScope) -> Result<R, ItemError> + Send + Sync + 'static,
    {
        ChunkStepReading { start: self, reader: Arc::new(make), processor: Arc::new(|_| Ok(PassThrough)) }
    }
}

/// A chunk step that has a reader, and needs a writer. Without a processor, items are written unchanged.
pub struct ChunkStepReading<R, P = PassThrough> {
    start: ChunkStepStart,
    reader: Make<R>,
    processor: Make<P>,
}

impl<R: ItemReader> ChunkStepReading<R> {
    /// Sets the processor: a closure that returns what is written, or none to filter the item.
    pub fn process<P: ItemProcessor<R::Item> + Clone>(self, processor: P) -> ChunkStepReading<R, P> {
        self.process_with(clones_of(processor))
    }

    /// Sets a processor that is made for each run of the step.
    pub fn process_with<P, F>(self, make: F) -> ChunkStepReading<R, P>
    where
        P: ItemProcessor<R::Item>,
        F: Fn(&StepScope) -> Result<P, ItemError> + Send + Sync + 'static,
    {
        ChunkStepReading { start: self.start, reader: self.reader, processor: Arc::new(make) }
    }
}

impl<R: ItemReader, P: ItemProcessor<R::Item>> ChunkStepReading<R, P> {
    /// Sets the writer. Each run of the step uses a clone.
    pub fn writer<W: ItemWriter<P::Output> + Clone>(self, writer: W) -> ChunkStep<R, P, W> {
        self.writer_with(clones_of(writer))
    }

    /// Sets a writer that is made for each run of the step.
    pub fn writer_with<W, F>(self, make: F) -> ChunkStep<R, P, W>
    where
        W: ItemWriter<P::Output>,
        F: Fn(&StepScope) -> Result<W, ItemError> + Send + Sync + 'static,
    {
        ChunkStep {
            name: self.start.name,
            reader: self.reader,
            processor: self.processor,
            writer: Arc::new(make),
            completion: Completion { size: self.start.size, time_limit: None, custom: None },
            policy: None,
            backoff: None,
            reads_ahead: true,
            threads: 1,
            idle_limit: None,
            rejects: None,
            listeners: Listeners::default(),
        }
    }
}

/// A chunk step that has all its parts; everything else is optional.
#[must_use]
pub struct ChunkStep<R: ItemReader, P: ItemProcessor<R::Item>, W> {
    name: String,
    pub(super) reader: Make<R>,
    pub(super) processor: Make<P>,
    pub(super) writer: Make<W>,
    pub(super) completion: Completion<R::Item>,
    pub(super) policy: Option<FaultPolicy>,
    pub(super) backoff: Option<Backoff>,
    pub(super) reads_ahead: bool,
    pub(super) threads: usize,
    pub(super) idle_limit: Option<Duration>,
    pub(super) rejects: Option<RejectSink<R::Item>>,
    pub(super) listeners: Listeners<R::Item, P::Output>,
}

type Make<T> = Arc<dyn Fn(&StepScope) -> Result<T, ItemError> + Send + Sync>;

/// Makes clones of a part. The lock is there because parts need not be `Sync`.
fn clones_of<T: Clone + Send + 'static>(
    part: T,
) -> impl Fn(&StepScope) -> Result<T, ItemError> + Send + Sync + 'static {
    let part = Mutex::new(part);
    move |_| Ok(locked(&part).clone())
}

pub(super) struct Completion<I> {
    pub(super) size: usize,
    pub(super) time_limit: Option<Duration>,
    pub(super) custom: Option<Arc<CustomCompletion<I>>>,
}

type CustomCompletion<I> = dyn Fn(&ChunkSoFar<'_, I>) -> bool + Send + Sync;

impl<I> Clone for Completion<I> {
    fn clone(&self) -> Self {
        Self { size: self.size, time_limit: self.time_limit, custom: self.custom.clone() }
    }
}

/// A chunk that is being read.
#[derive(Debug)]
pub struct ChunkSoFar<'a, I> {
    /// Number of items.
    pub items: usize,
    /// The last item.
    pub last: &'a I,
    /// Time since its first item was read.
    pub age: Duration,
}

impl<I> Completion<I> {
    pub(super) fn is_complete(&self, items: usize, last: &I, age: impl Fn() -> Duration) -> bool {
        items >= self.size
            || self.time_limit.is_some_and(|limit| age() >= limit)
            || self.custom.as_ref().is_some_and(|custom| custom(&ChunkSoFar { items, last, age: age() }))
    }
}

impl<R, P, W> ChunkStep<R, P, W>
where
    R: ItemReader,
    P: ItemProcessor<R::Item>,
    W: ItemWriter<P::Output>,
{
    fn policy(&mut self) -> &mut FaultPolicy {
        self.policy.get_or_insert_default()
    }

    tidemill_domain::setters! {
        /// Makes the step fault-tolerant: an error that is neither skipped nor retried still fails it, but the chunk is
        /// repeated first, as in Spring Batch.
        pub fn fault_tolerant(self) { self.policy() }
        /// Skips errors of these kinds, at most `limit` in a run of the step.
        pub fn skip(self, kinds: impl IntoIterator<Item = ErrorKind>, limit: u64) {
            self.policy().skip.add(kinds);
            self.policy().skip_limit = limit
        }
        /// Skips all errors except fatal ones, at most `limit` in a run of the step.
        pub fn skip_all(self, limit: u64) {
            self.policy().skip = Kinds::all();
            self.policy().skip_limit = limit
        }
        /// Never skips errors of these kinds.
        pub fn no_skip(self, kinds: impl IntoIterator<Item = ErrorKind>) { self.policy().skip.exclude(kinds) }
        /// Repeats the chunk after errors of these kinds, up to `attempts` in total.
        pub fn retry(self, kinds: impl IntoIterator<Item = ErrorKind>, attempts: u32) {
            self.policy().retry.add(kinds);
            self.policy().attempts_max = attempts
        }
        /// Repeats the chunk after any error except a fatal one, up to `attempts` in total.
        pub fn retry_all(self, attempts: u32) {
            self.policy().retry = Kinds::all();
            self.policy().attempts_max = attempts
        }
        /// Pause before a chunk is repeated.
        pub fn backoff(self, backoff: Backoff) { self.backoff = Some(backoff) }
        /// Skips errors of these kinds without a rollback, because they leave the transaction usable. They must be
        /// skippable.
        pub fn no_rollback(self, kinds: impl IntoIterator<Item = ErrorKind>) { self.policy().no_rollback.add(kinds) }
        /// Sets skip, retry and rollback at once.
        pub fn fault_policy(self, policy: FaultPolicy) { self.policy = Some(policy) }
        /// Keeps the outputs of the processor when a chunk is repeated.
        pub fn processor_non_transactional(self) { self.policy().is_processor_transactional = false }
        /// Also commits a chunk of this age that is not full. Checked after each item.
        pub fn time_limit(self, limit: Duration) { self.completion.time_limit = Some(limit) }
        /// Also commits a chunk that is not full when this returns true, for example at the last item of a group.
        pub fn complete_when(
            self,
            is_complete: impl Fn(&ChunkSoFar<'_, R::Item>) -> bool + Send + Sync + 'static,
        ) {
            self.completion.custom = Some(Arc::new(is_complete))
        }
        /// Reads a chunk only after the previous one has committed. By default it is read meanwhile.
        pub fn no_read_ahead(self) { self.reads_ahead = false }
        /// Number of chunks prepared concurrently: 1 by default, at most 64. Chunks still commit in the order in which they
        /// were read, so restarts, skips, retries and counters are the same as with one thread.
        ///
        /// One task reads. Each thread has its own processor, which must not depend on what earlier chunks wrote, and may
        /// be called for chunks that never commit. Writes are concurrent too if the writer [allows
        /// it](ItemWriter::is_concurrent).
        ///
        /// ```
        /// use tidemill_engine::item::{ItemsReader, ItemsWriter};
        /// use tidemill_engine::job::{Job, Step};
        ///
        /// let step = Step::chunk("all", 100)
        ///     .reader(ItemsReader::new("numbers", 1..=1000))
        ///     .process(|n: &i64| Ok(Some(n * 2)))
        ///     .writer(ItemsWriter::default())
        ///     .threads(4);
        /// assert!(Job::new("double").step(step.build()).check().is_ok());
        /// ```
        pub fn threads(self, threads: usize) { self.threads = threads }
        /// How long the chunk's transaction may be idle before the database ends it. Raise it for a writer that waits for
        /// something else during the transaction.
        pub fn idle_limit(self, limit: Duration) { self.idle_limit = Some(limit) }
        /// [`rejects`](Self::rejects) chosen for each run of the step; `text_of` is the text kept of an item.
        pub fn rejects_of(
            self,
            make: impl Fn(&StepScope) -> Result<Rejects, ItemError> + Send + Sync + 'static,
            text_of: fn(&R::Item) -> String,
        ) {
            self.rejects.get_or_insert_default().kept = Some((Arc::new(make), text_of))
        }
        /// Also keeps skipped items in a file of the format of their source, so that they can be read again once they are
        /// corrected.
        pub fn source_rejects(
            self,
            make: impl Fn(&StepScope) -> Result<SourceRejects<R::Item>, ItemError> + Send + Sync + 'static,
        ) {
            self.rejects.get_or_insert_default().source = Some(Arc::new(make))
        }
        /// Adds a listener for chunks.
        pub fn chunk_listener(self, listener: impl ChunkListener + 'static) {
            self.listeners.chunk.push(Arc::new(listener))
        }
        /// Adds a listener for items.
        pub fn item_listener(self, listener: impl ItemListener<R::Item, P::Output> + 'static) {
            self.listeners.item.push(Arc::new(listener))
        }
        /// Adds a listener for skips.
        pub fn skip_listener(self, listener: impl SkipListener<R::Item, P::Output> + 'static) {
            self.listeners.skip.push(Arc::new(listener))
        }
        /// Adds a listener for retries.
        pub fn retry_listener(self, listener: impl RetryListener + 'static) {
            self.listeners.retry.push(Arc::new(listener))
        }
    }

    /// Keeps skipped items with their errors.
    pub fn rejects(self, rejects: Rejects) -> Self
    where
        R::Item: Serialize,
    {
        let text_of =
            |item: &R::Item| serde_json::to_string(item).unwrap_or_else(|error| format!("({error})"));
        self.rejects_of(move |_| Ok(rejects.clone()), text_of)
    }

    /// Lanes that prepare chunks; none with one thread. They have their own writers if those may run concurrently.
    pub(super) fn lanes(&self, scope: &StepScope, writer: &W) -> Result<Vec<Lane<P, W>>, ItemError> {
        let count = if self.threads == 1 { 0 } else { self.threads };
        let has_writer = writer.is_concurrent() && scope.store().has_concurrent_writers();
        let lane = |_| {
            let processor = (self.processor)(scope)?;
            Ok(Lane { processor, writer: has_writer.then(|| (self.writer)(scope)).transpose()? })
        };
        (0..count).map(lane).collect()
    }

    /// The step.
    pub fn build(self) -> Step {
        Step::new(self.name.clone(), "chunk", self)
    }
}

impl<R, P, W> StepBody for ChunkStep<R, P, W>
where
    R: ItemReader,
    P: ItemProcessor<R::Item>,
    W: ItemWriter<P::Output>,
{
    fn run<'a>(&'a self, task: &'a mut StepTask) -> StepFuture<'a> {
        Box::pin(chunk_loop::run(self, task))
    }

    fn describe(&self) -> Vec<Described> {
        let Self { completion, threads, policy, .. } = self;
        let mut all = vec![("chunk", plural(completion.size, "item", "items"))];
        if *threads > 1 {
            all.push(("threads", threads.to_string()));
        }
        let Some(policy) = policy else { return all };
        if policy.attempts_max > 1 && !policy.retry.is_empty() {
            all.push(("retries", format!("{} attempts, of {}", policy.attempts_max, policy.retry)));
        }
        if !policy.skip.is_empty() {
            all.push(("skips", format!("at most {}, of {}", policy.skip_limit, policy.skip)));
        }
        all
    }

    fn check(&self) -> Result<(), String> {
        let Self { completion, threads, reads_ahead, policy, .. } = self;
        if completion.size == 0 {
            return Err("the chunk size is 0; it must be at least 1".into());
        }
        match *threads {
            0 => Err("the number of threads is 0; it must be at least 1".into()),
            threads if threads > THREADS_MAX => {
                Err(format!("{threads} threads are more than {THREADS_MAX}, which is the limit"))
            }
            2.. if !reads_ahead => {
                Err("several threads read ahead, so no_read_ahead needs threads(1)".into())
            }
            _ => policy.as_ref().map_or(Ok(()), |policy| policy.check().map_err(|error| error.to_string())),
        }
    }
}
