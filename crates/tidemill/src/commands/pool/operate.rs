//! `pool create`, `set`, `pause`, `resume`, `breaker`, `delete` and `release`.

use super::{BreakerCommand, find, look};
use crate::commands::job::reason;
use crate::commands::prelude::*;
use std::num::NonZeroU32;
use std::time::Duration;
use tidemill_api::pool::{PoolRefusal, put, without_grants};
use tidemill_domain::duration;
use tidemill_domain::pool::breaker::Phase;
use tidemill_domain::pool::event_summary::{Change, changes};
use tidemill_domain::pool::settings::{Capacity, Pause};
use tidemill_domain::pool::{BreakerChange, End, Policy, PoolName, Settings, TicketId, WeightModel};
use tidemill_domain::schedule::Zone;
use tidemill_domain::words::plural;
use tidemill_store::Tx;
use tidemill_store::pool::PoolRecord;

pub(super) async fn pause(pool: &str, reason: &str, context: &Context) -> Result<Exit> {
    let mut tx = context.begin().await?;
    let pause = Pause { by: context.actor().name, reason: reason.to_owned(), at: tx.now().await? };
    let PoolRecord { settings, active, usage, waiting, .. } =
        set_pause(tx, pool, Some(pause), Some(reason), context).await?;
    context.done(&format!(
        "{} is paused; {} {}, {}",
        settings.name,
        plural(active, "lease keeps its", "leases keep their"),
        plural(usage, "unit", "units"),
        plural(waiting, "request waits", "requests wait"),
    ))
}

pub(super) async fn resume(pool: &str, reason: Option<&str>, context: &Context) -> Result<Exit> {
    let tx = context.begin().await?;
    let before = set_pause(tx, pool, None, reason, context).await?.settings;
    context.done(&match before.paused {
        Some(_) => format!("{} has resumed", before.name),
        None => format!("{} was not paused", before.name),
    })
}

/// Returns the pool as it was before.
async fn set_pause(
    mut tx: Tx,
    pool: &str,
    paused: Option<Pause>,
    reason: Option<&str>,
    context: &Context,
) -> Result<PoolRecord> {
    let name = find(&mut tx, pool).await?.settings.name;
    let before = tx.pools().lock(&name).await?.ok_or_else(|| PoolRefusal::not_found(pool))?;
    let mut settings = before.settings.clone();
    settings.paused = paused;
    settings.check().map_err(PoolRefusal::from)?;
    PoolRefusal::check(tx.pools().set(&settings, &context.actor(), reason).await?, &name)?;
    tx.commit().await?;
    Ok(before)
}

pub(super) async fn breaker(command: BreakerCommand, context: &Context) -> Result<Exit> {
    let (mut tx, actor) = (context.begin().await?, context.actor());
    let by = actor.name.clone();
    let (pool, change) = match command {
        BreakerCommand::Open(order) => (order.pool, BreakerChange::Open { by, reason: order.reason }),
        BreakerCommand::Close(order) => (order.pool, BreakerChange::Close { by, reason: order.reason }),
    };
    let before = find(&mut tx, &pool).await?;
    let name = before.settings.name;
    let text = match (&change, before.breaker.phase) {
        (BreakerChange::Close { .. }, Phase::Closed) => "was not open",
        (BreakerChange::Close { .. }, _) => "is closed; the whole limit applies again",
        _ => "is open; no request starts until you close it",
    };
    PoolRefusal::check(tx.pools().set_breaker(&name, change, &actor).await?, &name)?;
    tx.commit().await?;
    context.done(&format!("the breaker of {name} {text}"))
}

pub(super) async fn delete(pool: &str, reason: Option<&str>, context: &Context) -> Result<Exit> {
    let mut tx = context.begin().await?;
    let name = find(&mut tx, pool).await?.settings.name;
    PoolRefusal::check(tx.pools().remove(&name, &context.actor(), reason).await?, &name)?;
    tx.commit().await?;
    context.done(&format!("deleted the pool {name} and its history"))
}

pub(super) async fn release(
    lease: TicketId,
    reason: &str,
    reported: Option<End>,
    context: &Context,
) -> Result<Exit> {
    let mut tx = context.begin().await?;
    let record = tx.pools().ticket(lease).await?;
    if let (Some(End::Refused { reason }), Some(record)) = (reported, &record)
        && record.ticket.state.counts()
    {
        tx.pools().set_breaker(&record.pool, BreakerChange::Refused { reason }, &context.actor()).await?;
    }
    let released = tx.pools().release_ticket(lease, &context.actor(), reason).await?;
    tx.commit().await?;
    let Some((pool, released)) = released else {
        let what = format!("the lease or request {lease} does not exist or has ended");
        let fix = "see `tidemill pool holders POOL` and `tidemill pool queue POOL`";
        let ending = record.and_then(|record| {
            let (holder, at, ending) = (record.ticket.holder, record.ended_at?, record.ending?);
            Some(format!("that of {holder} ended at {at}: {ending}"))
        });
        return Err(Failure::new(Code::PoolLeaseGone, what, fix).because(ending.unwrap_or_default()));
    };
    let holder = record.map_or_else(String::new, |record| format!(" of {}", record.ticket.holder));
    let level = released.level;
    context.done(&match released.released {
        true => format!(
            "released {}{holder} in {pool}; {} of {} are in use",
            plural(released.units, "unit", "units"),
            level.usage,
            level.limit
        ),
        false => format!("the request{holder} left the queue of {pool}"),
    })
}

/// Settings of `pool create` and `pool set`.
#[derive(Args, Debug, Default)]
pub(crate) struct Changes {
    /// External id of the pool: src_db_id in the EMR Batch Agent API
    #[arg(long, value_name = "NUMBER")]
    id: Option<i64>,
    /// Percentage of the capacity that may be in use, 1 to 100 [new pools: pools.default_threshold_percent]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    threshold: Option<u8>,
    /// Units granted to a request that does not say how many it needs [new pools: pools.default_units]
    #[arg(long, value_name = "UNITS")]
    default: Option<NonZeroU32>,
    /// Minimum number of units after a downgrade [new pools: pools.min_units]
    #[arg(long, value_name = "UNITS")]
    min: Option<NonZeroU32>,
    /// Decision policy: adaptive, halving or fifo [new pools: adaptive]
    #[arg(long)]
    policy: Option<Policy>,
    /// What counts as a unit: hint_units, sessions, px or processes [new pools: hint_units]
    #[arg(long, value_name = "MODEL")]
    weight: Option<WeightModel>,
    /// Whether the database follows hints; if not, grants limit the number of sessions [new pools: true]
    #[arg(long, value_name = "TRUE|FALSE")]
    hint_effective: Option<bool>,
    /// Degree of a PARALLEL hint without a number [new pools: 16]
    #[arg(long, value_name = "DEGREE")]
    default_degree: Option<NonZeroU32>,
    /// Sets of parallel servers that a session may use: 1 to 4 [new pools: 2]
    #[arg(long, value_name = "COUNT")]
    server_sets: Option<u8>,
    /// Type of the database [new pools: oracle]
    #[arg(long, value_name = "TYPE")]
    db_type: Option<String>,
    /// A different capacity at a time of day, such as "22:00-06:00=2000" or "SAT,SUN 00:00-24:00=2000"; may be repeated
    #[arg(long, value_name = "WINDOW=UNITS", value_parser = capacity)]
    capacity: Vec<Capacity>,
    /// Time zone of the capacity windows, such as Asia/Seoul [new pools: UTC]
    #[arg(long)]
    zone: Option<Zone>,
    /// Maximum time that units are held, such as 12h [new pools: 1d]
    #[arg(long, value_name = "DURATION", value_parser = period)]
    max_hold: Option<Duration>,
    /// Heartbeat timeout [new pools: 15m]
    #[arg(long, value_name = "DURATION", value_parser = period)]
    lease: Option<Duration>,
    /// Time within which a holder must claim granted units [new pools: 2m]
    #[arg(long, value_name = "DURATION", value_parser = period)]
    claim: Option<Duration>,
}

fn capacity(text: &str) -> Result<Capacity, String> {
    let (window, units) = text.rsplit_once('=').ok_or("use a window and units, such as 22:00-06:00=2000")?;
    let window = window.trim().parse().map_err(|bad| format!("{bad}"))?;
    let max_units = units.trim().parse().map_err(|_| format!("{units:?} is not a number of units"))?;
    Ok(Capacity { window, max_units })
}

pub(in crate::commands) fn period(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|_| "use a duration such as 90s, 15m or 24h".to_owned())
}

impl Changes {
    fn apply(self, settings: &mut Settings) {
        settings.external_id = self.id.or(settings.external_id);
        put(&mut settings.threshold_percent, self.threshold);
        put(&mut settings.default_units, self.default);
        put(&mut settings.min_units, self.min);
        put(&mut settings.policy, self.policy);
        put(&mut settings.weight, self.weight);
        put(&mut settings.hint_effective, self.hint_effective);
        put(&mut settings.default_degree, self.default_degree);
        put(&mut settings.server_sets, self.server_sets);
        put(&mut settings.db_type, self.db_type);
        put(&mut settings.capacity, Some(self.capacity).filter(|windows| !windows.is_empty()));
        put(&mut settings.zone, self.zone);
        put(&mut settings.max_hold, self.max_hold);
        put(&mut settings.lease_for, self.lease);
        put(&mut settings.claim_for, self.claim);
    }
}

pub(super) async fn create(name: PoolName, max: u32, changes: Changes, context: &Context) -> Result<Exit> {
    let mut settings = context.new_pool(name, max);
    changes.apply(&mut settings);
    settings.check().map_err(PoolRefusal::from)?;
    let mut tx = context.begin().await?;
    PoolRefusal::check(tx.pools().create(&settings, &context.actor()).await?, &settings.name)?;
    tx.commit().await?;
    look::show(settings.name.as_str(), context).await
}

#[derive(Args, Debug)]
pub(crate) struct Set {
    /// Name or external id of the pool
    pool: String,
    /// Capacity in units; if you lower it, holders keep their units
    #[arg(long, value_name = "UNITS")]
    max: Option<u32>,
    /// Remove all capacity windows
    #[arg(long, conflicts_with = "capacity")]
    no_capacity: bool,
    #[command(flatten)]
    changes: Changes,
    /// Reason, kept in the audit log
    #[arg(long, value_parser = reason)]
    reason: Option<String>,
}

pub(super) async fn set(set: Set, context: &Context) -> Result<Exit> {
    let mut tx = context.begin().await?;
    let name = find(&mut tx, &set.pool).await?.settings.name;
    let before = tx.pools().lock(&name).await?.ok_or_else(|| PoolRefusal::not_found(&set.pool))?;
    let mut settings = before.settings.clone();
    put(&mut settings.max_units, set.max);
    if set.no_capacity {
        settings.capacity.clear();
    }
    set.changes.apply(&mut settings);
    settings.check().map_err(PoolRefusal::from)?;
    PoolRefusal::check(tx.pools().set(&settings, &context.actor(), set.reason.as_deref()).await?, &name)?;
    let now = tx.now().await?;
    tx.commit().await?;
    let mut listing = Listing::new("tidemill.pool_change/v1", &["setting", "from", "to"], "Nothing changed.");
    for Change { name, from, to } in changes(&before.settings, &settings) {
        listing.push(vec![json!(name), from, to]);
    }
    listing.print(context.output())?;
    let (old, new) = (before.settings.limit_at(now), settings.limit_at(now));
    if let Some(text) = without_grants(before.usage, new).filter(|_| new < old) {
        context.note(&format!("{old} -> {new}: {text}"));
    }
    Ok(Exit::Ok)
}
