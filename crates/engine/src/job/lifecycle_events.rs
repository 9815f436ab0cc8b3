//! The listeners of a chunk step.

use crate::job::{ChunkListener, ItemListener, RetryListener, SkipListener, StepScope};
use std::sync::Arc;
use tidemill_domain::item::{ItemError, Phase};
use tidemill_domain::job::Counters;

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

    pub(super) fn after_chunk(&self, scope: &StepScope, counters: &Counters) {
        self.chunk.iter().for_each(|listener| listener.after_chunk(scope, counters));
    }

    pub(super) fn after_chunk_error(&self, scope: &StepScope, counters: &Counters) {
        self.chunk.iter().for_each(|listener| listener.after_chunk_error(scope, counters));
    }

    pub(super) fn before_process(&self, item: &I) {
        self.item.iter().for_each(|listener| listener.before_process(item));
    }

    pub(super) fn after_process(&self, item: &I, processed: &Result<Option<O>, ItemError>) {
        self.item.iter().for_each(|listener| match processed {
            Ok(output) => listener.after_process(item, output.as_ref()),
            Err(error) => listener.on_process_error(item, error),
        });
    }

    pub(super) fn before_write(&self, items: &[O]) {
        self.item.iter().for_each(|listener| listener.before_write(items));
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

    pub(super) fn on_retry(&self, phase: Phase, error: &ItemError) {
        self.retry.iter().for_each(|listener| listener.on_retry(phase, error));
    }
}
