//! Statements on `tidemill_pool` and `tidemill_pool_ticket`.
//!
//! Locks are taken in the order of the names of the pools, and on tickets only after their pool; a heartbeat locks
//! tickets alone and waits for none.

pub(crate) mod decision;
pub(crate) mod log;
pub(crate) mod run_time;
pub(crate) mod usage;
pub(crate) mod view;

pub(crate) mod meter;

use crate::codec::{DbId, DbTime};
use crate::row::pool::{BeatRow, EndedByCallRow, PoolRow, SavedPass, SettingsColumns, TicketRow, listed};
use sqlx::PgConnection;

/// Nothing happens when there is one of this name or external id. Its first pass has the version after this one.
pub(crate) async fn insert(
    connection: &mut PgConnection,
    row: &SettingsColumns,
    now: DbTime,
    version: i64,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "insert into tidemill_pool
             (name, external_id, settings, db_type, max_units, threshold_percent, default_units, min_units,
              created_at, changed_at, version, forgotten, log_from)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $10, $10, $10 + 1)
         on conflict do nothing",
    )
    .bind(&row.name)
    .bind(row.external_id)
    .bind(&row.settings)
    .bind(&row.db_type)
    .bind(row.max_units)
    .bind(row.threshold_percent)
    .bind(row.default_units)
    .bind(row.min_units)
    .bind(now)
    .bind(version)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

pub(crate) async fn update(
    connection: &mut PgConnection,
    row: &SettingsColumns,
    now: DbTime,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_pool
         set external_id = $2, settings = $3, db_type = $4, max_units = $5, threshold_percent = $6,
             default_units = $7, min_units = $8, changed_at = $9
         where name = $1",
    )
    .bind(&row.name)
    .bind(row.external_id)
    .bind(&row.settings)
    .bind(&row.db_type)
    .bind(row.max_units)
    .bind(row.threshold_percent)
    .bind(row.default_units)
    .bind(row.min_units)
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}

/// Its tickets and its log go with it.
pub(crate) async fn delete(connection: &mut PgConnection, name: &str) -> Result<u64, sqlx::Error> {
    let done =
        sqlx::query("delete from tidemill_pool where name = $1").bind(name).execute(connection).await?;
    Ok(done.rows_affected())
}

pub(crate) async fn find(connection: &mut PgConnection, name: &str) -> Result<Option<PoolRow>, sqlx::Error> {
    sqlx::query_as(
        "select name, settings, version, forgotten, log_from, usage, active, waiting, suspect, created_at, changed_at
         from tidemill_pool
         where name = $1",
    )
    .bind(name)
    .fetch_optional(connection)
    .await
}

pub(crate) async fn find_external(
    connection: &mut PgConnection,
    external_id: i64,
) -> Result<Option<PoolRow>, sqlx::Error> {
    sqlx::query_as(
        "select name, settings, version, forgotten, log_from, usage, active, waiting, suspect, created_at, changed_at
         from tidemill_pool
         where external_id = $1",
    )
    .bind(external_id)
    .fetch_optional(connection)
    .await
}

pub(crate) async fn list(connection: &mut PgConnection, limit: i64) -> Result<Vec<PoolRow>, sqlx::Error> {
    sqlx::query_as(
        "select name, settings, version, forgotten, log_from, usage, active, waiting, suspect, created_at, changed_at
         from tidemill_pool
         order by name
         limit $1",
    )
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Name, version and external id of all pools.
pub(crate) async fn versions(
    connection: &mut PgConnection,
) -> Result<Vec<(String, i64, Option<i64>)>, sqlx::Error> {
    sqlx::query_as("select name, version, external_id from tidemill_pool").fetch_all(connection).await
}

pub(crate) async fn ticket_live(
    connection: &mut PgConnection,
    pool: &str,
) -> Result<Vec<TicketRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, pool, state, units, ended_at, ending, expires_at, detail
         from tidemill_pool_ticket
         where pool = $1
           and ended_at is null",
    )
    .bind(pool)
    .fetch_all(connection)
    .await
}

/// Those that were changed in passes after this one.
pub(crate) async fn ticket_changed(
    connection: &mut PgConnection,
    pool: &str,
    since: i64,
) -> Result<Vec<TicketRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, pool, state, units, ended_at, ending, expires_at, detail
         from tidemill_pool_ticket
         where pool = $1
           and version > $2
         order by version",
    )
    .bind(pool)
    .bind(since)
    .fetch_all(connection)
    .await
}

/// The pools of which a ticket has lapsed, or has to wait.
pub(crate) async fn due(connection: &mut PgConnection, now: DbTime) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "select pool
         from tidemill_pool_ticket
         where ended_at is null
           and expires_at <= $1
         union
         select name
         from tidemill_pool
         where waiting > 0",
    )
    .bind(now)
    .fetch_all(connection)
    .await
}

pub(crate) async fn ticket_find(
    connection: &mut PgConnection,
    id: DbId,
) -> Result<Option<TicketRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, pool, state, units, ended_at, ending, expires_at, detail
         from tidemill_pool_ticket
         where id = $1",
    )
    .bind(id)
    .fetch_optional(connection)
    .await
}

/// The newest first, of all DAGs that have a run of this name.
pub(crate) async fn ticket_of_run(
    connection: &mut PgConnection,
    run_id: &str,
    limit: i64,
) -> Result<Vec<TicketRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, pool, state, units, ended_at, ending, expires_at, detail
         from tidemill_pool_ticket
         where run_id = $1
         order by enqueued_at desc, id desc
         limit $2",
    )
    .bind(run_id)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// What these calls have ended before.
pub(crate) async fn ended_by_calls(
    connection: &mut PgConnection,
    calls: &[&str],
) -> Result<Vec<EndedByCallRow>, sqlx::Error> {
    sqlx::query_as(
        "select pool, end_call, state, units
         from tidemill_pool_ticket
         where end_call = any($1)",
    )
    .bind(calls)
    .fetch_all(connection)
    .await
}

/// Locks these pools until the transaction ends, against other passes and not against rows that refer to them.
pub(crate) async fn lock_all(
    connection: &mut PgConnection,
    names: &[String],
) -> Result<Vec<PoolRow>, sqlx::Error> {
    sqlx::query_as(
        "select name, settings, version, forgotten, log_from, usage, active, waiting, suspect, created_at, changed_at
         from tidemill_pool
         where name = any($1)
         order by name
         for no key update",
    )
    .bind(names)
    .fetch_all(connection)
    .await
}

/// All that a pass writes, in one statement. The end counts from the pass, not from the later of two heartbeats: after the
/// clock has gone back, what is stored lies too far ahead.
pub(crate) async fn save(
    connection: &mut PgConnection,
    pass: &SavedPass,
    now: DbTime,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "with tickets as (
             insert into tidemill_pool_ticket as t
                 (id, pool, version, state, dag_id, run_id, task, map_index, table_name, parallel, units, epoch,
                  enqueued_at, started_at, ended_at, ending, end_call, expires_at, lease_micros, detail, heard_at)
             select id, pool, version, state, dag_id, run_id, task, map_index, table_name, parallel, units, epoch,
                    timestamptz 'epoch' + enqueued_at * interval '1 microsecond',
                    timestamptz 'epoch' + started_at * interval '1 microsecond',
                    timestamptz 'epoch' + ended_at * interval '1 microsecond',
                    ending, end_call,
                    timestamptz 'epoch' + expires_at * interval '1 microsecond',
                    lease_micros, detail, $4
             from json_to_recordset($1::text::json) as saved (
                 id uuid, pool text, version bigint, state text, dag_id text, run_id text, task text,
                 map_index integer, table_name text, parallel bigint, units bigint, epoch bigint, enqueued_at bigint,
                 started_at bigint, ended_at bigint, ending text, end_call text, expires_at bigint,
                 lease_micros bigint, detail text
             )
             on conflict (id) do update
             set version = excluded.version, state = excluded.state, parallel = excluded.parallel,
                 units = excluded.units, epoch = excluded.epoch, started_at = excluded.started_at,
                 ended_at = excluded.ended_at, ending = excluded.ending, end_call = excluded.end_call,
                 expires_at = excluded.expires_at, lease_micros = excluded.lease_micros, detail = excluded.detail,
                 heard_at = excluded.heard_at
         ), records as (
             insert into tidemill_pool_log (pool, version, seq, at, kind, ticket_id, dag_id, run_id, event)
             select pool, version, seq, timestamptz 'epoch' + at * interval '1 microsecond', kind, ticket_id, dag_id,
                    run_id, event
             from json_to_recordset($2::text::json) as saved (
                 pool text, version bigint, seq integer, at bigint, kind text, ticket_id uuid, dag_id text,
                 run_id text, event text
             )
         )
         update tidemill_pool p
         set version = saved.version, usage = saved.usage, active = saved.active, waiting = saved.waiting,
             suspect = saved.suspect, changed_at = $4
         from json_to_recordset($3::text::json) as saved (
             name text, version bigint, usage bigint, active bigint, waiting bigint, suspect bigint
         )
         where p.name = saved.name",
    )
    .bind(listed(&pass.tickets)?)
    .bind(listed(&pass.records)?)
    .bind(listed(&pass.pools)?)
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}

/// Locks those of these pools that have lapsed, so that a heartbeat which comes now waits for what is decided.
pub(crate) async fn ticket_lapsed(
    connection: &mut PgConnection,
    pools: &[String],
    now: DbTime,
    limit: i64,
) -> Result<Vec<(DbId, String)>, sqlx::Error> {
    sqlx::query_as(
        "select id, pool
         from tidemill_pool_ticket
         where ended_at is null
           and expires_at <= $2
           and pool = any($1)
         order by expires_at, id
         limit $3
         for update",
    )
    .bind(pools)
    .bind(now)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Moves on those that run and still have their epoch; returns them. Those that a pass has in hand are left to the next
/// pass: whoever waited for them while it holds others could wait for ever.
pub(crate) async fn ticket_renew(
    connection: &mut PgConnection,
    beats: &[BeatRow],
    now: DbTime,
) -> Result<Vec<DbId>, sqlx::Error> {
    sqlx::query_scalar(
        "with alive as (
             select t.id
             from tidemill_pool_ticket t
             join unnest($1::uuid[], $2::bigint[]) as beat (id, epoch) on beat.id = t.id and beat.epoch = t.epoch
             where t.state = 'running'
             for update of t skip locked
         )
         update tidemill_pool_ticket t
         set expires_at = coalesce($3 + lease_micros * interval '1 microsecond', expires_at),
             heard_at = case when lease_micros is null then heard_at else $3 end
         from alive
         where alive.id = t.id
         returning t.id",
    )
    .bind(beats.iter().map(|beat| beat.id.0).collect::<Vec<_>>())
    .bind(beats.iter().map(|beat| beat.epoch).collect::<Vec<_>>())
    .bind(now)
    .fetch_all(connection)
    .await
}

/// The oldest first.
pub(crate) async fn ticket_list(
    connection: &mut PgConnection,
    pool: &str,
    states: &[&str],
    limit: i64,
) -> Result<Vec<TicketRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, pool, state, units, ended_at, ending, expires_at, detail
         from tidemill_pool_ticket
         where pool = $1
           and state = any($2)
         order by enqueued_at, id
         limit $3",
    )
    .bind(pool)
    .bind(states)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// The oldest first, of those that have not ended: they are few, and have an index of their own.
pub(crate) async fn ticket_list_live(
    connection: &mut PgConnection,
    pool: &str,
    states: &[&str],
    limit: i64,
) -> Result<Vec<TicketRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, pool, state, units, ended_at, ending, expires_at, detail
         from tidemill_pool_ticket
         where pool = $1
           and ended_at is null
           and state = any($2)
         order by enqueued_at, id
         limit $3",
    )
    .bind(pool)
    .bind(states)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Notes that tickets of versions up to this one are no longer there.
pub(crate) async fn forget(
    connection: &mut PgConnection,
    name: &str,
    version: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_pool
         set forgotten = greatest(forgotten, $2)
         where name = $1",
    )
    .bind(name)
    .bind(version)
    .execute(connection)
    .await?;
    Ok(())
}

/// Notes that the log begins here.
pub(crate) async fn begin_log(
    connection: &mut PgConnection,
    name: &str,
    version: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_pool
         set log_from = greatest(log_from, $2)
         where name = $1",
    )
    .bind(name)
    .bind(version)
    .execute(connection)
    .await?;
    Ok(())
}
