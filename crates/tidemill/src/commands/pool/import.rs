//! `pool import` and `pool export`: pools and tickets as items of the tables of an EMR Batch Agent.

use super::POOLS_MAX;
use super::dynamo::{Item, items, typed};
use super::limits::{self, Limits};
use super::registry::{self, Batch};
use crate::commands::prelude::*;
use crate::commands::read_input;
use crate::config::Output;
use clap::ValueEnum;
use serde_json::Value;
use std::fmt::Display;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;
use tidemill_api::pool::PoolRefusal;
use tidemill_domain::pool::command::Release;
use tidemill_domain::pool::{Answer, End, ReleaseBy, State};
use tidemill_domain::words::plural;
use tidemill_engine::pool::{AcquirePart, AcquireRequest, Pools};
use tidemill_store::{Store, Tx};

pub(super) async fn run(file: &Path, context: &Context) -> Result<Exit> {
    let text = read_input(file, usize::MAX).map_err(|error| refused(file, error))?;
    let items = items(&text).map_err(|why| refused(file, why))?;
    let (batches, limits): (Vec<_>, Vec<_>) =
        (1_usize..).zip(items).partition(|(_, item)| Batch::is_one(item));
    let mut limits = all(limits, file, Limits::read)?;
    let batches = all(batches, file, Batch::read)?;
    // One order of locks, so that two imports cannot deadlock.
    limits.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
    let columns = &["table", "item", "result"];
    let mut listing = Listing::new("tidemill.pool_import/v1", columns, "Nothing to import.");
    let store = context.store().await?;
    put(limits, file, &store, &mut listing, context).await?;
    let is_complete = take_over(batches, &store, &mut listing, context).await?;
    listing.print(context.output())?;
    Ok(if is_complete { Exit::Ok } else { Exit::NotAdmitted })
}

fn refused(file: &Path, why: impl Display) -> Failure {
    let what = format!("{} cannot be imported", file.display());
    let fix = "correct it; `tidemill explain TM1210` shows the accepted forms";
    Failure::new(Code::BadPoolImport, what, fix).because(why)
}

/// All items with their numbers, or the first error.
fn all<T>(
    items: Vec<(usize, Item)>,
    file: &Path,
    read: impl Fn(&Item) -> Result<T, String>,
) -> Result<Vec<(usize, T)>> {
    let one = |(place, item): (usize, Item)| {
        let why = |why| refused(file, format!("item {place}: {why}"));
        read(&item).map(|found| (place, found)).map_err(why)
    };
    items.into_iter().map(one).collect()
}

/// Creates or changes all pools, or none.
async fn put(
    limits: Vec<(usize, Limits)>,
    file: &Path,
    store: &Store,
    listing: &mut Listing,
    context: &Context,
) -> Result<()> {
    let mut tx = store.begin().await?;
    for (place, limits) in limits {
        let known = tx.pools().lock(&limits.name).await?.map(|record| record.settings);
        let new = |name, max_units| context.new_pool(name, max_units);
        let settings = limits
            .settings(known.clone(), new)
            .and_then(|settings| settings.check().map(|()| settings).map_err(|bad| bad.to_string()))
            .map_err(|why| refused(file, format!("item {place}: {why}")))?;
        let result = match known {
            None => {
                PoolRefusal::check(tx.pools().create(&settings, &context.actor()).await?, &settings.name)?;
                "created"
            }
            Some(known) if known == settings => "unchanged",
            Some(_) => {
                let defined = tx.pools().set(&settings, &context.actor(), Some("import")).await?;
                PoolRefusal::check(defined, &settings.name)?;
                "changed"
            }
        };
        listing.push(vec![json!("limits"), json!(settings.name), json!(result)]);
    }
    tx.commit().await?;
    Ok(())
}

/// Grants leases to running batches. Returns false if some of them do not fit.
async fn take_over(
    batches: Vec<(usize, Batch)>,
    store: &Store,
    listing: &mut Listing,
    context: &Context,
) -> Result<bool> {
    let mut tx = store.read().await?;
    let now = tx.now().await?;
    drop(tx);
    let pools = Pools::start(store.clone(), context.pool_options());
    let mut is_complete = true;
    for (_, batch) in batches {
        let name = batch.holder.to_string();
        let result = match batch.runs(now) {
            Err(why) => format!("skipped: {why}"),
            Ok(parallel) => {
                let taken = take(&pools, batch, parallel).await?;
                is_complete &= taken.is_ok();
                let holds = |units| format!("holds {}", plural(units, "unit", "units"));
                taken.map_or_else(|why| format!("no lease: {why}"), holds)
            }
        };
        listing.push(vec![json!("registry"), json!(name), json!(result)]);
    }
    Ok(is_complete)
}

/// The units that are granted to a batch, or why not. The batch already runs, so it gets all of them at once or none.
async fn take(pools: &Pools, batch: Batch, parallel: NonZeroU32) -> Result<Result<u64, String>> {
    let Some(pool) = pools.by_external_id(batch.external_id).await? else {
        return Ok(Err(format!("there is no pool with the external id {}", batch.external_id)));
    };
    let part = AcquirePart { least: Some(parallel), ..AcquirePart::new(pool.clone(), Some(parallel)) };
    let ask = AcquireRequest { table: batch.table, ..AcquireRequest::new(batch.holder.clone(), part) };
    let why = match pools.acquire(&ask, Duration::ZERO).await? {
        Answer::Admitted { parts, .. } => return Ok(Ok(parts.iter().map(|part| part.ticket.units()).sum())),
        Answer::Waits(waits) => waits.reason.sentence().to_owned(),
        Answer::Refused { reason, .. } => reason.sentence().to_owned(),
        other => format!("{other:?}"),
    };
    let release =
        Release { pool, by: ReleaseBy::Holder(batch.holder), epoch: None, end: End::GaveUp, call: None };
    pools.release(release).await?;
    Ok(Err(why))
}

/// More tickets of a pool than are kept.
const TICKETS_MAX: u32 = 1_000_000;

/// A table of the EMR Batch Agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Table {
    /// Pools
    Limits,
    /// Leases, and waiting and recently ended requests
    Registry,
}

#[derive(Args, Debug)]
pub(crate) struct Export {
    /// The table to export
    #[arg(long, default_value = "limits")]
    table: Table,
    /// Only leases, without waiting and ended requests; for the registry
    #[arg(long)]
    running: bool,
}

pub(super) async fn export(export: &Export, context: &Context) -> Result<Exit> {
    if export.running && export.table == Table::Limits {
        let fix = "add --table registry, or leave out --running";
        return Err(Failure::new(Code::Usage, "--running applies only to the registry", fix));
    }
    let states: &[State] = if export.running { &State::HELD } else { &State::ALL };
    let mut tx = context.read().await?;
    let items = match export.table {
        Table::Limits => {
            tx.pools().list(POOLS_MAX).await?.iter().map(|record| limits::item(&record.settings)).collect()
        }
        Table::Registry => tickets(&mut tx, states).await?,
    };
    let items: Vec<Value> = items.into_iter().map(typed).collect();
    let text = match context.output() {
        // Like the answer of a scan.
        Output::Json => format!("{:#}\n", json!({ "Count": items.len(), "Items": items })),
        // Like an export to files, one item per line.
        Output::Jsonl | Output::Table | Output::Csv => {
            items.iter().map(|item| format!("{}\n", json!({ "Item": item }))).collect()
        }
    };
    write_stdout(text)
}

async fn tickets(tx: &mut Tx, states: &[State]) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for pool in tx.pools().list(POOLS_MAX).await? {
        let settings = &pool.settings;
        let tickets = tx.pools().tickets(&settings.name, states, TICKETS_MAX).await?;
        items.extend(tickets.iter().map(|found| registry::item(found, settings)));
    }
    Ok(items)
}
