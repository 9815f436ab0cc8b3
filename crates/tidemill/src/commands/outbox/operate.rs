//! `outbox skip`, `replay`, `redirect` and `edit`. They change the database directly and need no server; every change
//! is recorded in the audit log.

use super::add::{PayloadArguments, header};
use super::failed_event::{Filter, OfTable, default_states};
use crate::commands::finish;
use crate::commands::job::reason;
use crate::commands::prelude::*;
use clap::ArgGroup;
use tidemill_api::failed_event::{ChangedEvents, RefusedEvent};
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::attached::TableName;
use tidemill_domain::outbox::event::Headers;
use tidemill_domain::outbox::failed_event::{Edit, FailedEventRefusal, Redirect, Verb};
use tidemill_store::Store;
use tidemill_store::outbox::attached::RowOrder;
use tidemill_store::outbox::attached::failed::Skipped;
use tidemill_store::outbox::failed_event::{Operation, Selection};

const BATCH: u32 = 500;

const PAGE: u32 = 10_000;

const SHOWN_MAX: usize = 20;

#[derive(Args, Debug)]
pub(crate) struct Many {
    /// Ids of events
    #[arg(value_name = "EVENT_ID", required_unless_present_any = ["matching", "all"])]
    ids: Vec<EventId>,
    /// Use all events that `outbox failed` lists with the same flags
    #[arg(long, conflicts_with = "ids")]
    matching: bool,
    /// Use all events that `outbox failed --all` lists with the same flags
    #[arg(long, conflicts_with_all = ["ids", "matching", "state"])]
    all: bool,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    of_table: OfTable,
    /// Show how many events would change and the first ids, without changing them
    #[arg(long)]
    dry_run: bool,
    /// Reason, kept in the audit log
    #[arg(long, value_parser = reason)]
    reason: String,
}

#[derive(Args, Debug)]
pub(crate) struct RedirectArguments {
    /// The new topic
    #[arg(long, value_name = "TOPIC", value_parser = |text: &str| Redirect::new(text))]
    pub(super) to: Redirect,
    #[command(flatten)]
    pub(super) events: Many,
}

/// An edit needs at least one of these flags.
const CHANGES: [&str; 5] = ["payload", "payload_base64", "tombstone", "headers", "no_headers"];

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("change").required(true).multiple(true).args(CHANGES))]
pub(crate) struct EditArguments {
    /// Ids of events
    #[arg(value_name = "EVENT_ID", required = true)]
    ids: Vec<EventId>,
    #[command(flatten)]
    payload: PayloadArguments,
    /// Set a header; repeat it for more. All other headers are removed
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Remove all headers
    #[arg(long, conflicts_with = "headers")]
    no_headers: bool,
    /// Reason, kept in the audit log
    #[arg(long, value_parser = reason)]
    reason: String,
}

pub(super) async fn edit(arguments: EditArguments, context: &Context) -> Result<Exit> {
    let payload = arguments.payload.read()?;
    let has_headers = arguments.no_headers || !arguments.headers.is_empty();
    let headers = has_headers.then(|| arguments.headers.into_iter().collect::<Headers>());
    let verb = Verb::Edit(Edit::new(payload, headers)?);
    let order = Order { verb: &verb, reason: &arguments.reason, is_dry_run: false };
    order.change_events(batches(&arguments.ids), context).await
}

pub(super) async fn many(arguments: Many, verb: &Verb, context: &Context) -> Result<Exit> {
    let Many { ids, all, filter, reason, dry_run, of_table, .. } = arguments;
    let order = Order { verb, reason: &reason, is_dry_run: dry_run };
    if let Some(name) = of_table.name(filter.is_given() || all)? {
        return order.change_rows(&name, ids, context).await;
    }
    if !ids.is_empty() && filter.is_given() {
        let fix = "pass ids, or --matching or --all with filters";
        return Err(Failure::new(Code::Usage, "ids and filters cannot be combined", fix));
    }
    let selections = match ids.is_empty() {
        true => {
            let filter = filter.with(default_states(all));
            vec![Selection::Matching { filter, after: EventId::ZERO }]
        }
        false => batches(&ids),
    };
    order.change_events(selections, context).await
}

fn batches(ids: &[EventId]) -> Vec<Selection> {
    ids.chunks(BATCH as usize).map(|ids| Selection::Selected(ids.to_vec())).collect()
}

struct Order<'a> {
    verb: &'a Verb,
    reason: &'a str,
    /// A dry run does the same, but rolls every transaction back.
    is_dry_run: bool,
}

impl Order<'_> {
    async fn change_events(&self, mut selections: Vec<Selection>, context: &Context) -> Result<Exit> {
        let (mut changed, mut refused) = (Vec::new(), Vec::new());
        let (store, actor) = (context.store().await?, context.actor());
        let operation = Operation { verb: self.verb, actor: &actor, reason: self.reason, limit: BATCH };
        selections.reverse();
        while let Some(selection) = selections.pop() {
            let mut tx = store.begin().await?;
            let operated = tx.outbox().operate(&selection, &operation).await?;
            finish(tx, self.is_dry_run).await?;
            if let (Selection::Matching { filter, .. }, Some(after)) = (selection, operated.next) {
                selections.push(Selection::Matching { filter, after });
            }
            let batch = ChangedEvents::from(operated);
            changed.extend(batch.changed);
            refused.extend(batch.refused);
        }
        self.report("event", &changed, &refused, context)
    }

    /// Changes these rows; without ids, all rows with status FAILED.
    async fn change_rows(&self, name: &TableName, ids: Vec<EventId>, context: &Context) -> Result<Exit> {
        let row_order = match self.verb {
            Verb::Skip => RowOrder::Skip,
            Verb::Replay => RowOrder::Replay,
            Verb::Edit(_) | Verb::Redirect(_) => {
                let what = "rows of an attached table can only be skipped or replayed";
                return Err(Failure::new(Code::Usage, what, "change the row itself, then replay it"));
            }
        };
        let store = context.store().await?;
        let ids = if ids.is_empty() { failed_rows(&store, name).await? } else { ids };
        let (mut changed, mut refused) = (Vec::new(), Vec::new());
        for ids in ids.chunks(BATCH as usize) {
            let mut tx = store.begin().await?;
            let table = tx.outbox().attached_table(name).await?;
            let ordered =
                tx.outbox().order_attached(&table, row_order, ids, &context.actor(), self.reason).await?;
            finish(tx, self.is_dry_run).await?;
            let batch = ChangedEvents::from(ordered);
            changed.extend(batch.changed);
            refused.extend(batch.refused);
        }
        self.report("row", &changed, &refused, context)
    }

    fn report(
        &self,
        noun: &str,
        changed: &[i64],
        refused: &[RefusedEvent],
        context: &Context,
    ) -> Result<Exit> {
        let text = |refusal: &RefusedEvent| format!("{noun} {}: {}", refusal.id, refusal.detail);
        if let ([refusal], []) = (refused, changed) {
            return Err(Failure::new(refusal.code, text(refusal), refusal.remedy.clone()));
        }
        if self.is_dry_run {
            context.note("dry run: nothing was changed");
        }
        let values = [
            ("action", json!(self.verb.as_str())),
            ("changed", json!(changed.len())),
            ("refused", json!(refused.len())),
            ("is_dry_run", json!(self.is_dry_run)),
            ("first", json!(changed.iter().take(SHOWN_MAX).collect::<Vec<_>>())),
        ];
        Listing::one("tidemill.outbox_change/v1", values).print(context.output())?;
        let Some(first) = refused.first() else { return Ok(Exit::Ok) };
        let what = format!("{} of {} {noun}s were refused", refused.len(), refused.len() + changed.len());
        let why = refused.iter().take(SHOWN_MAX).map(text).collect::<Vec<_>>().join("\n");
        Err(Failure::new(first.code, what, first.remedy.clone()).because(why))
    }
}

/// All rows with status FAILED that were not skipped.
async fn failed_rows(store: &Store, name: &TableName) -> Result<Vec<EventId>> {
    let mut ids: Vec<EventId> = Vec::new();
    loop {
        let mut tx = store.read().await?;
        let table = tx.outbox().attached_table(name).await?;
        let after = ids.last().copied().unwrap_or(EventId::new(i64::MIN));
        let page = tx.outbox().attached_failed(&table, after, PAGE, Skipped::Not).await?;
        ids.extend(page.iter().map(|record| record.id));
        if page.len() < PAGE as usize {
            return Ok(ids);
        }
    }
}

pub(super) fn failure(id: EventId, refusal: FailedEventRefusal) -> Failure {
    Failure::new(refusal.code(), format!("event {id}: {refusal}"), refusal.fix())
}
