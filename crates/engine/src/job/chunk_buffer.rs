//! A chunk that is being worked on: its items, what came out of them, and its transaction.

use super::chunk_loop::kind_of;
use super::chunk_reader::{ReadChunk, ReadError};
use crate::job::component::ItemPlace;
use crate::job::scope::ChunkScope;
use crate::metrics::ChunkTimer;
use std::collections::{HashMap, VecDeque};
use tidemill_domain::item::{ItemError, Phase};
use tidemill_domain::job::ExecutionContext;
use tidemill_domain::job::chunk::Chunk;
use tokio::sync::OwnedSemaphorePermit;

/// The items of one chunk, and what came out of them.
pub(super) struct ChunkBuffer<I, O> {
    pub(super) items: Vec<I>,
    /// Where each of them came from, as far as the reader says so.
    places: Vec<Option<ItemPlace>>,
    pub(super) read_errors: Vec<ReadError>,
    pub(super) outputs: Vec<Option<O>>,
    /// The last error of each item.
    pub(super) errors: HashMap<usize, ItemError>,
    /// The last error of writing several.
    pub(super) write_error: Option<ItemError>,
    /// The reader's position behind them.
    pub(super) position: ExecutionContext,
    /// Whether there is nothing more to read.
    pub(super) has_ended: bool,
    pub(super) scope: ChunkScope,
    pub(super) ahead: Ahead<O>,
    pub(super) timer: ChunkTimer,
}

/// What was done for a chunk before its turn. Nothing of it is counted or told until then.
pub(super) struct Ahead<O> {
    /// What came out of its items, from the first one on; an error is the last.
    pub(super) outcomes: VecDeque<Result<Option<O>, ItemError>>,
    /// Whether all that came out is written in the chunk's transaction.
    pub(super) is_written: bool,
    /// The right to have that transaction open.
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

impl<I, O> ChunkBuffer<I, O> {
    pub(super) fn new(read: ReadChunk<I>, scope: ChunkScope, timer: ChunkTimer) -> Self {
        let mut outputs = Vec::new();
        outputs.resize_with(read.items.len(), || None);
        Self {
            items: read.items,
            places: read.places,
            read_errors: read.errors,
            outputs,
            errors: HashMap::new(),
            write_error: None,
            position: read.position,
            has_ended: read.has_ended,
            scope,
            ahead: Ahead { outcomes: VecDeque::new(), is_written: false, permit: None },
            timer,
        }
    }

    /// Keeps the error of an item, with the place that the item came from.
    pub(super) fn fail(&mut self, index: usize, error: ItemError) {
        let error = match self.places.get(index) {
            Some(Some(place)) if error.origin().is_none() => error.at(place.to_string(), ""),
            _ => error,
        };
        self.errors.insert(index, error);
    }

    /// Tells the algorithm what was read, in the order in which it was.
    pub(super) fn tell(&self, chunk: &mut Chunk<'_>) {
        let mut errors = self.read_errors.iter().peekable();
        for index in 0..=self.items.len() {
            while let Some(failed) = errors.next_if(|failed| failed.behind == index) {
                chunk.read_failed(&kind_of(&failed.error, Phase::Read));
            }
            if index < self.items.len() {
                chunk.item_read();
            }
        }
    }
}
