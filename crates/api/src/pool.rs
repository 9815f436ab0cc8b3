//! Pools, requests for their units, leases and queues.

mod settings;

pub use settings::{ChangePool, CreatePool, PoolCapacity, PoolRefusal, PoolSettings, put, without_grants};

use crate::shapes;
use std::num::NonZeroU32;
use tidemill_domain::duration;
use tidemill_domain::hint::Warning;
use tidemill_domain::pool::breaker::{Breaker, Phase};
use tidemill_domain::pool::command::{Admitted, Released, Waits};
use tidemill_domain::pool::demand::{Demand, LaterDemand};
use tidemill_domain::pool::estimate::{Accuracy, Estimate};
use tidemill_domain::pool::pass::queue_positions;
use tidemill_domain::pool::settings::Pause;
use tidemill_domain::pool::{Holder, Ledger, PoolName, Reason, Ticket};
use tidemill_domain::time::Timestamp;
use tidemill_store::pool::{LastAudit, PoolEventSummary, PoolRecord, TicketRecord};

shapes! {
    /// A pool.
    pub struct Pool from (record, now): (&PoolRecord, Timestamp) {
        name: String = record.settings.name.to_string(),
        /// `src_db_id` in the EMR Batch Agent API.
        external_id: Option<i64> = record.settings.external_id,
        /// `open`, `paused`, `breaker open` or `over limit`.
        state: &'static str = state(record, now),
        /// Units in use.
        in_use: u64 = record.usage,
        /// Units that may be in use now.
        limit: u64 = record.level(now).limit,
        /// Units that can be granted now.
        available: u64 = record.level(now).available(),
        /// Units in use above the limit.
        over_by: u64 = record.level(now).over_by(),
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
        /// The circuit breaker, which stops grants when the database refuses connections.
        breaker: PoolBreaker = PoolBreaker::from((record, now)),
        /// `adaptive`, `halving` or `fifo`.
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
        /// Time within which a holder must claim granted units.
        claim_for: String = duration::show(record.settings.claim_for),
        created_at: Timestamp = record.created_at,
        /// Time of the last decision.
        changed_at: Timestamp = record.changed_at,
        /// How good the estimates of waits were. Null in lists and in answers to changes.
        estimates: Option<PoolEstimates> = None,
        /// The last nightly audit; null before the first one.
        audit: Option<PoolAudit> = record.audit.as_ref().map(PoolAudit::from),
    }

    /// How good the estimates of waits were, by the last 500 starts after a wait.
    pub struct PoolEstimates from score: &Accuracy {
        /// Number of starts. With fewer than 20, the other numbers are null.
        count: usize = score.count,
        /// Half of the starts were at most this far from `eta_p50`.
        median_error_seconds: Option<u64> = score.is_enough().then_some(score.median_error.as_secs()),
        /// Percentage of starts before `eta_p90`.
        p90_held_percent: Option<u8> = score.is_enough().then_some(score.p90_held_percent),
    }

    /// A replay of the log of a pool, with checks of every decision.
    pub struct PoolAudit from audit: &LastAudit {
        at: Timestamp = audit.at,
        /// Number of records in the log.
        decisions: u64 = audit.decisions,
        /// Number of decisions that break a rule, and of stored values that differ from the log.
        violations: u64 = audit.violations,
    }

    /// Why a pool is paused.
    pub struct PoolPause from pause: &Pause {
        at: Timestamp = pause.at,
        by: String = pause.by.clone(),
        reason: String = pause.reason.clone(),
    }

    /// The circuit breaker of a pool.
    pub struct PoolBreaker from (record, now): (&PoolRecord, Timestamp) {
        /// `closed`, `open`, `probing` (one request tries the database) or `ramping` (the limit rises slowly).
        state: &'static str = breaker(record, now).phase.as_str(),
        /// When this state began. Null if the breaker was never open.
        since: Option<Timestamp> = Some(breaker(record, now).since).filter(|_| record.breaker != Breaker::default()),
        /// When the pause ends; null unless the breaker is open, and if an operator opened it.
        until: Option<Timestamp> = match breaker(record, now).phase { Phase::Open { until } => until, _ => None },
        /// The error of the database, or the reason of the operator.
        reason: Option<String> = Some(breaker(record, now).reason).filter(|reason| !reason.is_empty()),
        /// The operator that opened or closed it.
        by: Option<String> = breaker(record, now).by,
        /// Units that may be in use now.
        effective_limit: u64 = record.level(now).limit,
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
        /// When the request should have got its units, as estimated when it entered the queue (median).
        eta_p50: Option<Timestamp> = record.ticket.eta.map(|eta| eta.p50),
        /// The same, 90th percentile.
        eta_p90: Option<Timestamp> = record.ticket.eta.map(|eta| eta.p90),
        /// Number of later requests that started before it.
        overtaken: u32 = record.ticket.overtaken,
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
        /// Expected start (median).
        eta_p50: Option<Timestamp> = estimate.map(|estimate| now.plus(estimate.p50)),
        /// Expected start (90th percentile).
        eta_p90: Option<Timestamp> = estimate.map(|estimate| now.plus(estimate.p90)),
        /// Number of later requests that started before it.
        overtaken: u32 = ticket.overtaken,
        /// Why the request waits.
        reason: &'static str = reason.as_str(),
        /// The reason as a sentence.
        message: &'static str = reason.sentence(),
    }

    /// A decision about a pool.
    pub struct PoolEvent from event: &PoolEventSummary {
        at: Timestamp = event.at,
        pool: String = event.pool.to_string(),
        /// The decision as a sentence.
        message: String = event.text.clone(),
        /// The lease that the decision is about.
        lease: Option<String> = event.ticket.map(|ticket| ticket.to_string()),
        /// The holder of the lease.
        holder_name: Option<String> = event.holder.as_ref().map(Holder::to_string),
    }

    /// Granted units of one pool.
    pub struct GrantedLease from (part, hint): (&Admitted, Option<String>) {
        id: String = part.ticket.id.to_string(),
        pool: String = part.pool.to_string(),
        /// Send it with heartbeats and with the release.
        epoch: i64 = part.ticket.epoch.get(),
        /// Requested degree of parallelism, or number of sessions in a pool that grants sessions.
        asked: u32 = part.ticket.asked.get(),
        /// Granted degree of parallelism, or number of sessions.
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
        /// Expected start (median).
        eta_p50: Option<Timestamp> = waits.estimate.map(|estimate| waits.at.plus(estimate.p50)),
        /// Expected start (90th percentile).
        eta_p90: Option<Timestamp> = waits.estimate.map(|estimate| waits.at.plus(estimate.p90)),
        /// Number of later requests that started before it.
        overtaken: u32 = waits.overtaken,
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

    /// How many units a pool needs, for autoscalers. It may be more than the pool has.
    pub struct PoolDemand from (pool, demand): (&PoolName, Demand) {
        pool: String = pool.to_string(),
        /// Units in use, and units that waiting requests want.
        now: u64 = demand.now,
        /// Units that are expected to be needed in 5 minutes.
        in_5_min: PoolLaterDemand = demand.in_5_min.into(),
        /// Units that are expected to be needed in 15 minutes.
        in_15_min: PoolLaterDemand = demand.in_15_min.into(),
    }

    /// An expected number of units.
    pub struct PoolLaterDemand from demand: LaterDemand {
        /// In half of all cases it is at most this.
        p50: u64 = demand.p50,
        /// In nine of ten cases it is at most this.
        p90: u64 = demand.p90,
    }

    /// The demand of a pool with the names of an external scaler of KEDA.
    pub struct KedaMetric from (pool, demand, target_size): (&PoolName, Demand, u32) {
        #[serde(rename = "metricName")]
        metric_name: String = format!("tidemill-{pool}"),
        /// Units that are expected to be needed in 15 minutes, in nine of ten cases.
        #[serde(rename = "metricValue")]
        metric_value: u64 = demand.in_15_min.p90,
        /// Units that one replica provides.
        #[serde(rename = "targetSize")]
        target_size: u32 = target_size,
        /// False if no unit is needed now or expected to be needed.
        #[serde(rename = "isActive")]
        is_active: bool = demand.now.max(demand.in_15_min.p90) > 0,
    }

    /// Parameters of a scaler of KEDA.
    pub struct KedaQuery in query {
        /// Units that one replica provides, from 1. Default 1.
        target_size: Option<u32>,
    }

    /// The holder of units: a run, or a task of a run.
    pub struct PoolHolder in body {
        /// The DAG or job.
        dag_id: String,
        run_id: String,
        /// The task; empty for the whole run.
        #[serde(default)]
        task: String,
        /// Index of a mapped task; -1 otherwise.
        #[serde(default = "unmapped")]
        map_index: i32,
    }

    /// The result of a request for units.
    pub struct PoolRequest {
        id: String,
        /// `running` or `waiting`.
        state: &'static str,
        /// One lease for each pool; empty while the request waits.
        leases: Vec<GrantedLease>,
        /// Whether an earlier request had already got these leases.
        duplicate: bool,
        /// Null unless the request waits.
        waits: Option<PoolWait>,
        /// Warnings about the hint, and whether the hint or the number counts.
        warnings: Vec<HintWarning>,
    }

    /// A warning about a hint.
    #[derive(PartialEq, Eq)]
    pub struct HintWarning from warning: Warning {
        name: &'static str = warning.as_str(),
        text: &'static str = warning.text(),
    }

    /// A request that was cancelled.
    #[derive(Default)]
    pub struct CancelledRequest {
        /// Released units.
        units: u64,
        /// Whether the request was still in the queue.
        cancelled_waiting: bool,
    }

    /// Request for units.
    #[schema(example = json!({ "pools": [{ "pool": "ADW", "parallel": 8, "min": 2 }], "holder": { "dag_id": "nightly", "run_id": "2026-11-15" }, "wait_seconds": 30 }))]
    pub struct RequestUnits in body {
        /// 1 to 16 pools. Units are granted in all of them or in none.
        pools: Vec<RequestPool>,
        /// Repeating a request with the same holder returns the same lease.
        holder: PoolHolder,
        /// `critical`, `normal` (the default) or `bulk`.
        class: Option<String>,
        /// The table to read. Tidemill estimates the duration of the run by it.
        table: Option<String>,
        /// The hint of the statement.
        hint: Option<String>,
        /// Interval of heartbeats in seconds. Leave it out if the holder sends none.
        heartbeat_seconds: Option<u32>,
        /// When the work should have ended. Under pressure the pool grants less only while this still holds. Default: twice the
        /// usual run time and 15 minutes from now.
        deadline: Option<String>,
        /// Maximum time to wait for units before the server answers, in seconds, from 0 to 50. Default 0.
        wait_seconds: Option<u32>,
    }

    /// The part of a request for one pool.
    pub struct RequestPool in body {
        /// Name of the pool.
        pool: String,
        /// Degree of parallelism. Defaults to that of the hint, then to the pool's default.
        parallel: Option<u32>,
        /// Number of sessions. Default 1.
        sessions: Option<u32>,
        /// Minimum degree that you accept. Defaults to the pool's minimum.
        min: Option<u32>,
    }

    /// A heartbeat of a holder.
    #[schema(example = json!({ "epoch": 1 }))]
    pub struct SendHeartbeat in body {
        /// Epoch of the lease.
        epoch: i64,
    }

    /// Which attempt cancels a request.
    pub struct CancelRequest in query {
        /// Epoch of its leases, which are released only if all of them have this one. Leave it out while the request waits.
        epoch: Option<i64>,
    }

    /// How a lease is released.
    pub struct ReleaseLease in query {
        /// Epoch of the lease. An older attempt of the holder cannot release it.
        epoch: i64,
        /// Whether the work failed. Default false. `outcome` says more.
        failed: Option<bool>,
        /// `completed`, `failed` or `refused`: the database refused a connection, which opens the circuit breaker.
        outcome: Option<String>,
        /// The error of the work. If it has a code by which databases refuse connections, a failure counts as refused.
        error: Option<String>,
    }
}

/// As of now.
fn breaker(record: &PoolRecord, now: Timestamp) -> Breaker {
    record.breaker.seen(record.settings.limit_at(now), now)
}

fn state(record: &PoolRecord, now: Timestamp) -> &'static str {
    if record.settings.paused.is_some() {
        "paused"
    } else if record.breaker.is_open() {
        "breaker open"
    } else if record.level(now).over_by() > 0 {
        "over limit"
    } else {
        "open"
    }
}

impl PoolPlace {
    /// The first requests of a queue.
    pub fn queue(ledger: &Ledger, now: Timestamp, limit: usize) -> Vec<Self> {
        let places = (1..).zip(queue_positions(ledger, now)).take(limit);
        let place = |(position, (id, reason, estimate))| {
            Some((position, ledger.ticket(id)?, reason, estimate, now).into())
        };
        places.filter_map(place).collect()
    }
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
