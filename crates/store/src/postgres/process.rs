//! Statements on `tidemill_process`.

use crate::codec::{DbId, DbTime};
use crate::row::{ProcessRow, stored_state};
use sqlx::PgConnection;
use tidemill_domain::process::{Identity, ProcessState};

pub(crate) async fn insert(
    connection: &mut PgConnection,
    id: DbId,
    identity: &Identity,
    now: DbTime,
    until: DbTime,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into tidemill_process (id, name, host, pid, version, state, started_at, heartbeat_at, until)
         values ($1, $2, $3, $4, $5, 'live', $6, $6, $7)",
    )
    .bind(id)
    .bind(&identity.name)
    .bind(&identity.host)
    .bind(i64::from(identity.pid))
    .bind(&identity.version)
    .bind(now)
    .bind(until)
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn by_id(
    connection: &mut PgConnection,
    id: DbId,
) -> Result<Option<ProcessRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, name, host, pid, version, state, started_at, heartbeat_at, until, ended_at
         from tidemill_process
         where id = $1",
    )
    .bind(id)
    .fetch_optional(connection)
    .await
}

/// Keeps heartbeats out until the transaction ends, so that a process that is judged dead stays so.
pub(crate) async fn lock_shared(
    connection: &mut PgConnection,
    id: DbId,
) -> Result<Option<ProcessRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, name, host, pid, version, state, started_at, heartbeat_at, until, ended_at
         from tidemill_process
         where id = $1
         for share",
    )
    .bind(id)
    .fetch_optional(connection)
    .await
}

pub(crate) async fn lock(connection: &mut PgConnection, id: DbId) -> Result<Option<ProcessRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, name, host, pid, version, state, started_at, heartbeat_at, until, ended_at
         from tidemill_process
         where id = $1
         for update",
    )
    .bind(id)
    .fetch_optional(connection)
    .await
}

pub(crate) async fn heartbeat(
    connection: &mut PgConnection,
    id: DbId,
    now: DbTime,
    until: DbTime,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_process
         set heartbeat_at = $2, until = $3
         where id = $1",
    )
    .bind(id)
    .bind(now)
    .bind(until)
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn save_state(
    connection: &mut PgConnection,
    id: DbId,
    state: ProcessState,
) -> Result<(), sqlx::Error> {
    let (word, ended_at) = stored_state(state);
    sqlx::query(
        "update tidemill_process
         set state = $2, ended_at = $3
         where id = $1",
    )
    .bind(id)
    .bind(word)
    .bind(ended_at)
    .execute(connection)
    .await?;
    Ok(())
}

/// One guarded statement for `process::next` with `Expire`. A row in somebody's hands is left for the next time:
/// it may be a heartbeat that is under way, and nobody here must wait for a frozen process.
pub(crate) async fn expire(
    connection: &mut PgConnection,
    now: DbTime,
    limit: i64,
) -> Result<Vec<ProcessRow>, sqlx::Error> {
    sqlx::query_as(
        "with silent as materialized (
             select id
             from tidemill_process
             where state = 'live'
               and until <= $1
             order by id
             limit $2
             for update skip locked
         )
         update tidemill_process p
         set state = 'dead', ended_at = $1
         from silent
         where p.id = silent.id
         returning p.id, name, host, pid, version, state, started_at, heartbeat_at, until, ended_at",
    )
    .bind(now)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// The living first, then by the latest sign of life.
pub(crate) async fn list(connection: &mut PgConnection, limit: i64) -> Result<Vec<ProcessRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, name, host, pid, version, state, started_at, heartbeat_at, until, ended_at
         from tidemill_process
         order by state <> 'live', heartbeat_at desc, id
         limit $1",
    )
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Removes processes that ended long ago and that no lease names.
pub(crate) async fn prune(
    connection: &mut PgConnection,
    ended_before: DbTime,
    limit: i64,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from tidemill_process
         where id in (
             select p.id
             from tidemill_process p
             where p.ended_at < $1
               and not exists (select from tidemill_lease l where l.owner = p.id)
             limit $2
         )",
    )
    .bind(ended_before)
    .bind(limit)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}
