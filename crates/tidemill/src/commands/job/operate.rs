//! `job stop`, `job abandon` and `job recover`: what an operator may do to an execution. They act on the database
//! alone, so that any program can do it; each leaves an audit entry.

use super::Order;
use crate::context::Context;
use crate::output::Listing;
use crate::report::Failure;
use serde_json::json;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::code::Exit;
use tidemill_domain::duration;
use tidemill_domain::job::lifecycle::ExecutionRefusal;
use tidemill_domain::job::{BatchStatus, ExecutionId};
use tidemill_domain::process::ProcessState;
use tidemill_engine::job::JobError;
use tidemill_store::job::Operated;
use tidemill_store::{Store, StoreError, Tx};

pub(super) async fn stop(id: ExecutionId, reason: Option<&str>, context: &Context) -> Result<Exit, Failure> {
    order(id, context, async |tx, actor| tx.jobs().request_stop(id, actor, reason).await).await?;
    context.note(&format!("execution {id} stops at the end of its chunk; see `tidemill executions {id}`"));
    Ok(Exit::Ok)
}

pub(super) async fn abandon(wanted: &Order, context: &Context) -> Result<Exit, Failure> {
    let (id, reason) = (wanted.execution, &wanted.reason);
    order(id, context, async |tx, actor| tx.jobs().abandon_execution(id, actor, reason).await).await?;
    context.note(&format!("execution {id} is abandoned; its instance is never restarted"));
    Ok(Exit::Ok)
}

pub(super) async fn recover(wanted: &Order, context: &Context) -> Result<Exit, Failure> {
    let (id, reason) = (wanted.execution, &wanted.reason);
    order(id, context, async |tx, actor| tx.jobs().recover_execution(id, actor, reason).await).await?;
    context.note(&format!(
        "execution {id} counts as failed; `job restart {id}` of the program that has the job goes on with it"
    ));
    Ok(Exit::Ok)
}

async fn order(
    id: ExecutionId,
    context: &Context,
    give: impl AsyncFnOnce(&mut Tx, &Actor) -> Result<Operated, StoreError>,
) -> Result<Exit, Failure> {
    let store = context.store().await?;
    let mut tx = store.begin().await?;
    let operated = give(&mut tx, &context.actor()).await?;
    tx.commit().await?;
    let advice = match operated {
        Operated::Refused(ExecutionRefusal::OwnerAlive) => advice_if_dead(id, &store).await,
        _ => None,
    };
    let (from, to) = match operated {
        Operated::Done { from, to } => (from, to),
        Operated::Refused(refusal) => {
            let error = JobError::NotAllowed { id, refusal };
            let fix = [Some(error.fix()), advice].into_iter().flatten().collect::<Vec<_>>().join("; ");
            return Err(Failure::new(error.code(), error.to_string(), fix));
        }
        Operated::NoSuchExecution => return Err(JobError::UnknownExecution(id).into()),
    };
    let listing = Listing::one("tidemill.execution_change/v1").with([
        ("execution", json!(id.get())),
        ("from", json!(BatchStatus::as_str(from))),
        ("to", json!(to.as_str())),
    ]);
    listing.print(context.output())
}

/// What to do if the process that runs this execution has died, and when it will help. Nothing if it has no process that
/// counts as alive, or if that cannot be told now: a refusal must not become another failure.
pub(super) async fn advice_if_dead(id: ExecutionId, store: &Store) -> Option<String> {
    let (name, left) = left(id, store).await.ok().flatten()?;
    // A part of a second is too little to wait.
    let left = Duration::from_secs(left.as_secs() + 1);
    Some(wait_for_lease(&format!("its process {name}"), left))
}

/// The same, of a process of which only the length of its lease is known.
pub(super) fn wait_for_lease(process: &str, at_most: Duration) -> String {
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
