//! `pool import`: imports the tables of an EMR Batch Agent, limits and running batches.

use super::dynamo::{Item, items};
use super::limits::Limits;
use super::registry::Batch;
use crate::context::Context;
use crate::output::Listing;
use crate::report::{Failure, Result};
use serde_json::json;
use std::io::Read;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;
use tidemill_api::pool::PoolRefusal;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::pool::command::Release;
use tidemill_domain::pool::{Answer, End, ReleaseBy};
use tidemill_domain::words::plural;
use tidemill_engine::pool::{AcquirePart, AcquireRequest, Pools};
use tidemill_store::Store;

pub(super) async fn run(file: &Path, context: &Context) -> Result<Exit> {
    let items = items(&read(file)?).map_err(|why| refused(file, &why))?;
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

fn read(file: &Path) -> Result<Vec<u8>> {
    let read = if file == Path::new("-") {
        let mut text = Vec::new();
        std::io::stdin().lock().read_to_end(&mut text).map(|_| text)
    } else {
        std::fs::read(file)
    };
    read.map_err(|error| refused(file, &error.to_string()))
}

fn refused(file: &Path, why: &str) -> Failure {
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
        let why = |why| refused(file, &format!("item {place}: {why}"));
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
            .map_err(|why| refused(file, &format!("item {place}: {why}")))?;
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
