//! Pools, requests for their units, leases and queues.

use crate::views;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::duration;
use tidemill_domain::pool::command::{Admitted, Level, Released, Waits};
use tidemill_domain::pool::estimate::Estimate;
use tidemill_domain::pool::pass::standing;
use tidemill_domain::pool::settings::Capacity;
use tidemill_domain::pool::settings::{BadSettings, Pause};
use tidemill_domain::pool::{Holder, Ledger, PoolName, Reason, Settings, Ticket};
use tidemill_domain::time::Timestamp;
use tidemill_store::pool::{Defined, PoolRecord, PoolStory, TicketRecord};
use utoipa::{IntoParams, ToSchema};

views! {
    /// A pool.
    pub struct Pool from (record, now): (&PoolRecord, Timestamp) {
        name: String = record.settings.name.to_string(),
        /// `src_db_id` in the EMR Batch Agent API.
        external_id: Option<i64> = record.settings.external_id,
        /// `open`, `paused` or `over limit`.
        state: &'static str = state(record, now),
        /// Units in use.
        in_use: u64 = record.usage,
        /// Units that may be in use now.
        limit: u64 = level(record, now).limit,
        /// Units that can be granted now.
        available: u64 = level(record, now).available(),
        /// Units in use above the limit.
        over_by: u64 = level(record, now).over_by(),
        /// Capacity in units, outside of the windows in `capacity`.
        max_units: u32 = record.settings.max_units,
        /// Percentage of the capacity that may be in use.
        threshold_percent: u8 = record.settings.threshold_percent,
        /// Number of leases.
        holders: u64 = record.active,
        /// Number of waiting requests.
        waiting: u64 = record.waiting,
        /// Number of leases with missing heartbeats.
        suspect: u64 = record.suspect,
        /// Null unless the pool is paused.
        pause: Option<PoolPause> = record.settings.paused.as_ref().map(PoolPause::from),
        /// `halving` or `fifo`.
        policy: &'static str = record.settings.policy.as_str(),
        /// Units granted to a request that does not say how many it needs.
        default_units: u32 = record.settings.default_units.get(),
        /// Minimum number of units after a downgrade.
        min_units: u32 = record.settings.min_units.get(),
        /// What counts as a unit: `hint_units`, `sessions`, `px` or `processes`.
        weight: &'static str = record.settings.weight.as_str(),
        /// Whether the database follows hints.
        hint_effective: bool = record.settings.hint_effective,
        /// Degree of a `PARALLEL` hint without a number.
        default_degree: u32 = record.settings.default_degree.get(),
        /// Sets of parallel servers that a session may use.
        server_sets: u8 = record.settings.server_sets,
        /// Type of the database.
        db_type: String = record.settings.db_type.clone(),
        /// Different capacities at certain times of day.
        capacity: Vec<PoolCapacity> = record.settings.capacity.iter().map(PoolCapacity::from).collect(),
        /// Time zone of these times.
        zone: String = record.settings.zone.to_string(),
        /// Heartbeat timeout.
        lease_for: String = duration::show(record.settings.lease_for),
        /// Maximum time that units are held.
        max_hold: String = duration::show(record.settings.max_hold),
        /// How long granted units wait for their holder.
        claim_for: String = duration::show(record.settings.claim_for),
        created_at: Timestamp = record.created_at,
        /// Time of the last decision.
        changed_at: Timestamp = record.changed_at,
    }

    /// Why a pool is paused.
    pub struct PoolPause from pause: &Pause {
        at: Timestamp = pause.at,
        by: String = pause.by.clone(),
        reason: String = pause.reason.clone(),
    }

    /// A lease of units of a pool, or a request in its queue.
    pub struct PoolLease from record: &TicketRecord {
        id: String = record.ticket.id.to_string(),
        pool: String = record.pool.to_string(),
        /// `waiting`, `granted`, `running`, `suspect`, `released`, `expired` or `cancelled`.
        state: &'static str = record.ticket.state.as_str(),
        holder: PoolHolder = (&record.ticket.holder).into(),
        /// The holder on one line, such as `nightly/2026-11-15`.
        holder_name: String = record.ticket.holder.to_string(),
        /// `critical`, `normal` or `bulk`.
        class: &'static str = record.ticket.class.as_str(),
        /// Units in use.
        units: u64 = record.units,
        /// Requested degree of parallelism.
        asked: u32 = record.ticket.asked.get(),
        /// Minimum degree that the request accepts.
        min: u32 = record.ticket.least.get(),
        /// Granted degree of parallelism.
        parallel: Option<u32> = record.ticket.granted.map(NonZeroU32::get),
        /// Fences the holder. Every attempt of the holder has a higher epoch.
        epoch: i64 = record.ticket.epoch.get(),
        /// The table that the holder reads.
        table: String = record.ticket.table.clone(),
        enqueued_at: Timestamp = record.ticket.enqueued_at,
        granted_at: Option<Timestamp> = record.ticket.granted_at,
        /// The lease becomes suspect or ends at this time unless the holder sends a heartbeat.
        expires_at: Option<Timestamp> = record.expires_at,
        ended_at: Option<Timestamp> = record.ended_at,
        /// How it ended, such as `released`.
        ending: Option<String> = record.ending.clone(),
    }

    /// A request in a queue.
    pub struct PoolPlace from (position, ticket, reason, estimate, now): (u32, &Ticket, Reason, Option<Estimate>, Timestamp) {
        /// Position in the queue, from 1.
        position: u32 = position,
        id: String = ticket.id.to_string(),
        holder: PoolHolder = (&ticket.holder).into(),
        /// The holder on one line, such as `nightly/2026-11-15`.
        holder_name: String = ticket.holder.to_string(),
        /// `waiting`; any other state has units and waits for more.
        state: &'static str = ticket.state.as_str(),
        /// `critical`, `normal` or `bulk`.
        class: &'static str = ticket.class.as_str(),
        /// Units that the request waits for.
        units: u64 = ticket.wanted(),
        /// Minimum number of units that the request accepts.
        min_units: u64 = ticket.weight.units(ticket.least),
        /// Requested degree of parallelism.
        asked: u32 = ticket.upgrade.map_or(ticket.asked, |upgrade| upgrade.parallel).get(),
        /// Minimum degree that the request accepts.
        min: u32 = ticket.least.get(),
        /// The table that the holder reads.
        table: String = ticket.table.clone(),
        /// When the request entered the queue.
        since: Timestamp = ticket.queued_since(),
        waited_seconds: u64 = now.since(ticket.queued_since()).as_secs(),
        /// Expected wait in seconds (median).
        eta_seconds: Option<u64> = estimate.map(|estimate| estimate.p50.as_secs()),
        /// Expected wait in seconds (90th percentile).
        eta_p90_seconds: Option<u64> = estimate.map(|estimate| estimate.p90.as_secs()),
        /// Why the request waits.
        reason: &'static str = reason.as_str(),
        /// The reason as a sentence.
        message: &'static str = reason.sentence(),
    }

    /// A decision about a pool.
    pub struct PoolEvent from story: &PoolStory {
        at: Timestamp = story.at,
        pool: String = story.pool.to_string(),
        /// The decision as a sentence.
        message: String = story.text.clone(),
        /// The lease that the decision is about.
        lease: Option<String> = story.ticket.map(|ticket| ticket.to_string()),
        /// The holder of the lease.
        holder_name: Option<String> = story.holder.as_ref().map(Holder::to_string),
    }

    /// Granted units of one pool.
    pub struct GrantedLease from (part, hint): (&Admitted, Option<String>) {
        id: String = part.ticket.id.to_string(),
        pool: String = part.pool.to_string(),
        /// Send it with heartbeats and with the release.
        epoch: i64 = part.ticket.epoch.get(),
        /// Requested degree of parallelism.
        asked: u32 = part.ticket.asked.get(),
        /// Granted degree of parallelism.
        parallel: u32 = part.ticket.granted.unwrap_or(part.ticket.asked).get(),
        /// Units in use by this lease.
        units: u64 = part.ticket.units(),
        /// The hint to run with, if the request had one.
        hint: Option<String> = hint,
        /// Whether the holder waits for more units.
        upgrade_pending: bool = part.ticket.upgrade.is_some(),
    }

    /// Why a request waits.
    pub struct PoolWait from waits: &Waits {
        /// The pool that the request waits for.
        pool: String = waits.pool.to_string(),
        /// Position in the queue, from 1.
        position: u32 = waits.position,
        reason: &'static str = waits.reason.as_str(),
        /// The reason as a sentence.
        message: &'static str = waits.reason.sentence(),
        /// Units in use.
        in_use: u64 = waits.level.usage,
        /// Units that may be in use.
        limit: u64 = waits.level.limit,
        /// Expected wait in seconds (median).
        eta_seconds: Option<u64> = waits.estimate.map(|estimate| estimate.p50.as_secs()),
        /// Expected wait in seconds (90th percentile).
        eta_p90_seconds: Option<u64> = waits.estimate.map(|estimate| estimate.p90.as_secs()),
        /// Repeat the request after this many seconds.
        wait_seconds: u32 = waits.wait_seconds,
    }

    /// A released lease, or a request that left the queue.
    pub struct ReleasedLease from released: &Released {
        /// False if no units were held.
        released: bool = released.released,
        /// Released units.
        units: u64 = released.units,
        /// Whether the request was still in the queue.
        cancelled_waiting: bool = released.cancelled_waiting,
        /// Units of the pool that are still in use.
        in_use: u64 = released.level.usage,
    }
}

fn level(record: &PoolRecord, now: Timestamp) -> Level {
    Level::of(&record.settings, record.usage, now)
}

fn state(record: &PoolRecord, now: Timestamp) -> &'static str {
    if record.settings.paused.is_some() {
        "paused"
    } else if level(record, now).over_by() > 0 {
        "over limit"
    } else {
        "open"
    }
}

impl PoolPlace {
    /// The first requests of a queue.
    pub fn queue(ledger: &Ledger, now: Timestamp, limit: usize) -> Vec<Self> {
        let places = (1..).zip(standing(ledger, now)).take(limit);
        let place = |(position, (id, reason, estimate))| {
            Some((position, ledger.ticket(id)?, reason, estimate, now).into())
        };
        places.filter_map(place).collect()
    }
}

/// A different capacity at a time of day.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolCapacity {
    /// Such as `MON-FRI 22:00-06:00`.
    pub window: String,
    pub max_units: u32,
}

impl From<&Capacity> for PoolCapacity {
    fn from(capacity: &Capacity) -> Self {
        Self { window: capacity.window.to_string(), max_units: capacity.max_units }
    }
}

/// The holder of units: a run, or a task of a run.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolHolder {
    /// The DAG or job.
    pub dag_id: String,
    pub run_id: String,
    /// The task; empty for the whole run.
    #[serde(default)]
    pub task: String,
    /// Index of a mapped task; -1 otherwise.
    #[serde(default = "unmapped")]
    pub map_index: i32,
}

fn unmapped() -> i32 {
    -1
}

impl From<&Holder> for PoolHolder {
    fn from(holder: &Holder) -> Self {
        Self {
            dag_id: holder.dag_id().to_owned(),
            run_id: holder.run_id().to_owned(),
            task: holder.task().to_owned(),
            map_index: holder.map_index(),
        }
    }
}

/// The result of a request for units.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PoolRequest {
    pub id: String,
    /// `running` or `waiting`.
    pub state: &'static str,
    /// One lease for each pool; empty while the request waits.
    pub leases: Vec<GrantedLease>,
    /// Whether an earlier request had already got these leases.
    pub duplicate: bool,
    /// Null unless the request waits.
    pub waits: Option<PoolWait>,
}

/// A request that was cancelled.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct CancelledRequest {
    /// Released units.
    pub units: u64,
    /// Whether the request was still in the queue.
    pub cancelled_waiting: bool,
}

/// Request for units.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestUnits {
    /// 1 to 16 pools. Units are granted in all of them or in none.
    pub pools: Vec<RequestPool>,
    /// Repeating a request with the same holder returns the same lease.
    pub holder: PoolHolder,
    /// `critical`, `normal` (the default) or `bulk`.
    pub class: Option<String>,
    /// The table to read. Tidemill estimates the duration of the run by it.
    pub table: Option<String>,
    /// The hint of the statement.
    pub hint: Option<String>,
    /// Interval of heartbeats in seconds. Leave it out if the holder sends none.
    pub heartbeat_seconds: Option<u32>,
    /// Maximum time to wait for units before the server answers, in seconds, from 0 to 50. Default 0.
    pub wait_seconds: Option<u32>,
}

/// The part of a request for one pool.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestPool {
    /// Name of the pool.
    pub pool: String,
    /// Degree of parallelism. Defaults to that of the hint, then to the pool's default.
    pub parallel: Option<u32>,
    /// Number of sessions. Default 1.
    pub sessions: Option<u32>,
    /// Minimum degree that you accept. Defaults to the pool's minimum.
    pub min: Option<u32>,
}

/// A heartbeat of a holder.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SendHeartbeat {
    /// Epoch of the lease.
    pub epoch: i64,
}

/// How a lease is released.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ReleaseLease {
    /// Epoch of the lease. An older attempt of the holder cannot release it.
    pub epoch: i64,
    /// Whether the work failed. Default false.
    pub failed: Option<bool>,
}

/// How many pools, leases or events to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ListPools {
    /// Maximum number of items, from 1 to 500. Default 50.
    pub limit: Option<u32>,
}

/// Settings of a pool. Settings that you leave out do not change; in a new pool they have their defaults.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
pub struct PoolSettings {
    /// `src_db_id` in the EMR Batch Agent API. Null removes it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub external_id: Option<Option<i64>>,
    /// Type of the database. Default `oracle`.
    pub db_type: Option<String>,
    /// Capacity in units.
    pub max_units: Option<u32>,
    /// Percentage of the capacity that may be in use. Default 95.
    pub threshold_percent: Option<u8>,
    /// Units granted to a request that does not say how many it needs. Default 1.
    pub default_units: Option<u32>,
    /// Minimum number of units after a downgrade. Default 2.
    pub min_units: Option<u32>,
    /// What counts as a unit: `hint_units` (the default), `sessions`, `px` or `processes`.
    pub weight: Option<String>,
    /// Whether the database follows hints. Default true.
    pub hint_effective: Option<bool>,
    /// Degree of a `PARALLEL` hint without a number. Default 16.
    pub default_degree: Option<u32>,
    /// Sets of parallel servers that a session may use. Default 2.
    pub server_sets: Option<u8>,
    /// `halving` (the default) or `fifo`.
    pub policy: Option<String>,
    /// Different capacities at certain times of day.
    pub capacity: Option<Vec<PoolCapacity>>,
    /// Time zone of these times. Default UTC.
    pub zone: Option<String>,
    /// Heartbeat timeout. Default `15m`.
    pub lease_for: Option<String>,
    /// Maximum time that units are held. Default `1d`.
    pub max_hold: Option<String>,
    /// How long granted units wait for their holder. Default `2m`.
    pub claim_for: Option<String>,
}

/// A new pool.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreatePool {
    pub name: String,
    /// `max_units` is required.
    #[serde(flatten)]
    pub settings: PoolSettings,
}

/// A change of a pool.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangePool {
    /// Reason, kept in the audit log.
    pub reason: Option<String>,
    #[serde(flatten)]
    pub settings: PoolSettings,
}

/// Tells a null, which removes the value, from a field that is missing.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<i64>>, D::Error> {
    Deserialize::deserialize(deserializer).map(Some)
}

impl CreatePool {
    pub fn settings(&self) -> Result<Settings, PoolRefusal> {
        let missing = || bad("max_units", "it is missing");
        let max_units = self.settings.max_units.ok_or_else(missing)?;
        let name = self.name.parse().map_err(|error| bad("name", error))?;
        self.settings.apply(Settings::new(name, max_units))
    }
}

impl PoolSettings {
    /// Changes `settings`, and checks the result.
    pub fn apply(&self, mut settings: Settings) -> Result<Settings, PoolRefusal> {
        let windows = self.capacity.as_ref().map(|windows| windows.iter().map(window).collect());
        put(&mut settings.external_id, self.external_id);
        put(&mut settings.db_type, self.db_type.clone());
        put(&mut settings.max_units, self.max_units);
        put(&mut settings.threshold_percent, self.threshold_percent);
        put(&mut settings.default_units, number("default_units", self.default_units)?);
        put(&mut settings.min_units, number("min_units", self.min_units)?);
        put(&mut settings.weight, word("weight", self.weight.as_deref())?);
        put(&mut settings.hint_effective, self.hint_effective);
        put(&mut settings.default_degree, number("default_degree", self.default_degree)?);
        put(&mut settings.server_sets, self.server_sets);
        put(&mut settings.policy, word("policy", self.policy.as_deref())?);
        put(&mut settings.capacity, windows.transpose()?);
        put(&mut settings.zone, word("zone", self.zone.as_deref())?);
        put(&mut settings.lease_for, length("lease_for", self.lease_for.as_deref())?);
        put(&mut settings.max_hold, length("max_hold", self.max_hold.as_deref())?);
        put(&mut settings.claim_for, length("claim_for", self.claim_for.as_deref())?);
        settings.check()?;
        Ok(settings)
    }
}

/// Sets a field, if there is a new value for it.
pub fn put<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

fn window(capacity: &PoolCapacity) -> Result<Capacity, BadSettings> {
    let window = capacity.window.parse().map_err(|error| bad("capacity", error))?;
    Ok(Capacity { window, max_units: capacity.max_units })
}

fn number(field: &'static str, number: Option<u32>) -> Result<Option<NonZeroU32>, BadSettings> {
    number.map(|number| NonZeroU32::new(number).ok_or_else(|| bad(field, "it is zero"))).transpose()
}

fn word<T: FromStr<Err: ToString>>(
    field: &'static str,
    text: Option<&str>,
) -> Result<Option<T>, BadSettings> {
    text.map(|text| text.parse().map_err(|error: T::Err| bad(field, error.to_string()))).transpose()
}

fn length(field: &'static str, text: Option<&str>) -> Result<Option<Duration>, BadSettings> {
    text.map(|text| duration::parse(text).map_err(|error| bad(field, error))).transpose()
}

fn bad(field: &'static str, why: impl ToString) -> BadSettings {
    BadSettings { field, why: why.to_string() }
}

/// Why a pool cannot be found, created, changed or removed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolRefusal {
    #[error("there is no pool {0:?}")]
    NotFound(String),
    #[error("there is already a pool {0}")]
    NameTaken(PoolName),
    #[error("the pool {0} has this external id")]
    ExternalIdTaken(PoolName),
    #[error("the pool {name} has {tickets} leases and requests")]
    InUse { name: PoolName, tickets: u64 },
    #[error(transparent)]
    Settings(#[from] BadSettings),
}

impl PoolRefusal {
    /// Only the beginning of a long text is repeated.
    pub fn not_found(text: &str) -> Self {
        Self::NotFound(text.chars().take(100).collect())
    }

    /// The refusal in the answer of the store, if there is one.
    pub fn check(defined: Defined, name: &PoolName) -> Result<(), Self> {
        Err(match defined {
            Defined::Done => return Ok(()),
            Defined::NoSuchPool => Self::not_found(name.as_str()),
            Defined::NameTaken => Self::NameTaken(name.clone()),
            Defined::ExternalIdTaken(other) => Self::ExternalIdTaken(other),
            Defined::InUse { tickets } => Self::InUse { name: name.clone(), tickets },
        })
    }

    pub fn code(&self) -> Code {
        match self {
            Self::NotFound(_) => Code::PoolNotFound,
            Self::NameTaken(_) | Self::ExternalIdTaken(_) => Code::PoolTaken,
            Self::InUse { .. } => Code::PoolInUse,
            Self::Settings(_) => Code::BadPoolSettings,
        }
    }

    pub fn fix(&self) -> String {
        match self {
            Self::NotFound(_) => "check the name with `tidemill pool list`, or create the pool".to_owned(),
            Self::NameTaken(_) => "change this pool, or choose another name".to_owned(),
            Self::ExternalIdTaken(other) => format!("choose another external id, or remove {other}"),
            Self::InUse { name, .. } => format!(
                "pause the pool and wait until it is empty, or release its leases; \
                 see `tidemill pool holders {name}` and `tidemill pool queue {name}`"
            ),
            Self::Settings(bad) => format!("correct {}", bad.field),
        }
    }
}
