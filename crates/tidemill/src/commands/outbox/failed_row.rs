//! `outbox failed`, `skip` and `replay` with `--table`: rows of an attached table that have FAILED.

use crate::context::Context;
use crate::output::Listing;
use crate::report::Failure;
use clap::Args;
use serde_json::json;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::attached::{RowRefusal, TableName};
use tidemill_domain::outbox::failed_event::Verb;
use tidemill_store::Store;
use tidemill_store::outbox::attached::RowOrder;
use tidemill_store::outbox::attached::failed::Skipped;

/// So many rows are changed in one transaction.
const BATCH: usize = 500;

/// So many rows are told one by one.
const TOLD_MAX: usize = 20;

/// The attached table whose rows are meant.
#[derive(Args, Clone, Debug)]
pub(crate) struct OfTable {
    /// Rows of this attached table that have FAILED, instead of events
    #[arg(long, value_name = "TABLE")]
    table: Option<String>,
    /// The schema of that table
    #[arg(long, requires = "table", default_value = "public")]
    schema: String,
}

impl OfTable {
    /// None where events are meant.
    pub(super) fn name(&self) -> Result<Option<TableName>, Failure> {
        Ok(self.table.as_deref().map(|table| TableName::new(&self.schema, table)).transpose()?)
    }
}

/// Flags that describe events do not describe rows.
pub(super) fn undescribed(is_described: bool) -> Result<(), Failure> {
    if is_described {
        let fix = "name rows by their ids, or say --matching for all that have FAILED";
        return Err(Failure::new(
            Code::Usage,
            "rows of an attached table cannot be chosen by these flags",
            fix,
        ));
    }
    Ok(())
}

pub(super) async fn list(
    name: &TableName,
    after: Option<EventId>,
    limit: u32,
    skipped: Skipped,
    context: &Context,
) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let table = tx.outbox().attached_table(name).await?;
    let records =
        tx.outbox().attached_failed(&table, after.unwrap_or(EventId::new(i64::MIN)), limit, skipped).await?;
    context.list("tidemill.outbox_failed/v1", "No row has FAILED.", &records).columns(&[
        ("event", |record| json!(record.id.get())),
        ("aggregate_id", |record| json!(record.aggregate_id)),
        ("is_skipped", |record| json!(record.is_skipped)),
        ("attempts", |record| json!(record.attempts)),
        ("updated_at", |record| json!(record.updated_at.map(|at| at.to_string()))),
        ("error", |record| json!(record.error)),
    ])?;
    if let Some(last) = records.last().filter(|_| records.len() == limit as usize) {
        context.note(&format!("there may be more: go on with --after {}", last.id));
    }
    Ok(Exit::Ok)
}

pub(super) struct Order<'a> {
    pub(super) verb: &'a Verb,
    pub(super) reason: &'a str,
    pub(super) is_dry: bool,
}

/// Gives an order about these rows, or about all that have FAILED when none is named.
pub(super) async fn order(
    name: &TableName,
    ids: Vec<EventId>,
    order: &Order<'_>,
    context: &Context,
) -> Result<Exit, Failure> {
    let what = match order.verb {
        Verb::Skip => RowOrder::Skip,
        Verb::Replay => RowOrder::Replay,
        Verb::Edit(_) | Verb::Redirect(_) => {
            let fix = "change the row itself, and replay it";
            return Err(Failure::new(
                Code::Usage,
                "rows of an attached table are only skipped or replayed",
                fix,
            ));
        }
    };
    let store = context.store().await?;
    let ids = if ids.is_empty() { all(&store, name).await? } else { ids };
    let (mut changed, mut refused) = (Vec::new(), Vec::new());
    for part in ids.chunks(BATCH) {
        let mut tx = store.begin().await?;
        let table = tx.outbox().attached_table(name).await?;
        let ordered = tx.outbox().order_attached(&table, what, part, &context.actor(), order.reason).await?;
        if order.is_dry {
            tx.rollback().await?
        } else {
            tx.commit().await?
        }
        changed.extend(ordered.changed);
        refused.extend(ordered.refused);
    }
    if order.is_dry {
        context.note("a dry run: nothing was changed");
    }
    let counts = (json!(changed.len()), json!(refused.len()));
    let listing = Listing::one("tidemill.outbox_row_change/v1").with([
        ("order", json!(what.as_str())),
        ("changed", counts.0),
        ("refused", counts.1),
        ("is_dry_run", json!(order.is_dry)),
    ]);
    listing.print(context.output())?;
    tell(&refused, changed.len())
}

fn tell(refused: &[(EventId, RowRefusal)], changed: usize) -> Result<Exit, Failure> {
    let Some((_, first)) = refused.first() else { return Ok(Exit::Ok) };
    let what = format!("{} of {} rows were refused", refused.len(), refused.len() + changed);
    let told = refused.iter().take(TOLD_MAX).map(|(id, refusal)| format!("row {id}: {refusal}"));
    let why = told.collect::<Vec<_>>().join("\n");
    Err(Failure::new(first.code(), what, first.fix()).because(&why))
}

/// All rows that have FAILED and were not skipped.
async fn all(store: &Store, name: &TableName) -> Result<Vec<EventId>, Failure> {
    let mut ids: Vec<EventId> = Vec::new();
    loop {
        let mut tx = store.read().await?;
        let table = tx.outbox().attached_table(name).await?;
        let after = ids.last().copied().unwrap_or(EventId::new(i64::MIN));
        let page = tx.outbox().attached_failed(&table, after, 10_000, Skipped::Not).await?;
        ids.extend(page.iter().map(|record| record.id));
        if page.len() < 10_000 {
            return Ok(ids);
        }
    }
}
