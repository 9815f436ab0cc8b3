//! What people see of pools: `pool list`, `show`, `holders`, `queue` and `events`.

use super::{Of, change, find};
use crate::context::Context;
use crate::output::{Listing, print_fields};
use crate::report::Failure;
use serde_json::{Value, json};
use tidemill_domain::code::Exit;
use tidemill_domain::pool::estimate::Estimate;
use tidemill_domain::pool::pass::standing;
use tidemill_domain::pool::{Ledger, Reason, State, Ticket, TicketId};
use tidemill_domain::time::Timestamp;
use tidemill_store::pool::PoolRecord;

pub(super) async fn list(limit: u32, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let now = tx.now().await?;
    let pools = tx.pools().list(limit).await?;
    let columns =
        &["name", "id", "in_use", "limit", "max", "active", "waiting", "suspect", "over_by", "state"];
    let empty = "There are no pools: `tidemill pool create NAME --max UNITS` makes one.";
    let mut listing = Listing::new("tidemill.pool/v1", columns, empty);
    for record in &pools {
        let limit = record.settings.limit_at(now);
        listing.push(vec![
            json!(record.settings.name),
            json!(record.settings.external_id),
            json!(record.usage),
            json!(limit),
            json!(record.settings.max_units),
            json!(record.active),
            json!(record.waiting),
            json!(record.suspect),
            json!(record.usage.saturating_sub(limit)),
            json!(state(record, limit)),
        ]);
    }
    listing.print(context.output())
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
    let listing = Listing::of("tidemill.pool_holder/v1", "Nobody has units of it.", &held).columns(&[
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
    ]);
    listing.print(context.output())
}

pub(super) async fn queue(of: &Of, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let now = tx.now().await?;
    let name = find(&mut tx, &of.pool).await?.settings.name;
    let ledger = tx.pools().ledger(&name).await?.ok_or_else(|| super::unknown(&of.pool))?;
    let columns = &[
        "position",
        "lease",
        "holder",
        "units",
        "min",
        "class",
        "since",
        "waited_seconds",
        "eta_seconds",
        "eta_p90_seconds",
        "reason",
        "why",
    ];
    let mut listing = Listing::new("tidemill.pool_queue/v1", columns, "Nobody waits for units of it.");
    let standing = standing(&ledger, now);
    for (position, place) in (1_u32..).zip(standing.into_iter().take(of.limit as usize)) {
        listing.push(waiter(&ledger, position, place, now));
    }
    listing.print(context.output())
}

fn waiter(
    ledger: &Ledger,
    position: u32,
    (id, reason, estimate): (TicketId, Reason, Option<Estimate>),
    now: Timestamp,
) -> Vec<Value> {
    let ticket = ledger.ticket(id);
    let since = ticket.map(Ticket::queued_since);
    vec![
        json!(position),
        json!(id),
        json!(ticket.map(|ticket| ticket.holder.to_string())),
        json!(ticket.map(Ticket::wanted)),
        json!(ticket.map(|ticket| ticket.weight.units(ticket.least))),
        json!(ticket.map(|ticket| ticket.class.as_str())),
        json!(since.map(|since| since.to_string())),
        json!(since.map(|since| now.since(since).as_secs())),
        json!(estimate.map(|estimate| estimate.p50.as_secs())),
        json!(estimate.map(|estimate| estimate.p90.as_secs())),
        json!(reason.as_str()),
        json!(reason.sentence()),
    ]
}

pub(super) async fn events(pool: Option<&str>, limit: u32, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let name = match pool {
        Some(pool) => Some(find(&mut tx, pool).await?.settings.name),
        None => None,
    };
    let stories = tx.pools().events(name.as_ref(), limit).await?;
    let listing = Listing::of("tidemill.pool_event/v1", "Nothing worth telling has happened.", &stories)
        .columns(&[
            ("at", |story| json!(story.at.to_string())),
            ("pool", |story| json!(story.pool)),
            ("event", |story| json!(story.text)),
            ("holder", |story| json!(story.holder.as_ref().map(ToString::to_string))),
        ]);
    listing.print(context.output())
}
