//! Chunk steps: how one is put together.

use crate::job::chunk_run;
use crate::job::component::{ItemProcessor, ItemReader, ItemWriter, PassThrough};
use crate::job::describe::{Described, tolerated};
use crate::job::listener::{ChunkListener, ItemListener, RetryListener, SkipListener};
use crate::job::reject::{RejectSink, Rejects};
use crate::job::scope::StepScope;
use crate::job::step::{BoxFuture, Step, StepBody, StepEnd, StepFailure, StepTask};
use serde::Serialize;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::backoff::Backoff;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::fault::{FaultPolicy, Kinds};

pub use super::chunk_reader::ChunkSoFar;
use super::chunk_reader::Completion;

/// Most threads of one step.
pub const THREADS_MAX: usize = 64;

type Make<T> = Arc<dyn Fn(&StepScope) -> Result<T, ItemError> + Send + Sync>;

/// A chunk step that needs a reader next.
#[derive(Debug)]
pub struct ChunkStepStart {
    name: String,
    size: usize,
}

impl ChunkStepStart {
    pub(crate) fn new(name: String, size: usize) -> Self {
        Self { name, size }
    }

    /// Where the items come from. It is called once for each run of the step.
    pub fn reader<R, F>(self, make: F) -> ChunkStepReading<R>
    where
        R: ItemReader,
        F: Fn(&StepScope) -> Result<R, ItemError> + Send + Sync + 'static,
    {
        ChunkStepReading { start: self, reader: Arc::new(make) }
    }
}

/// A chunk step that has a reader, and needs a writer.
pub struct ChunkStepReading<R: ItemReader> {
    start: ChunkStepStart,
    reader: Make<R>,
}

impl<R: ItemReader> ChunkStepReading<R> {
    /// What is done with each item: a closure that returns what is written, or none to leave the item out.
    pub fn process<P>(self, processor: P) -> ChunkStepProcessing<R, P>
    where
        P: ItemProcessor<R::Item> + Clone + Sync,
    {
        self.processor(move |_| Ok(processor.clone()))
    }

    /// [`process`](Self::process) with a processor that is made anew for each run of the step.
    pub fn processor<P, F>(self, make: F) -> ChunkStepProcessing<R, P>
    where
        P: ItemProcessor<R::Item>,
        F: Fn(&StepScope) -> Result<P, ItemError> + Send + Sync + 'static,
    {
        ChunkStepProcessing { start: self.start, reader: self.reader, processor: Arc::new(make) }
    }

    /// Where the items go as they are. It is called once for each run of the step.
    pub fn writer<W, F>(self, make: F) -> ChunkStep<R, PassThrough, W>
    where
        PassThrough: ItemProcessor<R::Item>,
        W: ItemWriter<<PassThrough as ItemProcessor<R::Item>>::Output>,
        F: Fn(&StepScope) -> Result<W, ItemError> + Send + Sync + 'static,
    {
        self.processor(|_| Ok(PassThrough)).writer(make)
    }
}

/// A chunk step that has a reader and a processor, and needs a writer.
pub struct ChunkStepProcessing<R: ItemReader, P: ItemProcessor<R::Item>> {
    start: ChunkStepStart,
    reader: Make<R>,
    processor: Make<P>,
}

impl<R: ItemReader, P: ItemProcessor<R::Item>> ChunkStepProcessing<R, P> {
    /// Where the items go. It is called once for each run of the step.
    pub fn writer<W, F>(self, make: F) -> ChunkStep<R, P, W>
    where
        W: ItemWriter<P::Output>,
        F: Fn(&StepScope) -> Result<W, ItemError> + Send + Sync + 'static,
    {
        ChunkStep {
            name: self.start.name,
            parts: Parts { reader: self.reader, processor: self.processor, writer: Arc::new(make) },
            options: Options {
                completion: Completion::of_size(self.start.size),
                policy: None,
                backoff: None,
                reads_ahead: true,
                threads: 1,
                idle_limit: None,
                rejects: None,
            },
            listeners: Listeners::default(),
        }
    }
}

/// A chunk step that has all its parts; what follows are options.
pub struct ChunkStep<R: ItemReader, P: ItemProcessor<R::Item>, W> {
    pub(super) name: String,
    pub(super) parts: Parts<R, P, W>,
    pub(super) options: Options<R::Item>,
    pub(super) listeners: Listeners<R::Item, P::Output>,
}

pub(super) struct Parts<R, P, W> {
    pub(super) reader: Make<R>,
    pub(super) processor: Make<P>,
    pub(super) writer: Make<W>,
}

pub(super) struct Options<I> {
    pub(super) completion: Completion<I>,
    pub(super) policy: Option<FaultPolicy>,
    pub(super) backoff: Option<Backoff>,
    pub(super) reads_ahead: bool,
    pub(super) threads: usize,
    pub(super) idle_limit: Option<Duration>,
    pub(super) rejects: Option<RejectSink<I>>,
}

pub(super) struct Listeners<I, O> {
    pub(super) chunk: Vec<Arc<dyn ChunkListener>>,
    pub(super) item: Vec<Arc<dyn ItemListener<I, O>>>,
    pub(super) skip: Vec<Arc<dyn SkipListener<I, O>>>,
    pub(super) retry: Vec<Arc<dyn RetryListener>>,
    pub(super) _items: PhantomData<fn(I, O)>,
}

impl<I, O> Default for Listeners<I, O> {
    fn default() -> Self {
        Self { chunk: Vec::new(), item: Vec::new(), skip: Vec::new(), retry: Vec::new(), _items: PhantomData }
    }
}

impl<R, P, W> ChunkStep<R, P, W>
where
    R: ItemReader,
    P: ItemProcessor<R::Item>,
    W: ItemWriter<P::Output>,
{
    fn policy(&mut self) -> &mut FaultPolicy {
        self.options.policy.get_or_insert_with(FaultPolicy::default)
    }

    /// Makes the step fault-tolerant: an error that is neither skipped nor tried again still fails it, but the
    /// chunk is repeated first, as Spring Batch does.
    #[must_use]
    pub fn fault_tolerant(mut self) -> Self {
        self.policy();
        self
    }

    /// Errors of these kinds are skipped, at most `limit` of them in one run of the step.
    #[must_use]
    pub fn skip(mut self, kinds: impl IntoIterator<Item = ErrorKind>, limit: u64) -> Self {
        let policy = self.policy();
        policy.skip = std::mem::take(&mut policy.skip).and(kinds);
        policy.skip_limit = limit;
        self
    }

    /// All errors but fatal ones are skipped, at most `limit` of them in one run of the step.
    #[must_use]
    pub fn skip_all(mut self, limit: u64) -> Self {
        self.policy().skip = Kinds::all();
        self.policy().skip_limit = limit;
        self
    }

    /// Errors of these kinds are never skipped.
    #[must_use]
    pub fn no_skip(mut self, kinds: impl IntoIterator<Item = ErrorKind>) -> Self {
        let policy = self.policy();
        policy.skip = std::mem::take(&mut policy.skip).except(kinds);
        self
    }

    /// After errors of these kinds the chunk is repeated, `attempts` times in all.
    #[must_use]
    pub fn retry(mut self, kinds: impl IntoIterator<Item = ErrorKind>, attempts: u32) -> Self {
        let policy = self.policy();
        policy.retry = std::mem::take(&mut policy.retry).and(kinds);
        policy.attempts_max = attempts;
        self
    }

    /// After any error but a fatal one the chunk is repeated, `attempts` times in all.
    #[must_use]
    pub fn retry_all(mut self, attempts: u32) -> Self {
        self.policy().retry = Kinds::all();
        self.policy().attempts_max = attempts;
        self
    }

    /// How long to wait before a chunk is repeated.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.options.backoff = Some(backoff);
        self
    }

    /// Errors of these kinds do not make the transaction unusable: the item is skipped without a rollback. They
    /// have to be skippable.
    #[must_use]
    pub fn no_rollback(mut self, kinds: impl IntoIterator<Item = ErrorKind>) -> Self {
        let policy = self.policy();
        policy.no_rollback = std::mem::take(&mut policy.no_rollback).and(kinds);
        self
    }

    /// Sets the whole of skip, retry and rollback at once.
    #[must_use]
    pub fn fault_policy(mut self, policy: FaultPolicy) -> Self {
        self.options.policy = Some(policy);
        self
    }

    /// The processor has no part in the transaction: what came out of it is kept when a chunk is repeated.
    #[must_use]
    pub fn processor_non_transactional(mut self) -> Self {
        self.policy().is_processor_transactional = false;
        self
    }

    /// Also commit a chunk that is not full once it is so old. Looked at after each item.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.options.completion.time_limit = Some(limit);
        self
    }

    /// Also commit a chunk that is not full when this says so, for example at the last item of a group.
    #[must_use]
    pub fn complete_when(
        mut self,
        is_complete: impl Fn(&ChunkSoFar<'_, R::Item>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.options.completion.custom = Some(Arc::new(is_complete));
        self
    }

    /// Read a chunk only after the one before it has committed. By default the next chunk is read meanwhile.
    #[must_use]
    pub fn no_read_ahead(mut self) -> Self {
        self.options.reads_ahead = false;
        self
    }

    /// How many chunks are prepared at the same time: 1 if nothing is said, at most 64. Chunks still commit in the order
    /// in which they were read, so a restart goes on as it does with one thread; skips, retries and counters are the
    /// same as well.
    ///
    /// One task reads. Each thread has a processor of its own; those of a step must not depend on what earlier chunks
    /// wrote, and may be called for chunks that never get their turn. Items are written at the same time, too, where the
    /// writer [allows it](ItemWriter::is_concurrent), and otherwise one chunk after the other.
    ///
    /// ```
    /// use tidemill_engine::item::{ItemsReader, ItemsWriter};
    /// use tidemill_engine::job::{Job, Step};
    ///
    /// let step = Step::chunk("all", 100)
    ///     .reader(|_| Ok(ItemsReader::new("numbers", 1..=1000)))
    ///     .process(|n: &i64| Ok(Some(n * 2)))
    ///     .writer(|_| Ok(ItemsWriter::default()))
    ///     .threads(4);
    /// assert!(Job::new("double").step(step.build()).check().is_ok());
    /// ```
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.options.threads = threads;
        self
    }

    /// How long the database lets the chunk's transaction stand still before it ends it. Raise it for a writer that
    /// waits for something else while it holds the transaction.
    #[must_use]
    pub fn idle_limit(mut self, limit: Duration) -> Self {
        self.options.idle_limit = Some(limit);
        self
    }

    /// Keeps skipped items with their error.
    #[must_use]
    pub fn rejects(mut self, rejects: Rejects) -> Self
    where
        R::Item: Serialize,
    {
        self.options.rejects = Some(RejectSink::new(rejects));
        self
    }

    /// [`rejects`](Self::rejects) whose place is said anew for each run of the step; `text_of` is what is kept of an
    /// item.
    #[must_use]
    pub fn rejects_of(
        mut self,
        make: impl Fn(&StepScope) -> Result<Rejects, ItemError> + Send + Sync + 'static,
        text_of: fn(&R::Item) -> String,
    ) -> Self {
        self.options.rejects = Some(RejectSink::of(Arc::new(make), text_of));
        self
    }

    /// Adds a listener for chunks.
    #[must_use]
    pub fn chunk_listener(mut self, listener: impl ChunkListener + 'static) -> Self {
        self.listeners.chunk.push(Arc::new(listener));
        self
    }

    /// Adds a listener for items.
    #[must_use]
    pub fn item_listener(mut self, listener: impl ItemListener<R::Item, P::Output> + 'static) -> Self {
        self.listeners.item.push(Arc::new(listener));
        self
    }

    /// Adds a listener for skips.
    #[must_use]
    pub fn skip_listener(mut self, listener: impl SkipListener<R::Item, P::Output> + 'static) -> Self {
        self.listeners.skip.push(Arc::new(listener));
        self
    }

    /// Adds a listener for retries.
    #[must_use]
    pub fn retry_listener(mut self, listener: impl RetryListener + 'static) -> Self {
        self.listeners.retry.push(Arc::new(listener));
        self
    }

    /// The step.
    pub fn build(self) -> Step {
        let name = self.name.clone();
        Step::new(name, Arc::new(self))
    }
}

impl<R, P, W> StepBody for ChunkStep<R, P, W>
where
    R: ItemReader,
    P: ItemProcessor<R::Item>,
    W: ItemWriter<P::Output>,
{
    fn run<'a>(&'a self, task: &'a mut StepTask) -> BoxFuture<'a, Result<StepEnd, StepFailure>> {
        Box::pin(chunk_run::run(self, task))
    }

    fn type_word(&self) -> &'static str {
        "chunk"
    }

    fn describe(&self) -> Vec<Described> {
        let mut all = vec![("chunk", format!("{} items", self.options.completion.size))];
        if self.options.threads > 1 {
            all.push(("threads", self.options.threads.to_string()));
        }
        all.extend(self.options.policy.iter().flat_map(tolerated));
        all
    }

    fn check(&self) -> Result<(), String> {
        if self.options.completion.size == 0 {
            return Err("the chunk size is 0; it must be at least 1".into());
        }
        match self.options.threads {
            0 => return Err("the number of threads is 0; it must be at least 1".into()),
            1 => {}
            threads if threads > THREADS_MAX => {
                return Err(format!("{threads} threads are more than {THREADS_MAX}, which is the limit"));
            }
            _ if !self.options.reads_ahead => {
                return Err("several threads read ahead, so no_read_ahead needs threads(1)".into());
            }
            _ => {}
        }
        match &self.options.policy {
            Some(policy) => policy.check().map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }
}
