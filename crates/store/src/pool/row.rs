//! Rows of pools, tickets and logs.

use super::{LastAudit, PoolLevel, PoolRecord};
use crate::error::{Result, damaged};
use crate::statement::{Columns, Stored, stored};
use serde::Serialize;
use std::num::NonZeroU32;
use tidemill_domain::pool::command::Level;
use tidemill_domain::pool::demand::requested;
use tidemill_domain::pool::event::{End, Record};
use tidemill_domain::pool::pass::expires_at;
use tidemill_domain::pool::run_times::RunKind;
use tidemill_domain::pool::usage::UsageStep;
use tidemill_domain::pool::{Breaker, Class, Ledger, PoolName, Settings, State, Ticket};
use tidemill_domain::time::Timestamp;

pub(super) const POOL: (&str, &str) = ("tidemill_pool", "name");
pub(super) const LOG: (&str, &str) = ("tidemill_pool_log", "pool/version/seq");

stored! {
    pub(crate) struct PoolRow in POOL |row| {
        pub(crate) record: PoolRecord => Stored::from_columns(row)?,
        /// Tickets of versions up to this one are deleted.
        pub(crate) forgotten: i64,
        /// Log records of earlier versions are deleted.
        pub(crate) log_from: i64,
    }

    /// With its metrics.
    pub(crate) struct LevelRow in POOL |row| {
        settings: Settings => row.json("settings")?,
        breaker: Breaker => breaker(row)?,
        usage: u64,
        active: u64,
        waiting: u64,
        suspect: u64,
        waiting_since: Option<Timestamp>,
        audit: Option<LastAudit> => last_audit(row)?,
    }
}

/// Null until the breaker changes for the first time.
pub(super) fn breaker(row: &Columns<'_>) -> Result<Breaker, sqlx::Error> {
    match row.get::<Option<String>>("breaker")? {
        Some(_) => row.json("breaker"),
        None => Ok(Breaker::default()),
    }
}

impl LevelRow {
    pub(crate) fn level(self, now: Timestamp) -> PoolLevel {
        PoolLevel {
            level: Level::of(&self.settings, &self.breaker, self.usage, now),
            breaker: self.breaker.seen(self.settings.limit_at(now), now),
            active: self.active,
            waiting: self.waiting,
            suspect: self.suspect,
            oldest_wait: self.waiting_since.map(|since| now.since(since)).unwrap_or_default(),
            audit: self.audit,
            settings: self.settings,
        }
    }
}

pub(super) fn last_audit(row: &Columns<'_>) -> Result<Option<LastAudit>, sqlx::Error> {
    let text = row.get::<Option<String>>("audit")?;
    row.checked("audit", text.map(|text| serde_json::from_str(&text)).transpose().ok())
}

/// A ticket to save, as JSON: one parameter for all tickets. Instants are microseconds since 1970. Nulls are left out:
/// the server needs most of the time of a pass to read this text.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SavedTicket {
    id: String,
    pool: String,
    version: i64,
    state: &'static str,
    dag_id: String,
    run_id: String,
    task: String,
    map_index: i32,
    table_name: String,
    parallel: i64,
    units: i64,
    epoch: i64,
    enqueued_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ending: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_call: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_micros: Option<i64>,
    class: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    eta_p50: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eta_p90: Option<i64>,
    detail: String,
    /// None if its caller was not heard of: then its expiry stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    heard_at: Option<i64>,
}

impl SavedTicket {
    pub(crate) fn new(
        ledger: &Ledger,
        ticket: &Ticket,
        end: Option<&End>,
        end_call: Option<&str>,
        is_heard: bool,
        now: Timestamp,
    ) -> Result<Self> {
        let has_ended = ticket.state.has_ended();
        let units = ticket.granted.map_or(0, |granted| ticket.weight.units(granted));
        let settings = ledger.settings();
        let lease_micros =
            ticket.lease_for.map(|lease_for| i64::try_from(lease_for.as_micros()).unwrap_or(i64::MAX));
        Ok(Self {
            id: ticket.id.to_string(),
            pool: settings.name.to_string(),
            version: ledger.version(),
            state: ticket.state.as_str(),
            dag_id: ticket.holder.dag_id().to_owned(),
            run_id: ticket.holder.run_id().to_owned(),
            task: ticket.holder.task().to_owned(),
            map_index: ticket.holder.map_index(),
            table_name: ticket.table.clone(),
            parallel: ticket.granted.unwrap_or(ticket.asked).get().into(),
            units: i64::try_from(units).unwrap_or(i64::MAX),
            epoch: ticket.epoch.get(),
            enqueued_at: ticket.enqueued_at.as_micros(),
            started_at: ticket.claimed_at.or(ticket.granted_at).map(Timestamp::as_micros),
            ended_at: has_ended.then_some(now.as_micros()),
            ending: has_ended.then_some(end.map_or("unknown", End::as_str)),
            end_call: end_call.filter(|_| has_ended).map(str::to_owned),
            expires_at: expires_at(ticket, settings, now).map(Timestamp::as_micros),
            lease_micros,
            class: ticket.class.as_str(),
            eta_p50: ticket.eta.map(|eta| eta.p50.as_micros()),
            eta_p90: ticket.eta.map(|eta| eta.p90.as_micros()),
            detail: json(ticket)?,
            heard_at: is_heard.then_some(now.as_micros()),
        })
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended_at.is_some()
    }
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct SavedRecord {
    pool: String,
    version: i64,
    seq: i32,
    at: i64,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ticket_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dag_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    event: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
}

impl SavedRecord {
    pub(crate) fn new(pool: &PoolName, record: &Record) -> Result<Self> {
        let holder = record.holder.as_ref();
        Ok(Self {
            pool: pool.to_string(),
            version: record.version,
            seq: record.seq,
            at: record.at.as_micros(),
            kind: record.event.kind(),
            ticket_id: record.event.ticket().map(|ticket| ticket.to_string()),
            dag_id: holder.map(|holder| holder.dag_id().to_owned()),
            run_id: holder.map(|holder| holder.run_id().to_owned()),
            event: json(&record.event)?,
            summary: record.summary.clone(),
        })
    }
}

/// The changes of a pass to the pool's row.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SavedPool {
    name: String,
    version: i64,
    usage: u64,
    pub(super) active: u64,
    pub(super) waiting: u64,
    pub(super) suspect: u64,
    /// Units of new requests.
    requested: u64,
    breaker: Option<String>,
}

impl SavedPool {
    pub(crate) fn new(ledger: &Ledger, records: &[Record]) -> Result<Self> {
        let count = |is: fn(&Ticket) -> bool| {
            ledger.tickets().filter(|ticket| is(ticket)).count().try_into().unwrap_or(u64::MAX)
        };
        let breaker = Some(ledger.breaker()).filter(|breaker| **breaker != Breaker::default());
        Ok(Self {
            name: ledger.settings().name.to_string(),
            version: ledger.version(),
            usage: ledger.usage(),
            active: count(|ticket| ticket.state.counts()),
            waiting: count(|ticket| ticket.state == State::Waiting),
            suspect: count(|ticket| ticket.state == State::Suspect),
            requested: requested(records),
            breaker: breaker.map(json).transpose()?,
        })
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SavedPass {
    pub(crate) tickets: Vec<SavedTicket>,
    pub(crate) records: Vec<SavedRecord>,
    pub(crate) pools: Vec<SavedPool>,
}

// Without its holder, which the ticket has, and its summary, which `PoolEventSummary` has.
stored! {
    impl Record in LOG |row| { version, seq, at, holder => None, event => row.json("event")?, summary => None }
}

const RUN_TIME: (&str, &str) = ("tidemill_pool_run_time", "dag_id table_name");

stored! {
    impl RunKind in RUN_TIME |row| {
        dag_id, table = "table_name", parallel => row.checked("parallel", NonZeroU32::new(row.get("parallel")?))?,
    }
}

stored! {
    pub(crate) struct RunTimeRow in RUN_TIME |row| {
        pub(crate) kind: RunKind => Stored::from_columns(row)?,
        pub(crate) class: Class => class(row)?,
        pub(crate) seconds: Vec<u32> => row.json("seconds")?,
    }

    /// A released ticket.
    pub(crate) struct EndedRunRow in RUN_TIME |row| {
        pub(crate) kind: RunKind => Stored::from_columns(row)?,
        pub(crate) class: Class => class(row)?,
        pub(crate) started_at: Timestamp,
        pub(crate) ended_at: Timestamp,
    }

    /// A deleted ticket.
    pub(crate) struct ForgottenRow in RUN_TIME |row| {
        pub(crate) kind: RunKind => Stored::from_columns(row)?,
        pub(crate) class: Class => class(row)?,
        pub(crate) ending: String,
        pub(crate) version: i64,
        pub(crate) started_at: Option<Timestamp>,
        pub(crate) ended_at: Timestamp,
    }
}

/// Rows of older programs have no class.
fn class(row: &Columns<'_>) -> Result<Class, sqlx::Error> {
    let word = row.get::<Option<String>>("class")?;
    row.checked("class", word.map_or(Some(Class::Normal), |word| word.parse().ok()))
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct SavedRunTime {
    pub(crate) pool: String,
    pub(crate) dag_id: String,
    pub(crate) table_name: String,
    pub(crate) parallel: u32,
    pub(crate) class: &'static str,
    /// JSON, the oldest first.
    pub(crate) seconds: String,
}

stored! {
    impl UsageStep in ("tidemill_pool_usage", "pool/at") { at, least, most, total, samples, most_waiting }
}

crate::statement::row! {
    pub(crate) struct EndedByCallRow {
        pub(crate) pool: String,
        pub(crate) end_call: String,
        pub(crate) state: String,
        pub(crate) units: i64,
    }
}

pub(crate) fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|_| damaged(POOL.0, "settings", "a value that JSON cannot hold"))
}
