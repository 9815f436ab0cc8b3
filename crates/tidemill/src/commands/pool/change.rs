//! `pool create` and `pool set`: what is set about a pool.

use super::{done, find, look};
use crate::context::Context;
use crate::output::Listing;
use crate::report::Failure;
use clap::Args;
use serde_json::{Value, json};
use std::num::NonZeroU32;
use std::time::Duration;
use tidemill_domain::code::Exit;
use tidemill_domain::duration;
use tidemill_domain::pool::settings::Capacity;
use tidemill_domain::pool::{Policy, PoolName, Settings, WeightModel};
use tidemill_domain::schedule::Zone;
use tidemill_domain::time::Timestamp;
use tidemill_store::pool::PoolRecord;

/// Whatever can be said of a pool when it is made and changed later.
#[derive(Args, Debug, Default)]
pub(crate) struct Changes {
    /// Its number in the document's requests, `src_db_id`
    #[arg(long, value_name = "NUMBER")]
    id: Option<i64>,
    /// Of its units, how many percent may be in use
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    threshold: Option<u8>,
    /// What a request gets that does not say how much it wants
    #[arg(long, value_name = "UNITS")]
    default: Option<NonZeroU32>,
    /// The least that a downgrade gives
    #[arg(long, value_name = "UNITS")]
    min: Option<NonZeroU32>,
    /// How it is given out: halving or fifo
    #[arg(long)]
    policy: Option<Policy>,
    /// What is counted: hint_units, sessions, px or processes
    #[arg(long, value_name = "MODEL")]
    weight: Option<WeightModel>,
    /// Whether the database follows hints; where it does not, only fewer sessions help
    #[arg(long, value_name = "TRUTH")]
    hint_effective: Option<bool>,
    /// What a hint counts for that says PARALLEL without a number
    #[arg(long, value_name = "DEGREE")]
    default_degree: Option<NonZeroU32>,
    /// How many sets of parallel servers a session may use: 1 to 4
    #[arg(long, value_name = "COUNT")]
    server_sets: Option<u8>,
    /// What kind of database it is, such as oracle
    #[arg(long, value_name = "TYPE")]
    db_type: Option<String>,
    /// Another number of units at a time of day, such as "22:00-06:00=2000" or "SAT,SUN 00:00-24:00=2000"; may be repeated
    #[arg(long, value_name = "WINDOW=UNITS", value_parser = capacity)]
    capacity: Vec<Capacity>,
    /// The time zone of those times, such as Asia/Seoul
    #[arg(long)]
    zone: Option<Zone>,
    /// How long units are held at most, such as 24h
    #[arg(long, value_name = "DURATION", value_parser = period)]
    max_hold: Option<Duration>,
    /// How long a holder that sends heartbeats may be silent
    #[arg(long, value_name = "DURATION", value_parser = period)]
    lease: Option<Duration>,
    /// How long units are set aside for somebody who does not come for them
    #[arg(long, value_name = "DURATION", value_parser = period)]
    claim: Option<Duration>,
}

fn capacity(text: &str) -> Result<Capacity, String> {
    let (window, units) = text.rsplit_once('=').ok_or("use a window and units, such as 22:00-06:00=2000")?;
    let window = window.trim().parse().map_err(|bad| format!("{bad}"))?;
    let max_units = units.trim().parse().map_err(|_| format!("{units:?} is no number of units"))?;
    Ok(Capacity { window, max_units })
}

pub(in crate::commands) fn period(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|_| "use a duration such as 90s, 15m or 24h".to_owned())
}

impl Changes {
    fn apply(self, settings: &mut Settings) {
        fn put<T>(place: &mut T, given: Option<T>) {
            if let Some(value) = given {
                *place = value;
            }
        }
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

pub(super) async fn create(
    name: PoolName,
    max: u32,
    changes: Changes,
    context: &Context,
) -> Result<Exit, Failure> {
    let mut settings = context.new_pool(name, max);
    changes.apply(&mut settings);
    settings.check()?;
    let mut tx = context.begin().await?;
    done(tx.pools().create(&settings, &context.actor()).await?, &settings.name)?;
    tx.commit().await?;
    look::show(settings.name.as_str(), context).await
}

/// What `pool set` is told.
pub(super) struct Order {
    pub(super) max: Option<u32>,
    pub(super) no_capacity: bool,
    pub(super) changes: Changes,
    pub(super) reason: Option<String>,
}

pub(super) async fn set(pool: &str, order: Order, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.begin().await?;
    let name = find(&mut tx, pool).await?.settings.name;
    let before = tx.pools().lock(&name).await?.ok_or_else(|| super::unknown(pool))?;
    let mut settings = before.settings.clone();
    settings.max_units = order.max.unwrap_or(settings.max_units);
    if order.no_capacity {
        settings.capacity.clear();
    }
    order.changes.apply(&mut settings);
    settings.check()?;
    done(tx.pools().set(&settings, &context.actor(), order.reason.as_deref()).await?, &name)?;
    let now = tx.now().await?;
    tx.commit().await?;
    changed(&before.settings, &settings).print(context.output())?;
    if let Some(text) = cut(&before, &settings, now) {
        context.note(&text);
    }
    Ok(Exit::Ok)
}

/// What is other than it was.
fn changed(before: &Settings, after: &Settings) -> Listing {
    let columns = &["setting", "from", "to"];
    let mut listing = Listing::new("tidemill.pool_change/v1", columns, "Nothing changed.");
    for ((setting, from), (_, to)) in fields(before).into_iter().zip(fields(after)) {
        if from != to {
            listing.push(vec![json!(setting), from, to]);
        }
    }
    listing
}

/// What somebody should know who has set a limit below what is in use.
fn cut(before: &PoolRecord, after: &Settings, now: Timestamp) -> Option<String> {
    let (old, new) = (before.settings.limit_at(now), after.limit_at(now));
    let usage = before.usage;
    (new < old && usage > new).then(|| {
        format!("{old} -> {new}: {usage} in use; nothing is killed; no grants until in use is at most {new}",)
    })
}

/// Settings under the names that people read.
pub(super) fn fields(settings: &Settings) -> Vec<(&'static str, Value)> {
    let window = |capacity: &Capacity| format!("{}={}", capacity.window, capacity.max_units);
    vec![
        ("name", json!(settings.name)),
        ("id", json!(settings.external_id)),
        ("db_type", json!(settings.db_type)),
        ("max", json!(settings.max_units)),
        ("threshold_percent", json!(settings.threshold_percent)),
        ("default", json!(settings.default_units)),
        ("min", json!(settings.min_units)),
        ("policy", json!(settings.policy.as_str())),
        ("weight", json!(settings.weight.as_str())),
        ("hint_effective", json!(settings.hint_effective)),
        ("default_degree", json!(settings.default_degree)),
        ("server_sets", json!(settings.server_sets)),
        ("capacity", json!(settings.capacity.iter().map(window).collect::<Vec<_>>())),
        ("zone", json!(settings.zone.name())),
        ("lease", json!(duration::show(settings.lease_for))),
        ("max_hold", json!(duration::show(settings.max_hold))),
        ("claim", json!(duration::show(settings.claim_for))),
    ]
}
