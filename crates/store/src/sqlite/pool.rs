//! Statements on `tidemill_pool` and `tidemill_pool_ticket`. A list cannot be bound, so it travels
//! as one text in JSON.

pub(crate) mod decision;
pub(crate) mod log;
pub(crate) mod meter;
pub(crate) mod run_time;
pub(crate) mod usage;
pub(crate) mod view;

use crate::codec::{DbId, DbTime};
use crate::row::pool::{BeatRow, EndedByCallRow, PoolRow, SavedPass, SettingsColumns, TicketRow, listed};
use sqlx::SqliteConnection;

/// Nothing happens when there is one of this name or external id. Its first pass has the version after this one.
pub(crate) async fn insert(
    connection: &mut SqliteConnection,
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
    connection: &mut SqliteConnection,
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
pub(crate) async fn delete(connection: &mut SqliteConnection, name: &str) -> Result<u64, sqlx::Error> {
    let done =
        sqlx::query("delete from tidemill_pool where name = $1").bind(name).execute(connection).await?;
    Ok(done.rows_affected())
}

pub(crate) async fn find(
    connection: &mut SqliteConnection,
    name: &str,
) -> Result<Option<PoolRow>, sqlx::Error> {
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
    connection: &mut SqliteConnection,
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

pub(crate) async fn list(connection: &mut SqliteConnection, limit: i64) -> Result<Vec<PoolRow>, sqlx::Error> {
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
    connection: &mut SqliteConnection,
) -> Result<Vec<(String, i64, Option<i64>)>, sqlx::Error> {
    sqlx::query_as("select name, version, external_id from tidemill_pool").fetch_all(connection).await
}

/// By the index of those that live, which SQLite would not take by itself: it knows nothing of how many have ended.
pub(crate) async fn ticket_live(
    connection: &mut SqliteConnection,
    pool: &str,
) -> Result<Vec<TicketRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, pool, state, units, ended_at, ending, expires_at, detail
         from tidemill_pool_ticket indexed by tidemill_pool_ticket_holder
         where pool = $1
           and ended_at is null",
    )
    .bind(pool)
    .fetch_all(connection)
    .await
}

/// Those that were changed in passes after this one.
pub(crate) async fn ticket_changed(
    connection: &mut SqliteConnection,
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
pub(crate) async fn due(connection: &mut SqliteConnection, now: DbTime) -> Result<Vec<String>, sqlx::Error> {
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
    connection: &mut SqliteConnection,
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
    connection: &mut SqliteConnection,
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
    connection: &mut SqliteConnection,
    calls: &[&str],
) -> Result<Vec<EndedByCallRow>, sqlx::Error> {
    sqlx::query_as(
        "select pool, end_call, state, units
         from tidemill_pool_ticket
         where end_call in (select value from json_each($1))",
    )
    .bind(listed(&calls)?)
    .fetch_all(connection)
    .await
}

/// The one writer's transaction keeps everybody else out by itself.
pub(crate) async fn lock_all(
    connection: &mut SqliteConnection,
    names: &[String],
) -> Result<Vec<PoolRow>, sqlx::Error> {
    sqlx::query_as(
        "select name, settings, version, forgotten, log_from, usage, active, waiting, suspect, created_at, changed_at
         from tidemill_pool
         where name in (select value from json_each($1))
         order by name",
    )
    .bind(listed(&names)?)
    .fetch_all(connection)
    .await
}

/// All that a pass writes. The end counts from the pass, not from the later of two heartbeats: after the clock has gone
/// back, what is stored lies too far ahead.
pub(crate) async fn save(
    connection: &mut SqliteConnection,
    pass: &SavedPass,
    now: DbTime,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into tidemill_pool_ticket
             (id, pool, version, state, dag_id, run_id, task, map_index, table_name, parallel, units, epoch,
              enqueued_at, started_at, ended_at, ending, end_call, expires_at, lease_micros, detail, heard_at)
         select value ->> 'id', value ->> 'pool', value ->> 'version', value ->> 'state', value ->> 'dag_id',
                value ->> 'run_id', value ->> 'task', value ->> 'map_index', value ->> 'table_name',
                value ->> 'parallel', value ->> 'units', value ->> 'epoch', value ->> 'enqueued_at',
                value ->> 'started_at', value ->> 'ended_at', value ->> 'ending', value ->> 'end_call',
                value ->> 'expires_at', value ->> 'lease_micros', value ->> 'detail', $2
         from json_each($1)
         where true
         on conflict (id) do update
         set version = excluded.version, state = excluded.state, parallel = excluded.parallel,
             units = excluded.units, epoch = excluded.epoch, started_at = excluded.started_at,
             ended_at = excluded.ended_at, ending = excluded.ending, end_call = excluded.end_call,
             expires_at = excluded.expires_at, lease_micros = excluded.lease_micros, detail = excluded.detail,
             heard_at = excluded.heard_at",
    )
    .bind(listed(&pass.tickets)?)
    .bind(now)
    .execute(&mut *connection)
    .await?;
    sqlx::query(
        "insert into tidemill_pool_log (pool, version, seq, at, kind, ticket_id, dag_id, run_id, event)
         select value ->> 'pool', value ->> 'version', value ->> 'seq', value ->> 'at', value ->> 'kind',
                value ->> 'ticket_id', value ->> 'dag_id', value ->> 'run_id', value ->> 'event'
         from json_each($1)",
    )
    .bind(listed(&pass.records)?)
    .execute(&mut *connection)
    .await?;
    sqlx::query(
        "update tidemill_pool
         set version = saved.value ->> 'version', usage = saved.value ->> 'usage',
             active = saved.value ->> 'active', waiting = saved.value ->> 'waiting',
             suspect = saved.value ->> 'suspect', changed_at = $2
         from json_each($1) as saved
         where tidemill_pool.name = saved.value ->> 'name'",
    )
    .bind(listed(&pass.pools)?)
    .bind(now)
    .execute(&mut *connection)
    .await?;
    Ok(())
}

/// By the index of those that lapse next, and not through all tickets of the pools, as SQLite would by itself.
pub(crate) async fn ticket_lapsed(
    connection: &mut SqliteConnection,
    pools: &[String],
    now: DbTime,
    limit: i64,
) -> Result<Vec<(DbId, String)>, sqlx::Error> {
    sqlx::query_as(
        "select id, pool
         from tidemill_pool_ticket indexed by tidemill_pool_ticket_expires
         where ended_at is null
           and expires_at <= $2
           and pool in (select value from json_each($1))
         order by expires_at, id
         limit $3",
    )
    .bind(listed(&pools)?)
    .bind(now)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Moves on those that run and still have their epoch; returns them.
pub(crate) async fn ticket_renew(
    connection: &mut SqliteConnection,
    beats: &[BeatRow],
    now: DbTime,
) -> Result<Vec<DbId>, sqlx::Error> {
    let beats: Vec<(String, i64)> =
        beats.iter().map(|beat| (beat.id.0.hyphenated().to_string(), beat.epoch)).collect();
    sqlx::query_scalar(
        "update tidemill_pool_ticket
         set expires_at = coalesce($2 + lease_micros, expires_at),
             heard_at = case when lease_micros is null then heard_at else $2 end
         from json_each($1) as beat
         where tidemill_pool_ticket.id = beat.value ->> 0
           and tidemill_pool_ticket.epoch = beat.value ->> 1
           and tidemill_pool_ticket.state = 'running'
         returning id",
    )
    .bind(listed(&beats)?)
    .bind(now)
    .fetch_all(connection)
    .await
}

/// The oldest first.
pub(crate) async fn ticket_list(
    connection: &mut SqliteConnection,
    pool: &str,
    states: &[&str],
    limit: i64,
) -> Result<Vec<TicketRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, pool, state, units, ended_at, ending, expires_at, detail
         from tidemill_pool_ticket
         where pool = $1
           and state in (select value from json_each($2))
         order by enqueued_at, id
         limit $3",
    )
    .bind(pool)
    .bind(listed(&states)?)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// The oldest first, of those that have not ended: they are few, and have an index of their own.
pub(crate) async fn ticket_list_live(
    connection: &mut SqliteConnection,
    pool: &str,
    states: &[&str],
    limit: i64,
) -> Result<Vec<TicketRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, pool, state, units, ended_at, ending, expires_at, detail
         from tidemill_pool_ticket indexed by tidemill_pool_ticket_holder
         where pool = $1
           and ended_at is null
           and state in (select value from json_each($2))
         order by enqueued_at, id
         limit $3",
    )
    .bind(pool)
    .bind(listed(&states)?)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Notes that tickets of versions up to this one are no longer there.
pub(crate) async fn forget(
    connection: &mut SqliteConnection,
    name: &str,
    version: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_pool
         set forgotten = max(forgotten, $2)
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
    connection: &mut SqliteConnection,
    name: &str,
    version: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_pool
         set log_from = max(log_from, $2)
         where name = $1",
    )
    .bind(name)
    .bind(version)
    .execute(connection)
    .await?;
    Ok(())
}
