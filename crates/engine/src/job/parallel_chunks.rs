//! Chunks prepared by several tasks concurrently, and committed in the order in which they were read.
//!
//! ```text
//!   reader ──► lane 1: process, write ──┐
//!          ──► lane 2: process, write ──┼──► queue, in order ──► commit
//!          ──► lane n: process, write ──┘
//! ```
//!
//! Two rules keep transactions begun ahead from blocking the current chunk. A transaction that has waited for [`HOLD`]
//! is rolled back, because an earlier chunk may wait for its locks, and the database ends idle transactions. And while
//! a chunk is written at its turn, no later one has a transaction, so errors are the same as with one thread.

use crate::job::chunk_reader::ReaderHandle;
use crate::job::prepare_chunk::{Lane, Preparation};
use crate::job::{ChunkBuffer, ItemProcessor, ItemWriter, ReadChunk};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::item::{ErrorKind, ItemError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Interval, MissedTickBehavior};
use tracing::Instrument;

/// Longest wait of a transaction for its turn: less than the shortest idle limit, which is half of the shortest lease.
const HOLD: Duration = Duration::from_millis(400);

/// After such a wait, this many chunks are not written ahead, because chunks that write the same rows would wait again.
const CALM: usize = 50;

/// The chunks of a step, in order. Without lanes they come straight from the reader.
pub(super) struct ChunkSource<I, O, P, W> {
    reader: ReaderHandle<I>,
    has_lanes: bool,
    idle: Vec<Lane<P, W>>,
    queue: VecDeque<QueuedChunk<I, O, P, W>>,
    tasks: JoinSet<Preparation<I, O, P, W>>,
    /// Limits transactions open before their turn; none if that is not allowed.
    gate: Option<Gate>,
    /// Number of chunks that are still not to be written ahead.
    calm: usize,
    tick: Interval,
    has_ended: bool,
}

struct Gate {
    permits: Arc<Semaphore>,
    size: u32,
    /// Held while the gate is shut.
    all: Option<OwnedSemaphorePermit>,
}

enum QueuedChunk<I, O, P, W> {
    Preparing { task: Id, is_to_be_written: bool },
    Prepared { preparation: Box<Preparation<I, O, P, W>>, has_waited: bool },
    Panicked(JoinError),
    Unreadable(ItemError),
}

enum Event<I, O, P, W> {
    Read(Option<Result<ReadChunk<I>, ItemError>>),
    Prepared(Id, Box<Preparation<I, O, P, W>>),
    Panicked(JoinError),
    Tick,
}

impl<I, O, P, W> ChunkSource<I, O, P, W>
where
    I: Send + Sync + 'static,
    O: Send + Sync + 'static,
    P: ItemProcessor<I, Output = O>,
    W: ItemWriter<O>,
{
    pub(super) fn new(reader: ReaderHandle<I>, lanes: Vec<Lane<P, W>>) -> Self {
        let size = lanes.iter().filter(|lane| lane.writer.is_some()).count();
        let gate = (size > 0).then(|| Gate {
            permits: Arc::new(Semaphore::new(size)),
            size: u32::try_from(size).unwrap_or(u32::MAX),
            all: None,
        });
        // A transaction seen waiting at two ticks has waited at most twice the tick.
        let mut tick = tokio::time::interval(HOLD / 2);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            reader,
            has_lanes: !lanes.is_empty(),
            idle: lanes,
            queue: VecDeque::new(),
            tasks: JoinSet::new(),
            gate,
            calm: 0,
            tick,
            has_ended: false,
        }
    }

    /// The next chunk in order; none when the reader is gone. Swaps in the processor and writer that prepared it.
    pub(super) async fn next(
        &mut self,
        processor: &mut P,
        writer: &mut W,
    ) -> Option<Result<ChunkBuffer<I, O>, ItemError>> {
        if !self.has_lanes {
            return self.reader.next().await;
        }
        while let None | Some(QueuedChunk::Preparing { .. }) = self.queue.front() {
            match self.queue.front() {
                None if self.has_ended => return None,
                // No chunk that must be written at its turn is left.
                Some(QueuedChunk::Preparing { is_to_be_written: true, .. }) => {
                    self.gate.iter_mut().for_each(|gate| gate.all = None);
                }
                _ => {}
            }
            let event = self.event().await;
            self.handle(event).await;
        }
        let preparation = match self.queue.pop_front()? {
            QueuedChunk::Prepared { preparation, .. } => preparation,
            QueuedChunk::Unreadable(error) => return Some(Err(error)),
            QueuedChunk::Panicked(error) => return Some(Err(panicked(error))),
            QueuedChunk::Preparing { .. } => return None,
        };
        if !preparation.buffer.ahead.is_written {
            self.shut().await;
        }
        let Preparation { buffer, mut lane, broken } = *preparation;
        if let Some(error) = broken {
            return Some(Err(error));
        }
        std::mem::swap(processor, &mut lane.processor);
        if let Some(own) = &mut lane.writer {
            std::mem::swap(writer, own);
        }
        self.idle.push(lane);
        Some(Ok(buffer))
    }

    /// Does the work of the current chunk while handling events of later ones.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        if !self.has_lanes {
            return work.await;
        }
        tokio::pin!(work);
        loop {
            // Events are handled to the end: a rollback must not be cancelled.
            let event = tokio::select! {
                biased;
                done = &mut work => return done,
                event = self.event() => event,
            };
            self.handle(event).await;
        }
    }

    /// Ends all preparations, and closes the idle writers. The reader ends by itself.
    pub(super) async fn close(mut self, is_complete: bool) -> Result<(), ItemError> {
        self.tasks.shutdown().await;
        for queued in self.queue {
            if let QueuedChunk::Prepared { mut preparation, .. } = queued {
                preparation.release().await;
                self.idle.push(preparation.lane);
            }
        }
        let mut closed = Ok(());
        for writer in self.idle.iter_mut().filter_map(|lane| lane.writer.as_mut()) {
            closed = closed.and(writer.close(is_complete).await);
        }
        closed
    }

    /// Cancel safe.
    async fn event(&mut self) -> Event<I, O, P, W> {
        let has_room = !self.has_ended && !self.idle.is_empty();
        tokio::select! {
            read = self.reader.chunks.recv(), if has_room => Event::Read(read),
            Some(joined) = self.tasks.join_next_with_id() => match joined {
                Ok((task, preparation)) => Event::Prepared(task, Box::new(preparation)),
                Err(error) => Event::Panicked(error),
            },
            _ = self.tick.tick() => Event::Tick,
        }
    }

    async fn handle(&mut self, event: Event<I, O, P, W>) {
        match event {
            Event::Read(Some(Ok(read))) => self.begin(read).await,
            Event::Read(Some(Err(error))) => {
                self.queue.push_back(QueuedChunk::Unreadable(error));
                self.has_ended = true;
            }
            Event::Read(None) => self.has_ended = true,
            Event::Prepared(task, preparation) => {
                self.put(task, QueuedChunk::Prepared { preparation, has_waited: false });
            }
            Event::Panicked(error) => self.put(error.id(), QueuedChunk::Panicked(error)),
            Event::Tick => self.sweep().await,
        }
    }

    /// Begins to prepare a chunk, and permits the next read.
    async fn begin(&mut self, read: ReadChunk<I>) {
        let Some(lane) = self.idle.pop() else { return };
        self.has_ended = read.has_ended;
        self.reader.read_ahead().await;
        let mut gate = self.gate.as_ref().map(|gate| gate.permits.clone());
        if self.calm > 0 {
            self.calm -= 1;
            gate = None;
        }
        let is_to_be_written = gate.is_some();
        let preparation = Preparation { buffer: self.reader.buffer(read), lane, broken: None };
        let task = self.tasks.spawn(preparation.run(gate).in_current_span()).id();
        self.queue.push_back(QueuedChunk::Preparing { task, is_to_be_written });
    }

    fn put(&mut self, done: Id, result: QueuedChunk<I, O, P, W>) {
        let is_its = |queued: &&mut QueuedChunk<_, _, _, _>| matches!(queued, QueuedChunk::Preparing { task, .. } if *task == done);
        if let Some(queued) = self.queue.iter_mut().find(is_its) {
            *queued = result;
        }
    }

    /// Rolls back transactions that have waited too long.
    async fn sweep(&mut self) {
        for queued in &mut self.queue {
            if let QueuedChunk::Prepared { preparation, has_waited } = queued
                && preparation.buffer.ahead.permit.is_some()
                && std::mem::replace(has_waited, true)
            {
                preparation.release().await;
                self.calm = CALM;
            }
        }
    }

    /// Allows no writing ahead, and rolls back what was written.
    async fn shut(&mut self) {
        let Some(gate) = self.gate.as_ref().filter(|gate| gate.all.is_none()) else { return };
        let all = gate.permits.clone().acquire_many_owned(gate.size);
        tokio::pin!(all);
        loop {
            for queued in &mut self.queue {
                if let QueuedChunk::Prepared { preparation, .. } = queued {
                    preparation.release().await;
                }
            }
            // Current writes finish first, because no waiting transaction blocks them.
            let event = tokio::select! {
                biased;
                all = &mut all => {
                    if let Some(gate) = &mut self.gate {
                        gate.all = all.ok();
                    }
                    return;
                }
                event = self.event() => event,
            };
            self.handle(event).await;
        }
    }
}

/// Resumes the panic in the step's own task.
fn panicked(error: JoinError) -> ItemError {
    match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(cancelled) => ItemError::new(ErrorKind::FATAL, cancelled.to_string()),
    }
}
