//! Statements on `tidemill_schedule` and `tidemill_schedule_tick`.

use crate::codec::DbTime;
use crate::row::schedule::{ScheduleRow, TickRow};
use sqlx::PgConnection;

/// Nothing happens when there is one of this name; whoever is just inserting it is waited for.
pub(crate) async fn insert(connection: &mut PgConnection, row: &ScheduleRow) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "insert into tidemill_schedule
             (name, job, cron, zone, windows, outside, missed, overlap, grace_seconds, parameters, fingerprint,
              defined_at, next_at, is_waiting, look_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
         on conflict (name) do nothing",
    )
    .bind(&row.name)
    .bind(&row.job)
    .bind(&row.cron)
    .bind(&row.zone)
    .bind(&row.windows)
    .bind(&row.outside)
    .bind(&row.missed)
    .bind(&row.overlap)
    .bind(row.grace_seconds)
    .bind(&row.parameters)
    .bind(&row.fingerprint)
    .bind(row.defined_at)
    .bind(row.next_at)
    .bind(row.is_waiting)
    .bind(row.look_at)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

/// Puts a new definition in the place of the one that there is.
pub(crate) async fn redefine(connection: &mut PgConnection, row: &ScheduleRow) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_schedule
         set job = $2, cron = $3, zone = $4, windows = $5, outside = $6, missed = $7, overlap = $8,
             grace_seconds = $9, parameters = $10, fingerprint = $11, defined_at = $12, next_at = $13,
             is_waiting = $14, look_at = $15
         where name = $1",
    )
    .bind(&row.name)
    .bind(&row.job)
    .bind(&row.cron)
    .bind(&row.zone)
    .bind(&row.windows)
    .bind(&row.outside)
    .bind(&row.missed)
    .bind(&row.overlap)
    .bind(row.grace_seconds)
    .bind(&row.parameters)
    .bind(&row.fingerprint)
    .bind(row.defined_at)
    .bind(row.next_at)
    .bind(row.is_waiting)
    .bind(row.look_at)
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn lock(
    connection: &mut PgConnection,
    name: &str,
) -> Result<Option<ScheduleRow>, sqlx::Error> {
    sqlx::query_as(
        "select name, job, cron, zone, windows, outside, missed, overlap, grace_seconds, parameters, fingerprint,
                defined_at, next_at, is_waiting, look_at, last_tick_at, paused_at, paused_by, pause_reason
         from tidemill_schedule
         where name = $1
         for update",
    )
    .bind(name)
    .fetch_optional(connection)
    .await
}

pub(crate) async fn find(
    connection: &mut PgConnection,
    name: &str,
) -> Result<Option<ScheduleRow>, sqlx::Error> {
    sqlx::query_as(
        "select name, job, cron, zone, windows, outside, missed, overlap, grace_seconds, parameters, fingerprint,
                defined_at, next_at, is_waiting, look_at, last_tick_at, paused_at, paused_by, pause_reason
         from tidemill_schedule
         where name = $1",
    )
    .bind(name)
    .fetch_optional(connection)
    .await
}

/// Locks the one that has been due for the longest, of these jobs; those that somebody else has locked are passed
/// over.
pub(crate) async fn lock_due(
    connection: &mut PgConnection,
    now: DbTime,
    jobs: &[&str],
) -> Result<Option<ScheduleRow>, sqlx::Error> {
    sqlx::query_as(
        "select name, job, cron, zone, windows, outside, missed, overlap, grace_seconds, parameters, fingerprint,
                defined_at, next_at, is_waiting, look_at, last_tick_at, paused_at, paused_by, pause_reason
         from tidemill_schedule
         where look_at <= $1
           and paused_at is null
           and job = any($2)
         order by look_at, name
         limit 1
         for update skip locked",
    )
    .bind(now)
    .bind(jobs)
    .fetch_optional(connection)
    .await
}

/// When the next of these jobs is to be looked at.
pub(crate) async fn next_look(
    connection: &mut PgConnection,
    jobs: &[&str],
) -> Result<Option<DbTime>, sqlx::Error> {
    sqlx::query_scalar(
        "select min(look_at)
         from tidemill_schedule
         where paused_at is null
           and job = any($1)",
    )
    .bind(jobs)
    .fetch_one(connection)
    .await
}

pub(crate) async fn save_standing(
    connection: &mut PgConnection,
    row: &ScheduleRow,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_schedule
         set next_at = $2, is_waiting = $3, look_at = $4, last_tick_at = $5
         where name = $1",
    )
    .bind(&row.name)
    .bind(row.next_at)
    .bind(row.is_waiting)
    .bind(row.look_at)
    .bind(row.last_tick_at)
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn save_pause(connection: &mut PgConnection, row: &ScheduleRow) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_schedule
         set paused_at = $2, paused_by = $3, pause_reason = $4
         where name = $1",
    )
    .bind(&row.name)
    .bind(row.paused_at)
    .bind(&row.paused_by)
    .bind(&row.pause_reason)
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn list(connection: &mut PgConnection, limit: i64) -> Result<Vec<ScheduleRow>, sqlx::Error> {
    sqlx::query_as(
        "select name, job, cron, zone, windows, outside, missed, overlap, grace_seconds, parameters, fingerprint,
                defined_at, next_at, is_waiting, look_at, last_tick_at, paused_at, paused_by, pause_reason
         from tidemill_schedule
         order by name
         limit $1",
    )
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Whether an execution of one of its ticks, or of the same instance after it, has not ended or is to be restarted
/// by itself.
pub(crate) async fn is_unresolved(connection: &mut PgConnection, name: &str) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "select exists (
             select 1
             from batch_job_execution e
             join batch_job_execution first on first.job_instance_id = e.job_instance_id
             join tidemill_schedule_tick t on t.execution_id = first.job_execution_id
             where t.schedule = $1
               and e.status in ('STARTING', 'STARTED', 'STOPPING', 'UNKNOWN')
         ) or exists (
             select 1
             from tidemill_job_execution n
             join batch_job_execution e on e.job_execution_id = n.job_execution_id
             join batch_job_execution first on first.job_instance_id = e.job_instance_id
             join tidemill_schedule_tick t on t.execution_id = first.job_execution_id
             where t.schedule = $1
               and n.restart_due
         )",
    )
    .bind(name)
    .fetch_one(connection)
    .await
}

/// The second line of defence: zero when something was decided about this tick before.
pub(crate) async fn tick_insert(connection: &mut PgConnection, row: &TickRow) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "insert into tidemill_schedule_tick (schedule, tick_at, outcome, reason, execution_id, at)
         values ($1, $2, $3, $4, $5, $6)
         on conflict (schedule, tick_at) do nothing",
    )
    .bind(&row.schedule)
    .bind(row.tick_at)
    .bind(&row.outcome)
    .bind(&row.reason)
    .bind(row.execution_id)
    .bind(row.at)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

pub(crate) async fn tick_exists(
    connection: &mut PgConnection,
    schedule: &str,
    tick_at: DbTime,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar(
        "select exists (
             select 1
             from tidemill_schedule_tick
             where schedule = $1
               and tick_at = $2
         )",
    )
    .bind(schedule)
    .bind(tick_at)
    .fetch_one(connection)
    .await
}

/// From the newest to the oldest.
pub(crate) async fn tick_list(
    connection: &mut PgConnection,
    schedule: &str,
    before: Option<DbTime>,
    limit: i64,
) -> Result<Vec<TickRow>, sqlx::Error> {
    sqlx::query_as(
        "select schedule, tick_at, outcome, reason, execution_id, at
         from tidemill_schedule_tick
         where schedule = $1
           and ($2::timestamptz is null or tick_at < $2)
         order by tick_at desc
         limit $3",
    )
    .bind(schedule)
    .bind(before)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Forgets all but the newest.
pub(crate) async fn tick_prune(
    connection: &mut PgConnection,
    schedule: &str,
    keep: i64,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from tidemill_schedule_tick
         where schedule = $1
           and tick_at <= (
               select tick_at
               from tidemill_schedule_tick
               where schedule = $1
               order by tick_at desc
               limit 1
               offset $2
           )",
    )
    .bind(schedule)
    .bind(keep)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

/// Its ticks go with it.
pub(crate) async fn delete(connection: &mut PgConnection, name: &str) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from tidemill_schedule
         where name = $1",
    )
    .bind(name)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}
