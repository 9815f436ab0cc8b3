//! How long a process counts as alive of which nothing more is heard. Whoever has just killed it wants to know.

use std::time::Duration;
use tidemill_domain::duration;
use tidemill_domain::job::ExecutionId;
use tidemill_domain::process::ProcessState;
use tidemill_store::{Store, StoreError};

/// What to do if the process that runs this execution has died, and when it will help. Nothing if it has no process that
/// counts as alive, or if that cannot be told now: a refusal must not become another failure.
pub(super) async fn advice(id: ExecutionId, store: &Store) -> Option<String> {
    let (name, left) = left(id, store).await.ok().flatten()?;
    // A part of a second is too little to wait.
    let left = Duration::from_secs(left.as_secs() + 1);
    Some(wait(&format!("its process {name}"), left))
}

/// The same, of a process of which only the length of its lease is known.
pub(super) fn wait(process: &str, at_most: Duration) -> String {
    let at_most = duration::show(at_most);
    format!("if {process} has just died, wait until its lease lapses, at most {at_most}, then try again")
}

/// The process that runs an execution, and how long its word counts.
async fn left(id: ExecutionId, store: &Store) -> Result<Option<(String, Duration)>, StoreError> {
    let mut tx = store.read().await?;
    let now = tx.now().await?;
    let found = tx.jobs().execution(id).await?;
    let process = found.and_then(|detail| detail.owner).and_then(|owner| owner.process);
    Ok(process.and_then(|process| match process.state {
        ProcessState::Live { until } if now < until => Some((process.identity.name, until.since(now))),
        _ => None,
    }))
}
