//! `render cancel`, `retry`, `recover`, `poll` and `reseal`.

use super::{Setup, render_id, unknown};
use crate::commands::finish;
use crate::commands::job::reason;
use crate::commands::prelude::*;
use serde_json::Value;
use tidemill_domain::render::{RenderId, Status};
use tidemill_store::render::{RENDER_WAITING, RenderChanged};
use tidemill_store::url::Dialect;
use tidemill_store::{StoreError, Tx};

const BATCH: u32 = 100;

#[derive(Args, Debug)]
pub(crate) struct Orders {
    /// Ids of the renders
    #[arg(value_name = "RENDER", value_parser = render_id, required = true)]
    ids: Vec<RenderId>,
    /// Show what would change, without changing it
    #[arg(long)]
    dry_run: bool,
    /// Reason, kept in the audit log
    #[arg(long, value_parser = reason)]
    reason: String,
}

#[derive(Args, Debug)]
pub(crate) struct Recover {
    /// Ids of the renders
    #[arg(value_name = "RENDER", value_parser = render_id, required_unless_present = "all")]
    ids: Vec<RenderId>,
    /// All renders whose worker disappeared
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Reason, kept in the audit log
    #[arg(long, value_parser = reason)]
    reason: String,
}

pub(super) async fn cancel(orders: &Orders, context: &Context) -> Result<Exit> {
    let (actor, reason) = (context.actor(), Some(orders.reason.as_str()));
    let run = Run { ids: &orders.ids, is_dry: orders.dry_run };
    order(run, context, async |tx, id| tx.renders().cancel(id, &actor, reason).await).await
}

pub(super) async fn retry(orders: &Orders, context: &Context) -> Result<Exit> {
    let (actor, reason) = (context.actor(), Some(orders.reason.as_str()));
    let run = Run { ids: &orders.ids, is_dry: orders.dry_run };
    order(run, context, async |tx, id| tx.renders().retry(id, &actor, reason).await).await
}

pub(super) async fn recover(arguments: &Recover, context: &Context) -> Result<Exit> {
    let policy = Setup::policy(&context.settings().render)?;
    let (actor, reason) = (context.actor(), Some(arguments.reason.as_str()));
    if !arguments.all {
        let run = Run { ids: &arguments.ids, is_dry: false };
        return order(run, context, async |tx, id| tx.renders().recover(id, &policy, &actor, reason).await)
            .await;
    }
    let store = context.store().await?;
    let mut listing = changes();
    loop {
        let mut tx = store.begin().await?;
        let recovered = tx.renders().recover_all(BATCH, &policy, &actor, reason).await?;
        tx.commit().await?;
        for (from, record) in &recovered {
            listing.push(row(record.id(), Some((*from, record.render.status)), None));
        }
        if recovered.is_empty() {
            break;
        }
    }
    listing.print(context.output())
}

struct Run<'a> {
    ids: &'a [RenderId],
    is_dry: bool,
}

fn changes() -> Listing {
    let columns = &["render", "from", "status", "refused"];
    Listing::new("tidemill.render_change/v1", columns, "No renders changed.")
}

/// A line of [`changes`]: the status before and after, or why it was refused.
fn row(id: RenderId, change: Option<(Status, Status)>, refusal: Option<String>) -> Vec<Value> {
    let (from, to) = (change.map(|(from, _)| from.as_str()), change.map(|(_, to)| to.as_str()));
    vec![json!(id.get()), json!(from), json!(to), json!(refusal)]
}

/// Runs one transaction per render. A dry run rolls back.
async fn order(
    run: Run<'_>,
    context: &Context,
    give: impl AsyncFn(&mut Tx, RenderId) -> Result<RenderChanged, StoreError>,
) -> Result<Exit> {
    let store = context.store().await?;
    let (mut listing, mut refusals) = (changes(), Vec::new());
    for id in run.ids.iter().copied() {
        let mut tx = store.begin().await?;
        let ordered = give(&mut tx, id).await?;
        finish(tx, run.is_dry).await?;
        let (change, refusal) = match ordered {
            RenderChanged::Done { from, record } => (Some((from, record.render.status)), None),
            RenderChanged::Refused(refusal) => {
                let what = format!("render {id}: {refusal}");
                refusals.push(Failure::new(Code::RenderOrderRefused, what, refusal.fix()));
                (None, Some(refusal.to_string()))
            }
            RenderChanged::NoSuchRender => {
                refusals.push(unknown(id));
                (None, Some("there is no such render".to_owned()))
            }
        };
        listing.push(row(id, change, refusal));
    }
    if run.is_dry {
        context.note("dry run: nothing changed");
    }
    match refusals.len() {
        0 => {}
        1 if run.ids.len() == 1 => return Err(refusals.remove(0)),
        count => {
            listing.print(context.output())?;
            let first = refusals.remove(0);
            let what = format!("{count} of {} renders were refused", run.ids.len());
            return Err(Failure::new(first.code, what, first.fix.clone()).because(first.summary()));
        }
    }
    listing.print(context.output())
}

pub(super) async fn poll(context: &Context) -> Result<Exit> {
    let store = context.store().await?;
    let mut tx = store.begin().await?;
    tx.wake(RENDER_WAITING);
    tx.commit().await?;
    let has_wakeups = store.dialect() == Dialect::Postgres && !store.is_behind_transaction_pooler();
    context.done(match has_wakeups {
        true => "workers look for renders now",
        false => {
            "this database has no wake-ups between processes: workers find the renders at their next poll"
        }
    })
}

pub(super) async fn reseal(context: &Context) -> Result<Exit> {
    if context.settings().render_keys.is_empty() {
        let what = "no key for render data is configured";
        return Err(Failure::new(Code::BadRenderKey, what, "add [render.keys.NAME] to the configuration"));
    }
    let store = context.store().await?;
    let (mut count, mut after) = (0, None);
    loop {
        let mut tx = store.begin().await?;
        let resealed = tx.renders().reseal(after, BATCH).await?;
        tx.commit().await?;
        count += resealed.count;
        match resealed.last {
            Some(last) => after = Some(last),
            None => break,
        }
    }
    let listing = Listing::one("tidemill.render_reseal/v1", [("resealed", json!(count))]);
    listing.print(context.output())
}
