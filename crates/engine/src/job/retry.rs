//! Repeats a transaction while the database is away and this process holds the lease.

use crate::HeldLease;
use crate::job::StepFailure;
use std::time::Duration;
use tidemill_store::StoreError;

const PAUSE: Duration = Duration::from_millis(250);

/// This process lost the lease, or cannot record what it did. Recovery will record the failure of the execution.
#[derive(Debug)]
pub(super) struct ExecutionLost;

impl StepFailure {
    /// For records without which the execution cannot continue.
    pub(super) fn lost(self) -> ExecutionLost {
        if let Self::Failed { text: error, .. } = self {
            tracing::error!(%error, "the execution could not be recorded; it is given up");
        }
        ExecutionLost
    }
}

/// What to do if the answer to a commit was lost, so the result is unknown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LostAnswer {
    /// Repeating is harmless.
    Repeat,
    Fail,
}

/// Repeats `attempt` while the database is away and `lease` is trusted. `trouble` is the log message.
pub(super) async fn while_away<T, F>(
    lease: &HeldLease,
    trouble: &str,
    lost_answer: LostAnswer,
    mut attempt: impl FnMut() -> F,
) -> Result<T, StepFailure>
where
    F: Future<Output = Result<T, StoreError>>,
{
    loop {
        if !lease.is_trusted() {
            return Err(StepFailure::LeaseLost);
        }
        let error = match attempt().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let is_lost_answer = matches!(error, StoreError::OutcomeUnknown(_));
        if !error.is_transient() || is_lost_answer && lost_answer == LostAnswer::Fail {
            return Err(error.into());
        }
        tracing::warn!(%error, "{trouble}; will try again");
        tokio::time::sleep(PAUSE).await;
    }
}
