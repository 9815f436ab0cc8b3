//! Who is told what about a chunk: listeners, rejects, and the reason of a failure.

use super::chunk_buffer::ChunkBuffer;
use super::chunk_loop::{ChunkLoop, kind_of};
use crate::clock::jitter_unit;
use crate::job::component::ItemProcessor;
use crate::job::reject::Rejected;
use crate::job::step::StepFailure;
use crate::job::stop::Urgency;
use tidemill_domain::code::Code;
use tidemill_domain::item::{ItemError, Phase};
use tidemill_domain::job::chunk::{Chunk, Failure, FailureReason, Skip};

impl<I, O, P, W> ChunkLoop<'_, I, O, P, W>
where
    P: ItemProcessor<I, Output = O>,
{
    /// Tells those who want to know that a chunk is tried again, and waits as long as was agreed.
    pub(super) async fn before_repetition(
        &mut self,
        chunk: &Chunk<'_>,
        buffer: &ChunkBuffer<I, O>,
    ) -> Result<(), StepFailure> {
        let Some(retry) = chunk.retry() else {
            self.before_chunk();
            return Ok(());
        };
        let error = match retry.index {
            Some(index) => buffer.errors.get(&index),
            // A chunk of one item keeps the error with the item.
            None => buffer.write_error.as_ref().or_else(|| buffer.errors.get(&0)),
        };
        if let Some(error) = error {
            for listener in &self.listeners.retry {
                listener.on_retry(retry.phase, error);
            }
        }
        if let Some(backoff) = &self.options.backoff {
            let pause = backoff.delay(retry.attempts, jitter_unit());
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.task.stop.asked(Urgency::Now) => {}
                () = self.task.lost() => return Err(StepFailure::LeaseLost),
            }
        }
        self.before_chunk();
        Ok(())
    }

    pub(super) fn before_chunk(&self) {
        for listener in &self.listeners.chunk {
            listener.before_chunk(&self.task.scope);
        }
    }

    pub(super) async fn announce(
        &mut self,
        skip: Skip,
        buffer: &ChunkBuffer<I, O>,
    ) -> Result<(), StepFailure> {
        let (item, error) = match skip.phase {
            Phase::Read => (None, buffer.read_errors.get(skip.index).map(|failed| &failed.error)),
            Phase::Process | Phase::Write => (buffer.items.get(skip.index), buffer.errors.get(&skip.index)),
        };
        let Some(error) = error else { return Ok(()) };
        for listener in &self.listeners.skip {
            match (skip.phase, item) {
                (Phase::Read, _) => listener.on_skip_in_read(error),
                (Phase::Process, Some(item)) => listener.on_skip_in_process(item, error),
                (Phase::Write, Some(item)) => {
                    let output = buffer.outputs.get(skip.index).and_then(Option::as_ref);
                    let passed = || P::pass_through(std::slice::from_ref(item)).and_then(<[O]>::first);
                    if let Some(output) = output.or_else(passed) {
                        listener.on_skip_in_write(output, error);
                    }
                }
                (_, None) => {}
            }
        }
        tracing::debug!(step = self.task.scope.step(), "an item was skipped in {}", skip.phase.as_str());
        if let Some(rejects) = &mut self.rejects {
            rejects.add(Rejected { phase: skip.phase, kind: kind_of(error, skip.phase), error, item })?;
        }
        Ok(())
    }

    pub(super) fn failed(&self, failure: Failure, buffer: &ChunkBuffer<I, O>) -> StepFailure {
        let error = match (failure.phase, failure.index) {
            (Phase::Read, Some(index)) => buffer.read_errors.get(index).map(|failed| &failed.error),
            (_, Some(index)) => buffer.errors.get(&index),
            (_, None) => None,
        };
        let error = error.or(buffer.write_error.as_ref()).or_else(|| buffer.errors.values().next());
        let text = error.map_or_else(String::new, ItemError::text);
        let phase = failure.phase.as_str();
        let code = error.and_then(ItemError::code).unwrap_or(Code::ExecutionFailed);
        match failure.reason {
            FailureReason::NotTolerated => StepFailure::failed(code, format!("{phase} failed: {text}")),
            FailureReason::RetryExhausted => StepFailure::failed(
                code,
                format!("{phase} failed in every attempt and is not skippable: {text}"),
            ),
            FailureReason::SkipLimitExceeded => {
                let limit = self.options.policy.as_ref().map_or(0, |policy| policy.skip_limit);
                StepFailure::failed(
                    Code::SkipLimitExceeded,
                    format!("the skip limit of {limit} is exceeded; the last error, in {phase}: {text}"),
                )
            }
        }
    }
}
