//! `outbox skip`, `replay`, `redirect` and `edit`: what an operator may do with events that were not taken. They act on
//! the database alone, so that they need no server; each event that is changed leaves an audit entry.

use super::add::{PayloadArguments, bad_event, header};
use super::failed_row::{self, OfTable};
use super::filter::{Breadth, Filter, event_id};
use crate::commands::job::reason;
use crate::context::Context;
use crate::output::Listing;
use crate::report::Failure;
use clap::{ArgGroup, Args};
use serde_json::json;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::event::Headers;
use tidemill_domain::outbox::failed_event::{Edit, FailedEventRefusal, Redirect, Verb};
use tidemill_store::outbox::failed_event::{Operation, Selection};

/// So many events are changed in one transaction.
const BATCH: u32 = 500;

/// So many events are told one by one.
const TOLD_MAX: usize = 20;

/// Which events, and why.
#[derive(Args, Debug)]
pub(crate) struct Many {
    /// These events
    #[arg(value_name = "EVENT_ID", value_parser = event_id, required_unless_present_any = ["matching", "all"])]
    ids: Vec<EventId>,
    /// All that `outbox failed` lists with the same flags
    #[arg(long, conflicts_with = "ids")]
    matching: bool,
    /// All that `outbox failed --all` lists with the same flags
    #[arg(long, conflicts_with_all = ["ids", "matching", "state"])]
    all: bool,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    of_table: OfTable,
    /// Change nothing, and tell how many events would be changed, and the first of them
    #[arg(long)]
    dry_run: bool,
    /// Why, for those who wonder later
    #[arg(long, value_parser = reason)]
    reason: String,
}

/// Which events go where.
#[derive(Args, Debug)]
pub(crate) struct RedirectArguments {
    /// The topic to which they go
    #[arg(long, value_name = "TOPIC", value_parser = redirection)]
    to: Redirect,
    #[command(flatten)]
    events: Many,
}

/// What an edit can change; at least one of them has to be said.
const CHANGES: [&str; 5] = ["payload", "payload_base64", "tombstone", "headers", "no_headers"];

/// What is published in place of which events.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("change").required(true).multiple(true).args(CHANGES))]
pub(crate) struct EditArguments {
    /// These events
    #[arg(value_name = "EVENT_ID", value_parser = event_id, required = true)]
    ids: Vec<EventId>,
    #[command(flatten)]
    payload: PayloadArguments,
    /// A header; may be repeated. These replace all that the events have
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// They have no headers
    #[arg(long, conflicts_with = "headers")]
    no_headers: bool,
    /// Why, for those who wonder later
    #[arg(long, value_parser = reason)]
    reason: String,
}

pub(super) async fn skip(arguments: Many, context: &Context) -> Result<Exit, Failure> {
    many(arguments, &Verb::Skip, context).await
}

pub(super) async fn replay(arguments: Many, context: &Context) -> Result<Exit, Failure> {
    many(arguments, &Verb::Replay, context).await
}

pub(super) async fn redirect(arguments: RedirectArguments, context: &Context) -> Result<Exit, Failure> {
    many(arguments.events, &Verb::Redirect(arguments.to), context).await
}

pub(super) async fn edit(arguments: EditArguments, context: &Context) -> Result<Exit, Failure> {
    let payload = arguments.payload.read()?;
    let has_headers = arguments.no_headers || !arguments.headers.is_empty();
    let headers = has_headers.then(|| arguments.headers.into_iter().collect::<Headers>());
    let edit = Edit::new(payload, headers).map_err(|bad| bad_event(&bad))?;
    let (verb, reason) = (&Verb::Edit(edit), &arguments.reason);
    order(named(&arguments.ids), &Order { verb, reason, run: Run::Real }, context).await
}

async fn many(arguments: Many, verb: &Verb, context: &Context) -> Result<Exit, Failure> {
    let Many { ids, all, filter, reason, dry_run, of_table, .. } = arguments;
    if let Some(name) = of_table.name()? {
        failed_row::undescribed(filter.is_given() || all)?;
        let order = failed_row::Order { verb, reason: &reason, is_dry: dry_run };
        return failed_row::order(&name, ids, &order, context).await;
    }
    let given = Order { verb, reason: &reason, run: if dry_run { Run::Dry } else { Run::Real } };
    if !ids.is_empty() {
        if filter.is_given() {
            let fix = "name events, or say --matching or --all with the flags that limit them";
            return Err(Failure::new(Code::Usage, "events are named and described at once", fix));
        }
        return order(named(&ids), &given, context).await;
    }
    let filter = filter.with(if all { Breadth::Open } else { Breadth::Parked });
    order(vec![Selection::Matching { filter, after: EventId::ZERO }], &given, context).await
}

/// These events, as many at a time as one transaction takes.
fn named(ids: &[EventId]) -> Vec<Selection> {
    ids.chunks(BATCH as usize).map(|ids| Selection::Selected(ids.to_vec())).collect()
}

struct Order<'a> {
    verb: &'a Verb,
    reason: &'a str,
    run: Run,
}

/// Whether an order is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    /// It is.
    Real,
    /// Somebody wants to know what it would do.
    Dry,
}

/// Gives an order, as many at a time as one transaction takes, and shows what it changed. A dry run is the same, but that
/// nothing of it is committed.
async fn order(mut parts: Vec<Selection>, order: &Order<'_>, context: &Context) -> Result<Exit, Failure> {
    let (mut changed, mut refused) = (Vec::new(), Vec::new());
    let (store, actor) = (context.store().await?, context.actor());
    let operation = Operation { verb: order.verb, actor: &actor, reason: order.reason, limit: BATCH };
    parts.reverse();
    while let Some(part) = parts.pop() {
        let mut tx = store.begin().await?;
        let operated = tx.outbox().operate(&part, &operation).await?;
        match order.run {
            Run::Real => tx.commit().await?,
            Run::Dry => tx.rollback().await?,
        }
        changed.extend(operated.changed);
        refused.extend(operated.refused);
        if let (Selection::Matching { filter, .. }, Some(after)) = (part, operated.next) {
            parts.push(Selection::Matching { filter, after });
        }
    }
    tell(order, &changed, &refused, context)
}

fn tell(
    order: &Order<'_>,
    changed: &[EventId],
    refused: &[(EventId, FailedEventRefusal)],
    context: &Context,
) -> Result<Exit, Failure> {
    if let ([(id, refusal)], []) = (refused, changed) {
        return Err(failure(*id, *refusal));
    }
    let word = json!(order.verb.as_str());
    let (changes, refusals) = (json!(changed.len()), json!(refused.len()));
    let listing = match order.run {
        Run::Real => Listing::one("tidemill.outbox_change/v1").with([
            ("order", word),
            ("changed", changes),
            ("refused", refusals),
        ]),
        Run::Dry => {
            context.note("a dry run: nothing was changed");
            let first: Vec<i64> = changed.iter().take(TOLD_MAX).map(|id| id.get()).collect();
            Listing::one("tidemill.outbox_dry_run/v1").with([
                ("order", word),
                ("would_change", changes),
                ("would_refuse", refusals),
                ("first", json!(first)),
            ])
        }
    };
    listing.print(context.output())?;
    let Some((_, first)) = refused.first() else { return Ok(Exit::Ok) };
    let what = format!("{} of {} events were refused", refused.len(), refused.len() + changed.len());
    let told = refused.iter().take(TOLD_MAX).map(|(id, refusal)| format!("event {id}: {refusal}"));
    let why = told.collect::<Vec<_>>().join("\n");
    Err(Failure::new(first.code(), what, first.fix()).because(&why))
}

pub(super) fn failure(id: EventId, refusal: FailedEventRefusal) -> Failure {
    Failure::new(refusal.code(), format!("event {id}: {refusal}"), refusal.fix())
}

fn redirection(text: &str) -> Result<Redirect, String> {
    Redirect::new(text).map_err(|bad| bad.to_string())
}
