//! Statements on `tidemill_pool` and `tidemill_pool_ticket`.
//!
//! Lock order: pools by name, then their tickets; a heartbeat locks tickets alone and waits for none.

use crate::codec::{DbId, DbTime};
use crate::pool::row::{EndedByCallRow, PoolRow, SavedPass};
use crate::pool::{PoolRecord, TicketRecord};
use crate::statement::dialect::in_dialect;
use crate::statement::{rows, serialised, statements};
use serde_json::json;
use tidemill_domain::lease::Epoch;
use tidemill_domain::pool::{Settings, TicketId};
use tidemill_domain::time::Timestamp;

macro_rules! save_tickets {
    ($tickets:literal) => {
        concat!(
            "insert into tidemill_pool_ticket
                 (id, pool, version, state, dag_id, run_id, task, map_index, table_name, parallel, units, epoch,
                  enqueued_at, started_at, ended_at, ending, end_call, expires_at, lease_micros, class, eta_p50, eta_p90, detail, heard_at)
             select id, pool, version, state, dag_id, run_id, task, map_index, table_name, parallel, units, epoch,
                    {instant enqueued_at}, {instant started_at}, {instant ended_at}, ending, end_call,
                    {instant expires_at}, lease_micros, class, {instant eta_p50}, {instant eta_p90}, detail, {instant heard_at}
             from {rows saved ", $tickets, ": id uuid, pool text, version bigint, state text, dag_id text, run_id text,
                  task text, map_index integer, table_name text, parallel bigint, units bigint, epoch bigint,
                  enqueued_at bigint, started_at bigint, ended_at bigint, ending text, end_call text,
                  expires_at bigint, lease_micros bigint, class text, eta_p50 bigint, eta_p90 bigint, detail text,
                  heard_at bigint}
             where true
             on conflict (id) do update
             set version = excluded.version, state = excluded.state, parallel = excluded.parallel,
                 units = excluded.units, epoch = excluded.epoch, started_at = excluded.started_at,
                 ended_at = excluded.ended_at, ending = excluded.ending, end_call = excluded.end_call,
                 lease_micros = excluded.lease_micros, eta_p50 = excluded.eta_p50, eta_p90 = excluded.eta_p90,
                 detail = excluded.detail, heard_at = coalesce(excluded.heard_at, tidemill_pool_ticket.heard_at),
                 expires_at = case when excluded.heard_at is null then tidemill_pool_ticket.expires_at
                                   else excluded.expires_at end"
        )
    };
}

macro_rules! save_records {
    ($records:literal) => {
        concat!(
            "insert into tidemill_pool_log (pool, version, seq, at, kind, ticket_id, dag_id, run_id, event, summary)
             select pool, version, seq, {instant at}, kind, ticket_id, dag_id, run_id, event, summary
             from {rows saved ",
            $records,
            ": pool text, version bigint, seq integer, at bigint, kind text,
                  ticket_id uuid, dag_id text, run_id text, event text, summary text}"
        )
    };
}

macro_rules! save_pools {
    ($pools:literal, $now:literal) => {
        concat!(
            "update tidemill_pool as p
             set version = saved.version, usage = saved.usage, active = saved.active, waiting = saved.waiting,
                 suspect = saved.suspect, requested = p.requested + saved.requested, breaker = saved.breaker,
                 changed_at = ", $now, "
             from {rows saved ", $pools, ": name text, version bigint, usage bigint, active bigint, waiting bigint,
                  suspect bigint, requested bigint, breaker text}
             where p.name = saved.name"
        )
    };
}

statements! {
    /// Does nothing if the name or external id exists. The first pass has the next version.
    fn pool_insert(settings: &Settings, json: &str, now: Timestamp, version: i64) -> u64 {
        bind(
            settings.name.as_str(), settings.external_id, json, &settings.db_type,
            settings.max_units, i32::from(settings.threshold_percent),
            i64::from(settings.default_units.get()), i64::from(settings.min_units.get()), now, version,
        )
        "insert into tidemill_pool
             (name, external_id, settings, db_type, max_units, threshold_percent, default_units, min_units,
              created_at, changed_at, version, forgotten, log_from)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $10, $10, $10 + 1)
         on conflict do nothing"
    }

    fn pool_update(settings: &Settings, json: &str, now: Timestamp) -> () {
        bind(
            settings.name.as_str(), settings.external_id, json, &settings.db_type,
            settings.max_units, i32::from(settings.threshold_percent),
            i64::from(settings.default_units.get()), i64::from(settings.min_units.get()), now,
        )
        "update tidemill_pool
         set external_id = $2, settings = $3, db_type = $4, max_units = $5, threshold_percent = $6,
             default_units = $7, min_units = $8, changed_at = $9
         where name = $1"
    }

    /// Deletes its tickets and log too.
    fn pool_delete(name: &str) -> u64 {
        "delete from tidemill_pool where name = $1"
    }

    fn pool_find(name: &str) -> Option<PoolRow> {
        "select name, settings, breaker, version, forgotten, log_from, usage, active, waiting, suspect, created_at, changed_at, audit
         from tidemill_pool where name = $1"
    }

    pub fn Pools::find_external(external_id: i64) -> Option<PoolRecord> {
        "select name, settings, breaker, version, usage, active, waiting, suspect, created_at, changed_at, audit
         from tidemill_pool where external_id = $1"
    }

    /// By name.
    pub fn Pools::list(limit: u32) -> Vec<PoolRecord> {
        "select name, settings, breaker, version, usage, active, waiting, suspect, created_at, changed_at, audit
         from tidemill_pool order by name limit $1"
    }

    /// Name, version and external id.
    fn pool_versions() -> Vec<(String, i64, Option<i64>)> {
        "select name, version, external_id from tidemill_pool"
    }

    /// By the index of live tickets, which SQLite would not choose: it has no statistics.
    fn pool_ticket_live(pool: &str) -> Vec<TicketRecord> {
        "select id, pool, state, units, ended_at, ending, expires_at, detail
         from tidemill_pool_ticket {indexed by tidemill_pool_ticket_holder}
         where pool = $1 and ended_at is null"
    }

    /// Changed in passes after this one.
    fn pool_ticket_changed(pool: &str, since: i64) -> Vec<TicketRecord> {
        "select id, pool, state, units, ended_at, ending, expires_at, detail from tidemill_pool_ticket
         where pool = $1 and version > $2 order by version"
    }

    /// Pools with a lapsed or queued ticket, or a breaker that is not closed: holders may wait for more. One that was opened
    /// by hand waits for a person. `_` is a quote or a brace.
    fn pool_due(now: Timestamp) -> Vec<String> {
        "select pool from tidemill_pool_ticket where ended_at is null and expires_at <= $1
         union
         select name from tidemill_pool
         where waiting > 0 or (breaker not like '%_phase_:_closed_%' and breaker not like '%_open_:__until_:null%')"
    }

    /// Live, or ended and not deleted yet.
    pub fn Pools::ticket(id: TicketId) -> Option<TicketRecord> {
        "select id, pool, state, units, ended_at, ending, expires_at, detail from tidemill_pool_ticket
         where id = $1"
    }

    /// Newest first, of all DAGs that have a run of this name.
    pub fn Pools::tickets_of_run(run_id: &str, limit: u32) -> Vec<TicketRecord> {
        "select id, pool, state, units, ended_at, ending, expires_at, detail from tidemill_pool_ticket
         where run_id = $1 order by enqueued_at desc, id desc limit $2"
    }

    fn pool_ended_by_calls(calls: &[&str]) -> Vec<EndedByCallRow> {
        "select pool, end_call, state, units from tidemill_pool_ticket where end_call {in $1}"
    }

    /// Blocks other passes until the transaction ends, but not rows that refer to these pools.
    fn pool_lock_all(names: &[String]) -> Vec<PoolRow> {
        "select name, settings, breaker, version, forgotten, log_from, usage, active, waiting, suspect, created_at, changed_at, audit
         from tidemill_pool where name {in $1} order by name {for no key update}"
    }

    /// All writes of a pass, on PostgreSQL in one statement. The expiry counts from the pass, not from the later of two
    /// heartbeats: after the clock has gone back, the stored one is too far ahead.
    fn pool_save(pass: &SavedPass, now: Timestamp) -> () {
        postgres {
            bind(serialised(&pass.tickets)?, serialised(&pass.records)?, serialised(&pass.pools)?, now)
            concat!(
                "with tickets as (", save_tickets!("$1"), "), records as (", save_records!("$2"), ") ",
                save_pools!("$3", "$4")
            )
        }
        sqlite |connection| {
            sqlx::query(in_dialect!(false, save_tickets!("$1")))
                .bind(serialised(&pass.tickets)?)
                .execute(&mut *connection)
                .await?;
            sqlx::query(in_dialect!(false, save_records!("$1")))
                .bind(serialised(&pass.records)?)
                .execute(&mut *connection)
                .await?;
            sqlx::query(in_dialect!(false, save_pools!("$1", "$2")))
                .bind(serialised(&pass.pools)?)
                .bind(DbTime(now))
                .execute(connection)
                .await
                .map(drop)
        }
    }

    /// Locks lapsed tickets, so that a heartbeat which arrives now waits for the decision.
    fn pool_ticket_lapsed(pools: &[String], now: Timestamp, limit: i64) -> Vec<(DbId, String)> {
        "select id, pool from tidemill_pool_ticket {indexed by tidemill_pool_ticket_expires}
         where ended_at is null and expires_at <= $2 and pool {in $1}
         order by expires_at, id limit $3 {for update}"
    }

    /// Extends running tickets that still have their epoch. Skips those locked by a pass: waiting could deadlock.
    fn pool_ticket_renew(beats: &[(TicketId, Epoch)], now: Timestamp) -> Vec<DbId> {
        bind(
            rows(beats, |(id, epoch)| json!({ "id": DbId::from(*id), "epoch": epoch.get() })),
            now,
        )
        "with alive as materialized (
             select t.id
             from tidemill_pool_ticket t
             join {rows beat $1: id uuid, epoch bigint} on beat.id = t.id and beat.epoch = t.epoch
             where t.state = 'running'
             {for update of t skip locked}
         )
         update tidemill_pool_ticket
         set expires_at = coalesce($2 + lease_micros * {micros 1}, expires_at),
             heard_at = case when lease_micros is null then heard_at else $2 end
         where id in (select id from alive) returning id"
    }

    fn pool_ticket_list(pool: &str, states: &[&str], limit: u32) -> Vec<TicketRecord> {
        "select id, pool, state, units, ended_at, ending, expires_at, detail from tidemill_pool_ticket
         where pool = $1 and state {in $2} order by enqueued_at, id limit $3"
    }

    /// Oldest first; live tickets are few, and have their own index.
    fn pool_ticket_list_live(pool: &str, states: &[&str], limit: u32) -> Vec<TicketRecord> {
        "select id, pool, state, units, ended_at, ending, expires_at, detail
         from tidemill_pool_ticket {indexed by tidemill_pool_ticket_holder}
         where pool = $1 and ended_at is null and state {in $2}
         order by enqueued_at, id limit $3"
    }

    /// Tickets of versions up to this one are deleted.
    fn pool_forget(name: &str, version: i64) -> () {
        "update tidemill_pool set forgotten = {greatest}(forgotten, $2) where name = $1"
    }

    fn pool_begin_log(name: &str, version: i64) -> () {
        "update tidemill_pool set log_from = {greatest}(log_from, $2) where name = $1"
    }
}
