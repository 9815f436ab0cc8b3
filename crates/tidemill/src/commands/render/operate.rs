//! `render cancel`, `approve`, `reject`, `retry`, `prioritize`, `correct`, `recover`, `poll` and `reseal`.

use super::look::Filter;
use super::submit::warn;
use super::{Setup, batch, read_data, render_id, unknown};
use crate::commands::finish;
use crate::commands::job::reason;
use crate::commands::prelude::*;
use serde_json::Value;
use std::path::PathBuf;
use tidemill_domain::action::Action;
use tidemill_domain::render::selection::PriorityChange;
use tidemill_domain::render::{RenderId, Status};
use tidemill_engine::render::{Correction, Selection, SelectionError};
use tidemill_store::Tx;
use tidemill_store::render::{RENDER_WAITING, RenderChanged};
use tidemill_store::url::Dialect;

const BATCH: u32 = 100;

/// Renders by their ids, or all that match.
#[derive(Args, Debug)]
struct Select {
    /// Ids of the renders
    #[arg(value_name = "RENDER", value_parser = render_id, required_unless_present_any = Filter::FLAGS, conflicts_with_all = Filter::FLAGS)]
    ids: Vec<RenderId>,
    #[command(flatten)]
    filter: Filter,
}

impl Select {
    /// Sorted if they are those that match.
    async fn ids(&self, action: Action, context: &Context) -> Result<Vec<RenderId>> {
        if !self.ids.is_empty() {
            return Ok(self.ids.clone());
        }
        let mut tx = context.read().await?;
        if let Some(batch) = self.filter.batch {
            batch::find(&mut tx, batch).await?;
        }
        let (filter, is_late) = (self.filter.read()?, self.filter.late);
        Ok(Selection::Matching { filter, text: None, is_late }.ids(&mut tx, action).await?)
    }
}

impl From<SelectionError> for Failure {
    fn from(error: SelectionError) -> Self {
        match error {
            SelectionError::Selection(bad) => Self::new(bad.code(), bad.to_string(), bad.fix()),
            SelectionError::Store(error) => error.into(),
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Orders {
    #[command(flatten)]
    select: Select,
    /// Show what would change, without changing it
    #[arg(long)]
    dry_run: bool,
    /// Reason, kept in the audit log
    #[arg(long, value_parser = reason)]
    reason: String,
}

#[derive(Args, Debug)]
pub(crate) struct Approve {
    /// Ids of the renders
    #[arg(value_name = "RENDER", value_parser = render_id, required = true)]
    ids: Vec<RenderId>,
    /// Refuse if the render is not at this revision any more; `render show` has it
    #[arg(long, value_name = "NUMBER")]
    revision: Option<i64>,
    /// Show what would change, without changing it
    #[arg(long)]
    dry_run: bool,
    /// Reason, kept in the audit log
    #[arg(long, value_parser = reason)]
    reason: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Reject {
    /// Ids of the renders
    #[arg(value_name = "RENDER", value_parser = render_id, required = true)]
    ids: Vec<RenderId>,
    /// Refuse if the render is not at this revision any more; `render show` has it
    #[arg(long, value_name = "NUMBER")]
    revision: Option<i64>,
    /// Show what would change, without changing it
    #[arg(long)]
    dry_run: bool,
    /// Reason, kept in the audit log
    #[arg(long, value_parser = reason)]
    reason: String,
}

#[derive(Args, Debug)]
pub(crate) struct Prioritize {
    #[command(flatten)]
    select: Select,
    /// The new priority
    #[arg(long, value_name = "PRIORITY", allow_negative_numbers = true, required_unless_present = "by")]
    to: Option<i32>,
    /// Raise the priority by this; a negative number lowers it
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, conflicts_with = "to")]
    by: Option<i32>,
    /// Show what would change, without changing it
    #[arg(long)]
    dry_run: bool,
    /// Reason, kept in the audit log
    #[arg(long, value_parser = reason)]
    reason: Option<String>,
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
    let ids = orders.select.ids(Action::RendersCancel, context).await?;
    let run = Run { ids: &ids, is_dry: orders.dry_run };
    order(run, context, async |tx, id| tx.renders().cancel(id, &actor, reason).await).await
}

pub(super) async fn approve(arguments: &Approve, context: &Context) -> Result<Exit> {
    let (actor, reason) = (context.actor(), arguments.reason.as_deref());
    let revision = of_one_render(arguments.revision, &arguments.ids)?;
    let run = Run { ids: &arguments.ids, is_dry: arguments.dry_run };
    order(run, context, async |tx, id| tx.renders().approve(id, revision, &actor, reason).await).await
}

pub(super) async fn reject(arguments: &Reject, context: &Context) -> Result<Exit> {
    let (actor, reason) = (context.actor(), arguments.reason.as_str());
    let revision = of_one_render(arguments.revision, &arguments.ids)?;
    let run = Run { ids: &arguments.ids, is_dry: arguments.dry_run };
    order(run, context, async |tx, id| tx.renders().reject(id, revision, &actor, reason).await).await
}

/// Each render has revisions of its own.
fn of_one_render(revision: Option<i64>, ids: &[RenderId]) -> Result<Option<i64>> {
    if revision.is_some() && ids.len() > 1 {
        return Err(Failure::new(Code::Usage, "--revision is that of one render", "name one render"));
    }
    Ok(revision)
}

pub(super) async fn retry(orders: &Orders, context: &Context) -> Result<Exit> {
    let (actor, reason) = (context.actor(), Some(orders.reason.as_str()));
    let ids = orders.select.ids(Action::RendersRetry, context).await?;
    let run = Run { ids: &ids, is_dry: orders.dry_run };
    order(run, context, async |tx, id| tx.renders().retry(id, &actor, reason).await).await
}

pub(super) async fn prioritize(arguments: &Prioritize, context: &Context) -> Result<Exit> {
    let (actor, reason) = (context.actor(), arguments.reason.as_deref());
    let ids = arguments.select.ids(Action::RendersPrioritize, context).await?;
    let change = PriorityChange::of(arguments.to, arguments.by).unwrap_or(PriorityChange::By(0));
    let run = Run { ids: &ids, is_dry: arguments.dry_run };
    order(run, context, async |tx, id| tx.renders().prioritize(id, change, &actor, reason).await).await
}

#[derive(Args, Debug)]
pub(crate) struct Correct {
    /// Id of the render
    #[arg(value_name = "RENDER", value_parser = render_id)]
    id: RenderId,
    /// JSON file with the whole corrected data (gfx_data); - for standard input
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Set a value, such as single_fields.title=Final or slots.1.fields.name=IVEY (the slot with the number 1)
    #[arg(long, value_name = "PATH=VALUE", value_parser = assignment)]
    set: Vec<(String, Value)>,
    /// Refuse if the render is not at this revision any more; `render show` has it
    #[arg(long, value_name = "NUMBER")]
    revision: Option<i64>,
    /// Check the correction without rendering
    #[arg(long)]
    dry_run: bool,
    /// Reason, kept in the audit log
    #[arg(long, value_parser = reason)]
    reason: Option<String>,
}

/// What is no JSON is a text. So is a number that would be shown in another form: `1.50` stays `1.50`.
fn assignment(text: &str) -> Result<(String, Value), String> {
    let (path, value) = text.split_once('=').ok_or("use the form PATH=VALUE")?;
    let is_same = |json: &Value| {
        let shown = json.to_string();
        !json.is_number() || shown == value
    };
    let json = serde_json::from_str(value).ok().filter(is_same);
    Ok((path.to_owned(), json.unwrap_or_else(|| Value::String(value.to_owned()))))
}

pub(super) async fn correct(arguments: Correct, context: &Context) -> Result<Exit> {
    let allow = Setup::allow_if_known(&context.settings().render)?;
    let (actor, reason) = (context.actor(), arguments.reason.as_deref());
    let data = arguments.data.as_deref().map(read_data).transpose()?;
    let correction = Correction { data, set: arguments.set, revision: arguments.revision };
    let run = Run { ids: &[arguments.id], is_dry: arguments.dry_run };
    order(run, context, async |tx, id| {
        let done = correction.apply(tx, id, allow.as_ref(), &actor, reason).await?;
        warn(&done.warnings, context);
        Ok::<_, Failure>(done.changed)
    })
    .await
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
async fn order<E>(
    run: Run<'_>,
    context: &Context,
    give: impl AsyncFn(&mut Tx, RenderId) -> Result<RenderChanged, E>,
) -> Result<Exit>
where
    Failure: From<E>,
{
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_shown_as_it_was_typed() {
        let value = |typed: &str| assignment(&format!("a={typed}")).unwrap().1;

        assert_eq!([value("300"), value("-1"), value("2.5")], [json!(300), json!(-1), json!(2.5)]);
        for text in ["1.50", "1e3", "007", "-0", "12345678901234567890123", "IVEY", ""] {
            assert_eq!(value(text), json!(text), "{text}");
        }
        assert_eq!([value("null"), value("true"), value("\"7\"")], [Value::Null, json!(true), json!("7")]);
        assert_eq!(value("{\"a\": 1}"), json!({ "a": 1 }));
    }
}
