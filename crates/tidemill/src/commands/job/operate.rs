//! `job stop`, `job abandon` and `job recover`. They need only the database, so any program can run them; each writes an
//! audit entry.

use super::ExecutionAction;
use crate::commands::prelude::*;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::duration;
use tidemill_domain::job::ExecutionId;
use tidemill_domain::job::lifecycle::ExecutionRefusal;
use tidemill_domain::process::ProcessState;
use tidemill_engine::reaper;
use tidemill_server::api::execution::operate::change;
use tidemill_store::job::ExecutionChanged;
use tidemill_store::{Store, StoreError, Tx};

pub(super) async fn stop(id: ExecutionId, reason: Option<&str>, context: &Context) -> Result<Exit> {
    perform(id, context, async |tx, actor| tx.jobs().request_stop(id, actor, reason).await).await?;
    context.done(&format!("execution {id} stops after its current chunk; see `tidemill executions {id}`"))
}

pub(super) async fn abandon(action: &ExecutionAction, context: &Context) -> Result<Exit> {
    let (id, reason) = (action.execution, &action.reason);
    perform(id, context, async |tx, actor| tx.jobs().abandon_execution(id, actor, reason).await).await?;
    context.done(&format!("execution {id} is abandoned; its instance cannot be restarted"))
}

pub(super) async fn recover(action: &ExecutionAction, context: &Context) -> Result<Exit> {
    let (id, reason) = (action.execution, &action.reason);
    reaper::bury_neighbours(&context.store().await?).await?;
    perform(id, context, async |tx, actor| tx.jobs().recover_execution(id, actor, reason).await).await?;
    context.done(&format!(
        "execution {id} is marked as failed; resume it with `job restart {id}` in the program that has the job"
    ))
}

async fn perform(
    id: ExecutionId,
    context: &Context,
    act: impl AsyncFnOnce(&mut Tx, &Actor) -> Result<ExecutionChanged, StoreError>,
) -> Result<Exit> {
    let store = context.store().await?;
    let mut tx = store.begin().await?;
    let operated = act(&mut tx, &context.actor()).await?;
    tx.commit().await?;
    let advice = match operated {
        ExecutionChanged::Refused(ExecutionRefusal::OwnerAlive) => advice_if_dead(id, &store).await,
        _ => None,
    };
    let (from, to) = change(id, operated).map_err(|error| {
        let fix = [Some(error.fix()), advice].into_iter().flatten().collect::<Vec<_>>().join("; ");
        Failure::new(error.code(), error.to_string(), fix)
    })?;
    let values = [("execution", json!(id.get())), ("from", json!(from.as_str())), ("to", json!(to.as_str()))];
    Listing::one("tidemill.execution_change/v1", values).print(context.output())
}

/// Advice for the case that the process of this execution has just died. None if it has no live process, or if the
/// database does not answer: the refusal must not turn into another error.
pub(super) async fn advice_if_dead(id: ExecutionId, store: &Store) -> Option<String> {
    let (name, left) = lease_left(id, store).await.ok().flatten()?;
    // Rounded up: a fraction of a second would be too short.
    let left = Duration::from_secs(left.as_secs() + 1);
    Some(wait_for_lease(&format!("its process {name}"), left))
}

pub(super) fn wait_for_lease(process: &str, at_most: Duration) -> String {
    let at_most = duration::show(at_most);
    format!("if {process} has just died, wait until its lease lapses, at most {at_most}, then try again")
}

/// The live process of an execution, and how long its lease lasts.
async fn lease_left(id: ExecutionId, store: &Store) -> Result<Option<(String, Duration)>, StoreError> {
    let mut tx = store.read().await?;
    let now = tx.now().await?;
    let found = tx.jobs().execution(id).await?;
    let process = found.and_then(|detail| detail.owner).and_then(|owner| owner.process);
    Ok(process.and_then(|process| match process.state {
        ProcessState::Live { until } if now < until => Some((process.identity.name, until.since(now))),
        _ => None,
    }))
}
