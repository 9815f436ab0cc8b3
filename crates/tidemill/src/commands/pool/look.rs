//! What people see of pools: `pool list`, `show`, `holders`, `queue`, `events` and `verify`.

use super::{Of, change, find};
use crate::context::Context;
use crate::output::{Listing, print_fields};
use crate::report::Failure;
use serde_json::json;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::pool::estimate::Estimate;
use tidemill_domain::pool::pass::standing;
use tidemill_domain::pool::{Ledger, Reason, State, Ticket, TicketId};
use tidemill_domain::time::Timestamp;
use tidemill_store::pool::PoolRecord;

pub(super) async fn list(limit: u32, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let now = tx.now().await?;
    let pools = tx.pools().list(limit).await?;
    let pools: Vec<_> = pools.iter().map(|record| (record, record.settings.limit_at(now))).collect();
    let empty = "There are no pools: `tidemill pool create NAME --max UNITS` makes one.";
    context.list("tidemill.pool/v1", empty, &pools).columns(&[
        ("name", |(record, _)| json!(record.settings.name)),
        ("id", |(record, _)| json!(record.settings.external_id)),
        ("in_use", |(record, _)| json!(record.usage)),
        ("limit", |(_, limit)| json!(limit)),
        ("max", |(record, _)| json!(record.settings.max_units)),
        ("active", |(record, _)| json!(record.active)),
        ("waiting", |(record, _)| json!(record.waiting)),
        ("suspect", |(record, _)| json!(record.suspect)),
        ("over_by", |(record, limit)| json!(record.usage.saturating_sub(*limit))),
        ("state", |(record, limit)| json!(state(record, *limit))),
    ])
}

fn state(record: &PoolRecord, limit: u64) -> &'static str {
    match record {
        PoolRecord { settings, .. } if settings.paused.is_some() => "paused",
        PoolRecord { usage, .. } if *usage > limit => "over limit",
        _ => "open",
    }
}

pub(super) async fn show(pool: &str, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let now = tx.now().await?;
    let record = find(&mut tx, pool).await?;
    let ledger = tx.pools().ledger(&record.settings.name).await?;
    let limit = record.settings.limit_at(now);
    let pause = record.settings.paused.as_ref();
    let mut fields = change::fields(&record.settings);
    fields.extend([
        ("state", json!(state(&record, limit))),
        ("pause_reason", json!(pause.map(|pause| &pause.reason))),
        ("paused_by", json!(pause.map(|pause| &pause.by))),
        ("paused_at", json!(pause.map(|pause| pause.at.to_string()))),
        ("in_use", json!(record.usage)),
        ("limit", json!(limit)),
        ("available", json!(limit.saturating_sub(record.usage))),
        ("over_by", json!(record.usage.saturating_sub(limit))),
        ("active", json!(record.active)),
        ("waiting", json!(record.waiting)),
        ("suspect", json!(record.suspect)),
        ("first_in_queue", json!(ledger.and_then(|ledger| head(&ledger, now)))),
        ("changed_at", json!(record.changed_at.to_string())),
    ]);
    print_fields("tidemill.pool_detail/v1", &fields, context.output())
}

/// Who is first in the queue, and why it waits.
fn head(ledger: &Ledger, now: Timestamp) -> Option<String> {
    let (id, reason, _) = *standing(ledger, now).first()?;
    let ticket = ledger.ticket(id)?;
    Some(format!("{} for {} units: {}", ticket.holder, ticket.wanted(), reason.sentence()))
}

pub(super) async fn holders(of: &Of, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let record = find(&mut tx, &of.pool).await?;
    let states = [State::Granted, State::Running, State::Suspect];
    let held = tx.pools().tickets(&record.settings.name, &states, of.limit).await?;
    context.list("tidemill.pool_holder/v1", "Nobody has units of it.", &held).columns(&[
        ("lease", |found| json!(found.ticket.id)),
        ("holder", |found| json!(found.ticket.holder.to_string())),
        ("state", |found| json!(found.ticket.state.as_str())),
        ("class", |found| json!(found.ticket.class.as_str())),
        ("units", |found| json!(found.units)),
        ("parallel", |found| json!(found.ticket.granted)),
        ("asked", |found| json!(found.ticket.asked)),
        ("table", |found| json!(Some(&found.ticket.table).filter(|table| !table.is_empty()))),
        ("since", |found| json!(found.ticket.held_since().to_string())),
        ("expires_at", |found| json!(found.expires_at.map(|at| at.to_string()))),
    ])
}

pub(super) async fn queue(of: &Of, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let now = tx.now().await?;
    let name = find(&mut tx, &of.pool).await?.settings.name;
    let ledger = tx.pools().ledger(&name).await?.ok_or_else(|| super::unknown(&of.pool))?;
    let in_queue = (1_u32..).zip(standing(&ledger, now)).take(of.limit as usize);
    let waiters: Vec<Waiter<'_>> = in_queue
        .map(|(position, (id, reason, estimate))| {
            let ticket = ledger.ticket(id);
            Waiter { position, id, ticket, since: ticket.map(Ticket::queued_since), now, reason, estimate }
        })
        .collect();
    let empty = "Nobody waits for units of it.";
    context.list("tidemill.pool_queue/v1", empty, &waiters).columns(&[
        ("position", |one| json!(one.position)),
        ("lease", |one| json!(one.id)),
        ("holder", |one| json!(one.ticket.map(|ticket| ticket.holder.to_string()))),
        ("units", |one| json!(one.ticket.map(Ticket::wanted))),
        ("min", |one| json!(one.ticket.map(|ticket| ticket.weight.units(ticket.least)))),
        ("class", |one| json!(one.ticket.map(|ticket| ticket.class.as_str()))),
        ("since", |one| json!(one.since.map(|since| since.to_string()))),
        ("waited_seconds", |one| json!(one.since.map(|since| one.now.since(since).as_secs()))),
        ("eta_seconds", |one| json!(one.estimate.map(|estimate| estimate.p50.as_secs()))),
        ("eta_p90_seconds", |one| json!(one.estimate.map(|estimate| estimate.p90.as_secs()))),
        ("reason", |one| json!(one.reason.as_str())),
        ("why", |one| json!(one.reason.sentence())),
    ])
}

struct Waiter<'a> {
    position: u32,
    id: TicketId,
    ticket: Option<&'a Ticket>,
    since: Option<Timestamp>,
    now: Timestamp,
    reason: Reason,
    estimate: Option<Estimate>,
}

pub(super) async fn events(pool: Option<&str>, limit: u32, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let name = match pool {
        Some(pool) => Some(find(&mut tx, pool).await?.settings.name),
        None => None,
    };
    let stories = tx.pools().events(name.as_ref(), limit).await?;
    context.list("tidemill.pool_event/v1", "Nothing worth telling has happened.", &stories).columns(&[
        ("at", |story| json!(story.at.to_string())),
        ("pool", |story| json!(story.pool)),
        ("event", |story| json!(story.text)),
        ("holder", |story| json!(story.holder.as_ref().map(ToString::to_string))),
    ])
}

/// More pools than anybody has.
const POOLS_MAX: u32 = 100_000;

/// Follows the logs, and says whether anything does not fit.
pub(super) async fn verify(pool: Option<&str>, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let names = match pool {
        Some(pool) => vec![find(&mut tx, pool).await?.settings.name],
        None => tx.pools().list(POOLS_MAX).await?.into_iter().map(|record| record.settings.name).collect(),
    };
    let columns = &["pool", "decisions", "leases", "in_use", "peak", "violations"];
    let mut listing = Listing::new("tidemill.pool_audit/v1", columns, "There are no pools.");
    let (mut decisions, mut violations) = (0, Vec::new());
    for name in names {
        let Some(audited) = tx.pools().verify(&name).await? else { continue };
        listing.push(vec![
            json!(name),
            json!(audited.records),
            json!(audited.tickets),
            json!(audited.usage),
            json!(audited.peak),
            json!(audited.differences.len()),
        ]);
        decisions += audited.records;
        violations.extend(audited.differences.iter().map(|difference| format!("{name}: {difference}")));
    }
    listing.print(context.output())?;
    if violations.is_empty() {
        context.note(&format!("{decisions} decisions, 0 violations"));
        return Ok(Exit::Ok);
    }
    let what = format!("{decisions} decisions, {} violations", violations.len());
    let fix = "keep a copy of the database and report this; no other pool is affected";
    Err(Failure::new(Code::DamagedRow, what, fix).because(&violations.join("\n")))
}
