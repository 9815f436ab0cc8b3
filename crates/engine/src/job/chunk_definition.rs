//! Definition of a chunk step: its parts, when a chunk is complete, and its fault policy.

use crate::job::listener::Listeners;
use crate::job::reject::RejectSink;
use crate::job::{ItemProcessor, ItemReader, StepScope};
use crate::locked;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidemill_domain::backoff::Backoff;
use tidemill_domain::item::ItemError;
use tidemill_domain::job::fault::FaultPolicy;

pub(super) type Make<T> = Arc<dyn Fn(&StepScope) -> Result<T, ItemError> + Send + Sync>;

/// Makes clones of a part. The lock is there because parts need not be `Sync`.
pub(super) fn clones_of<T: Clone + Send + 'static>(
    part: T,
) -> impl Fn(&StepScope) -> Result<T, ItemError> + Send + Sync + 'static {
    let part = Mutex::new(part);
    move |_| Ok(locked(&part).clone())
}

pub(super) struct ChunkDefinition<R: ItemReader, P: ItemProcessor<R::Item>, W> {
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
