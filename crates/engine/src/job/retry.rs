//! Repeats a transaction while the database is away, as long as this process may act.

use crate::lease::HeldLease;
use std::time::Duration;
use tidemill_store::StoreError;

const PAUSE: Duration = Duration::from_millis(250);

/// This process may no longer act, or cannot record what it did. Whoever finds the execution without an owner records
/// that it failed.
#[derive(Debug)]
pub(super) struct Lost;

/// Why a transaction was given up.
#[derive(Debug)]
pub(super) enum GivenUp {
    LeaseLost,
    Failed(StoreError),
}

impl GivenUp {
    /// For what has to be recorded before anybody may go on.
    pub(super) fn lost(self) -> Lost {
        if let Self::Failed(error) = self {
            tracing::error!(%error, "the execution could not be recorded; it is given up");
        }
        Lost
    }
}

/// What to do when the answer to a commit was lost, so that nobody knows whether it happened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LostAnswer {
    /// Doing it twice does no harm.
    Repeat,
    Fail,
}

/// Repeats `attempt` for as long as the database is away and `lease` is trusted. `trouble` is what the log says.
pub(super) async fn while_away<T, F>(
    lease: &HeldLease,
    trouble: &str,
    lost_answer: LostAnswer,
    mut attempt: impl FnMut() -> F,
) -> Result<T, GivenUp>
where
    F: Future<Output = Result<T, StoreError>>,
{
    loop {
        if !lease.is_trusted() {
            return Err(GivenUp::LeaseLost);
        }
        let error = match attempt().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let is_lost_answer = matches!(error, StoreError::OutcomeUnknown(_));
        if !error.is_transient() || is_lost_answer && lost_answer == LostAnswer::Fail {
            return Err(GivenUp::Failed(error));
        }
        tracing::warn!(%error, "{trouble}; will try again");
        tokio::time::sleep(PAUSE).await;
    }
}
