//! `pool list`, `show`, `holders`, `queue`, `demand`, `events` and `verify`.

use super::{Of, POOLS_MAX, find};
use crate::commands::prelude::*;
use crate::config::Output;
use tidemill_api::pool::{Pool, PoolDemand, PoolEvent, PoolLease, PoolPlace, PoolRefusal};
use tidemill_domain::pool::{PoolName, State};
use tidemill_domain::words::plural;
use tidemill_store::Tx;

pub(super) async fn list(limit: u32, context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let now = tx.now().await?;
    let pools = tx.pools().list(limit + 1).await?;
    let records = pools.iter().map(|record| (record, now));
    let empty = "No pools. Create one with `tidemill pool create NAME --max UNITS`.";
    let columns = "name external_id? in_use limit max_units? holders? waiting suspect? over_by? state";
    context.print_page::<Pool, _>("tidemill.pool/v1", empty, records, columns, limit, "")
}

pub(super) async fn show(pool: &str, context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let now = tx.now().await?;
    let record = find(&mut tx, pool).await?;
    let ledger = tx.pools().ledger(&record.settings.name).await?;
    let first = ledger.and_then(|ledger| PoolPlace::queue(&ledger, now, 1).pop());
    let first_in_queue = first.map(|place| {
        format!("{} for {}: {}", place.holder_name, plural(place.units, "unit", "units"), place.message)
    });
    let score = tx.pools().estimate_accuracy(&record.settings.name).await?;
    let mut detail = json!(Pool { estimates: Some((&score).into()), ..Pool::from((&record, now)) });
    detail["first_in_queue"] = json!(first_in_queue);
    if context.output() == Output::Table {
        detail["estimates"] = json!(score.to_string());
        let audit =
            record.audit.map(|audit| format!("{}, {}", verdict(audit.decisions, audit.violations), audit.at));
        detail["audit"] = json!(audit);
    }
    context.print_one("tidemill.pool_detail/v1", &detail)
}

pub(super) async fn holders(of: &Of, context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let name = find(&mut tx, &of.pool).await?.settings.name;
    let leases = tx.pools().tickets(&name, &State::HELD, of.limit + 1).await?;
    let columns = "id holder_name state class? units parallel? asked? table? granted_at expires_at?";
    context.print_page::<PoolLease, _>("tidemill.pool_lease/v1", "No leases.", &leases, columns, of.limit, "")
}

pub(super) async fn queue(of: &Of, context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let now = tx.now().await?;
    let name = find(&mut tx, &of.pool).await?.settings.name;
    let ledger = tx.pools().ledger(&name).await?.ok_or_else(|| PoolRefusal::not_found(&of.pool))?;
    let places = PoolPlace::queue(&ledger, now, of.limit as usize + 1);
    let columns =
        "position id holder_name units min_units? class? waited_seconds eta_p50 eta_p90? overtaken? reason";
    let (schema, empty) = ("tidemill.pool_queue/v1", "No waiting requests.");
    context.print_page::<PoolPlace, _>(schema, empty, places, columns, of.limit, "")
}

pub(super) async fn demand(pool: Option<&str>, context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let mut demands = Vec::new();
    for name in names(&mut tx, pool).await? {
        let demand = tx.pools().demand(&name).await?;
        demands.extend(demand.map(|demand| (name, demand)));
    }
    let records = demands.iter().map(|(name, demand)| (name, *demand));
    let columns = "pool now in_5_min.p50 in_5_min.p90 in_15_min.p50 in_15_min.p90";
    context.print_list::<PoolDemand, _>("tidemill.pool_demand/v1", "No pools.", records, columns)
}

/// One pool or all of them, by name.
async fn names(tx: &mut Tx, pool: Option<&str>) -> Result<Vec<PoolName>> {
    Ok(match pool {
        Some(pool) => vec![find(tx, pool).await?.settings.name],
        None => tx.pools().list(POOLS_MAX).await?.into_iter().map(|record| record.settings.name).collect(),
    })
}

pub(super) async fn events(pool: Option<&str>, limit: u32, context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let name = match pool {
        Some(pool) => Some(find(&mut tx, pool).await?.settings.name),
        None => None,
    };
    let events = tx.pools().events(name.as_ref(), limit + 1).await?;
    let (schema, empty) = ("tidemill.pool_event/v1", "No recent decisions.");
    context.print_page::<PoolEvent, _>(schema, empty, &events, "at pool? message holder_name?", limit, "")
}

/// Replays the logs, and fails if a pool differs from its log.
pub(super) async fn verify(pool: Option<&str>, context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let names = names(&mut tx, pool).await?;
    let columns = &["pool", "decisions", "leases", "in_use", "peak", "violations"];
    let mut listing = Listing::new("tidemill.pool_audit/v1", columns, "No pools.");
    let (mut decisions, mut violations, mut found) = (0, 0, Vec::new());
    for name in names {
        let Some(audited) = tx.pools().verify(&name).await? else { continue };
        listing.push(vec![
            json!(name),
            json!(audited.records),
            json!(audited.tickets),
            json!(audited.usage),
            json!(audited.peak),
            json!(audited.violations),
        ]);
        decisions += audited.records;
        violations += audited.violations;
        found.extend(audited.differences.iter().map(|difference| format!("{name}: {difference}")));
        let unlisted = audited.violations.saturating_sub(audited.differences.len() as u64);
        found.extend((unlisted > 0).then(|| format!("{name}: and {unlisted} more")));
    }
    listing.print(context.output())?;
    let what = verdict(decisions, violations);
    if violations == 0 {
        context.note(&what);
        return Ok(Exit::Ok);
    }
    let fix = "keep a copy of the database and report this; no other pool is affected";
    Err(Failure::new(Code::DamagedRow, what, fix).because(found.join("\n")))
}

fn verdict(decisions: u64, violations: u64) -> String {
    let decisions = plural(decisions, "decision", "decisions");
    format!("{decisions}, {}", plural(violations, "violation", "violations"))
}
