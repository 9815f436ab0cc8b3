//! `outbox skip`, `replay`, `redirect` and `edit`: what an operator may do with events that were not taken. They act on
//! the database alone, so that they need no server; each event that is changed leaves an audit entry.

use super::filter::{Breadth, Filter, event_id};
use crate::commands::job::reason;
use crate::context::Context;
use crate::output::Listing;
use crate::report::Failure;
use clap::Args;
use serde_json::json;
use std::io::Read;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::outbox::event::{BadEvent, Headers, PAYLOAD_BYTES_MAX};
use tidemill_domain::outbox::exception::{Edit, ExceptionRefusal, Redirect, Verb};
use tidemill_domain::outbox::{EventId, Payload};
use tidemill_store::outbox::exception::{Operation, Selection};

/// So many events are changed in one transaction.
const BATCH: u32 = 500;

/// So many refusals are told one by one.
const TOLD_MAX: usize = 20;

/// Which events, and why.
#[derive(Args, Debug)]
pub(crate) struct Many {
    /// These events
    #[arg(value_name = "EVENT_ID", value_parser = event_id, required_unless_present_any = ["matching", "all"])]
    ids: Vec<EventId>,
    /// All that `outbox dead` lists with the same flags
    #[arg(long, conflicts_with = "ids")]
    matching: bool,
    /// All that `outbox dead --all` lists with the same flags
    #[arg(long, conflicts_with_all = ["ids", "matching", "state"])]
    all: bool,
    #[command(flatten)]
    filter: Filter,
    /// Why, for those who wonder later
    #[arg(long, value_parser = reason)]
    reason: String,
}

/// Which events go where.
#[derive(Args, Debug)]
pub(crate) struct RedirectArguments {
    /// The topic to which they go
    #[arg(long, value_parser = redirection)]
    topic: Redirect,
    #[command(flatten)]
    events: Many,
}

/// What is published in place of which events.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
pub(crate) struct EditArguments {
    /// These events
    #[arg(value_name = "EVENT_ID", value_parser = event_id, required = true)]
    ids: Vec<EventId>,
    /// What they say: the content of this file, or of standard input when it is -
    #[arg(long, value_name = "FILE|-", group = "change", conflicts_with_all = ["payload_json", "tombstone"])]
    payload: Option<String>,
    /// The content of the file is not JSON
    #[arg(long, requires = "payload")]
    bytes: bool,
    /// What they say: this JSON
    #[arg(long, value_name = "JSON", group = "change", conflicts_with = "tombstone")]
    payload_json: Option<String>,
    /// They say nothing
    #[arg(long, group = "change")]
    tombstone: bool,
    /// A header; may be repeated. These replace all that the events have
    #[arg(long = "header", value_name = "NAME=VALUE", group = "change", value_parser = header)]
    headers: Vec<(String, String)>,
    /// They have no headers
    #[arg(long, group = "change", conflicts_with = "headers")]
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
    many(arguments.events, &Verb::Redirect(arguments.topic), context).await
}

pub(super) async fn edit(arguments: EditArguments, context: &Context) -> Result<Exit, Failure> {
    let payload = match (&arguments.payload, &arguments.payload_json) {
        (Some(file), _) => Some(read(file, arguments.bytes)?),
        (None, Some(text)) => Some(Payload::Json(text.clone())),
        (None, None) if arguments.tombstone => Some(Payload::Tombstone),
        (None, None) => None,
    };
    let has_headers = arguments.no_headers || !arguments.headers.is_empty();
    let headers = has_headers.then(|| arguments.headers.into_iter().collect::<Headers>());
    let edit = Edit::new(payload, headers).map_err(|bad| bad_event(&bad))?;
    order(named(&arguments.ids), &Verb::Edit(edit), &arguments.reason, context).await
}

async fn many(arguments: Many, verb: &Verb, context: &Context) -> Result<Exit, Failure> {
    let Many { ids, all, filter, reason, .. } = arguments;
    if !ids.is_empty() {
        if filter.is_given() {
            let fix = "name events, or say --matching or --all with the flags that limit them";
            return Err(Failure::new(Code::Usage, "events are named and described at once", fix));
        }
        return order(named(&ids), verb, &reason, context).await;
    }
    let filter = filter.with(if all { Breadth::Open } else { Breadth::Parked });
    order(vec![Selection::Matching { filter, after: EventId::ZERO }], verb, &reason, context).await
}

/// These events, as many at a time as one transaction takes.
fn named(ids: &[EventId]) -> Vec<Selection> {
    ids.chunks(BATCH as usize).map(|ids| Selection::Selected(ids.to_vec())).collect()
}

/// Gives an order, as many at a time as one transaction takes, and shows what it changed.
async fn order(
    mut parts: Vec<Selection>,
    verb: &Verb,
    reason: &str,
    context: &Context,
) -> Result<Exit, Failure> {
    let (mut changed, mut refused) = (0, Vec::new());
    let (store, actor) = (context.store().await?, context.actor());
    let operation = Operation { verb, actor: &actor, reason, limit: BATCH };
    parts.reverse();
    while let Some(part) = parts.pop() {
        let mut tx = store.begin().await?;
        let operated = tx.operate_outbox(&part, &operation).await?;
        tx.commit().await?;
        changed += operated.changed.len();
        refused.extend(operated.refused);
        if let (Selection::Matching { filter, .. }, Some(after)) = (part, operated.next) {
            parts.push(Selection::Matching { filter, after });
        }
    }
    store.close().await;
    let mut listing = Listing::new("tidemill.outbox_change/v1", &["order", "changed", "refused"], "Nothing.");
    listing.push(vec![json!(verb.as_str()), json!(changed), json!(refused.len())]);
    match refused.as_slice() {
        [] => {
            listing.print(context.output())?;
            Ok(Exit::Ok)
        }
        [(id, refusal)] if changed == 0 => Err(failure(*id, *refusal)),
        [(_, first), ..] => {
            listing.print(context.output())?;
            let what = format!("{} of {} events were refused", refused.len(), refused.len() + changed);
            let told = refused.iter().take(TOLD_MAX).map(|(id, refusal)| format!("event {id}: {refusal}"));
            let why = told.collect::<Vec<_>>().join("\n");
            Err(Failure::new(first.code(), what, first.fix()).because(&why))
        }
    }
}

/// Why an order was refused, as people see it.
pub(super) fn failure(id: EventId, refusal: ExceptionRefusal) -> Failure {
    Failure::new(refusal.code(), format!("event {id}: {refusal}"), refusal.fix())
}

pub(super) fn bad_event(bad: &BadEvent) -> Failure {
    Failure::new(Code::BadEvent, bad.to_string(), "correct it, and try again")
}

/// The content of a file, or of standard input; no more than a payload may have.
pub(super) fn read(file: &str, is_bytes: bool) -> Result<Payload, Failure> {
    let most = u64::try_from(PAYLOAD_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    let read = match file {
        "-" => std::io::stdin().lock().take(most).read_to_end(&mut bytes),
        _ => std::fs::File::open(file).and_then(|open| open.take(most).read_to_end(&mut bytes)),
    };
    read.map_err(|error| {
        let fix = "name a file that can be read, or - for standard input";
        Failure::new(Code::Usage, format!("the payload {file} cannot be read"), fix)
            .because(&error.to_string())
    })?;
    if is_bytes {
        return Ok(Payload::Bytes(bytes));
    }
    let text =
        String::from_utf8(bytes).map_err(|error| bad_event(&BadEvent::PayloadNotJson(error.to_string())))?;
    Ok(Payload::Json(text))
}

fn redirection(text: &str) -> Result<Redirect, String> {
    Redirect::new(text).map_err(|bad| bad.to_string())
}

pub(super) fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| "write NAME=VALUE".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}
