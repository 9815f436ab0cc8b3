//! `job stop`, `job abandon` and `job recover`: what an operator may do to an execution. They act on the database
//! alone, so that any program can do it; each leaves an audit entry.

use super::{Order, alive};
use crate::context::Context;
use crate::output::Listing;
use crate::report::Failure;
use serde_json::json;
use tidemill_domain::audit::Actor;
use tidemill_domain::code::Exit;
use tidemill_domain::job::lifecycle::ExecutionRefusal;
use tidemill_domain::job::{BatchStatus, ExecutionId};
use tidemill_engine::job::JobError;
use tidemill_store::job::Operated;
use tidemill_store::{StoreError, Tx};

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

/// Gives an order and shows what it changed.
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
        Operated::Refused(ExecutionRefusal::OwnerAlive) => alive::advice(id, &store).await,
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
