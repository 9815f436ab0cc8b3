//! A chunk in progress: its items, their outputs, and its transaction.

use crate::job::{ChunkScope, ItemPlace, StepFailure};
use std::collections::{HashMap, VecDeque};
use tidemill_domain::code::Code;
use tidemill_domain::item::{ErrorKind, ItemError, Phase};
use tidemill_domain::job::ExecutionContext;
use tidemill_domain::job::chunk::{Chunk, Failure, FailureReason};
use tidemill_domain::time::Monotonic;
use tidemill_store::item::kind_of_cause;
use tokio::sync::OwnedSemaphorePermit;

pub(super) struct ReadChunk<I> {
    pub(super) items: Vec<I>,
    /// Where each item came from, if the reader says so.
    pub(super) places: Vec<Option<ItemPlace>>,
    pub(super) errors: Vec<ReadError>,
    /// The reader's position after the items.
    pub(super) position: ExecutionContext,
    pub(super) has_ended: bool,
}

pub(super) struct ReadError {
    /// Number of items of the chunk read before it.
    pub(super) behind: usize,
    pub(super) error: ItemError,
}

/// An error of the database without an own kind gets the kind of the database's answer.
pub(super) fn kind_of(error: &ItemError, phase: Phase) -> ErrorKind {
    let said = error.kind_in(phase);
    if said != phase.kind() {
        return said;
    }
    error.source().and_then(|cause| kind_of_cause(cause)).unwrap_or(said)
}

pub(super) struct ChunkBuffer<I, O> {
    pub(super) read: ReadChunk<I>,
    pub(super) outputs: Vec<Option<O>>,
    errors: HashMap<usize, ItemError>,
    /// Of several items that were written together.
    pub(super) write_error: Option<ItemError>,
    pub(super) scope: ChunkScope,
    pub(super) ahead: Ahead<O>,
    /// When it was read.
    pub(super) began: Monotonic,
}

/// Work done for a chunk before its turn. It is counted and reported only then.
pub(super) struct Ahead<O> {
    /// Results from the first item on; an error is the last.
    pub(super) outcomes: VecDeque<Result<Option<O>, ItemError>>,
    /// Whether all outputs are written in the chunk's transaction.
    pub(super) is_written: bool,
    /// The right to have that transaction open.
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

impl<I, O> ChunkBuffer<I, O> {
    pub(super) fn new(read: ReadChunk<I>, scope: ChunkScope, began: Monotonic) -> Self {
        Self {
            outputs: read.items.iter().map(|_| None).collect(),
            read,
            errors: HashMap::new(),
            write_error: None,
            scope,
            ahead: Ahead { outcomes: VecDeque::new(), is_written: false, permit: None },
            began,
        }
    }

    /// Keeps the error of an item, with the place where the item came from.
    pub(super) fn fail(&mut self, index: usize, error: ItemError) {
        let error = match self.read.places.get(index) {
            Some(Some(place)) if error.origin().is_none() => error.at(place.to_string(), ""),
            _ => error,
        };
        self.errors.insert(index, error);
    }

    /// The last error of an item, or of the chunk.
    pub(super) fn error_of(&self, phase: Phase, index: Option<usize>) -> Option<&ItemError> {
        match (phase, index) {
            (Phase::Read, Some(index)) => self.read.errors.get(index).map(|failed| &failed.error),
            (_, Some(index)) => self.errors.get(&index),
            // A chunk of one item keeps the error with the item.
            (_, None) => self.write_error.as_ref().or_else(|| self.errors.get(&0)),
        }
    }

    pub(super) fn failure(&self, failure: Failure, skip_limit: u64) -> StepFailure {
        let error = self.error_of(failure.phase, failure.index).or(self.write_error.as_ref());
        let error = error.or_else(|| self.errors.values().next());
        let text = error.map_or_else(String::new, ItemError::text);
        let phase = failure.phase.as_str();
        let code = error.and_then(ItemError::code).unwrap_or(Code::ExecutionFailed);
        match failure.reason {
            FailureReason::NotTolerated => StepFailure::failed(code, format!("{phase} failed: {text}")),
            FailureReason::RetryExhausted => StepFailure::failed(
                code,
                format!("{phase} failed in every attempt and is not skippable: {text}"),
            ),
            FailureReason::SkipLimitExceeded => StepFailure::failed(
                Code::SkipLimitExceeded,
                format!("the skip limit of {skip_limit} is exceeded; the last error, in {phase}: {text}"),
            ),
        }
    }

    /// Reports reads and read errors in their order.
    pub(super) fn report_reads(&self, chunk: &mut Chunk<'_>) {
        let mut errors = self.read.errors.iter().peekable();
        for index in 0..=self.read.items.len() {
            while let Some(failed) = errors.next_if(|failed| failed.behind == index) {
                chunk.read_failed(&kind_of(&failed.error, Phase::Read));
            }
            if index < self.read.items.len() {
                chunk.item_read();
            }
        }
    }
}
