//! Statements on `tidemill_alert`, `tidemill_alert_silence` and `tidemill_alert_delivery`.

use crate::codec::DbTime;
use crate::row::{AlertDeliveryRow, AlertRow, AlertSilenceRow};
use sqlx::PgConnection;

pub(crate) async fn lock(
    connection: &mut PgConnection,
    rule: &str,
    subject: &str,
) -> Result<Option<AlertRow>, sqlx::Error> {
    sqlx::query_as(
        "select rule, subject, state, since, fired_at, resolved_at, announced_at, value, severity, updated_at
         from tidemill_alert
         where rule = $1
           and subject = $2
         for update",
    )
    .bind(rule)
    .bind(subject)
    .fetch_optional(connection)
    .await
}

pub(crate) async fn save(connection: &mut PgConnection, row: &AlertRow) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into tidemill_alert
             (rule, subject, state, since, fired_at, resolved_at, announced_at, value, severity, updated_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
         on conflict (rule, subject) do update
         set state = excluded.state, since = excluded.since, fired_at = excluded.fired_at,
             resolved_at = excluded.resolved_at, announced_at = excluded.announced_at,
             value = excluded.value, severity = excluded.severity, updated_at = excluded.updated_at",
    )
    .bind(&row.rule)
    .bind(&row.subject)
    .bind(&row.state)
    .bind(row.since)
    .bind(row.fired_at)
    .bind(row.resolved_at)
    .bind(row.announced_at)
    .bind(row.value)
    .bind(&row.severity)
    .bind(row.updated_at)
    .execute(connection)
    .await?;
    Ok(())
}

/// What is breached, and what people have not heard the end of.
pub(crate) async fn open(connection: &mut PgConnection, limit: i64) -> Result<Vec<AlertRow>, sqlx::Error> {
    sqlx::query_as(
        "select rule, subject, state, since, fired_at, resolved_at, announced_at, value, severity, updated_at
         from tidemill_alert
         where state in ('pending', 'firing')
            or announced_at is not null
         order by rule, subject
         limit $1",
    )
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// The firing first, then the pending, then by the latest change.
pub(crate) async fn list(connection: &mut PgConnection, limit: i64) -> Result<Vec<AlertRow>, sqlx::Error> {
    sqlx::query_as(
        "select rule, subject, state, since, fired_at, resolved_at, announced_at, value, severity, updated_at
         from tidemill_alert
         order by state <> 'firing', state <> 'pending', updated_at desc, rule, subject
         limit $1",
    )
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Removes alerts that have been over for long and that people know to be over.
pub(crate) async fn prune(
    connection: &mut PgConnection,
    updated_before: DbTime,
    limit: i64,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from tidemill_alert
         where (rule, subject) in (
             select rule, subject
             from tidemill_alert
             where state in ('inactive', 'resolved')
               and announced_at is null
               and updated_at < $1
             limit $2
         )",
    )
    .bind(updated_before)
    .bind(limit)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

pub(crate) async fn silence_insert(
    connection: &mut PgConnection,
    row: &AlertSilenceRow,
) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "insert into tidemill_alert_silence (rule, subject, until, reason, actor, created_at)
         values ($1, $2, $3, $4, $5, $6)
         returning id",
    )
    .bind(&row.rule)
    .bind(&row.subject)
    .bind(row.until)
    .bind(&row.reason)
    .bind(&row.actor)
    .bind(row.created_at)
    .fetch_one(connection)
    .await
}

/// Ends the silences of exactly this rule and subject; returns how many.
pub(crate) async fn silence_end(
    connection: &mut PgConnection,
    rule: &str,
    subject: Option<&str>,
    now: DbTime,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "update tidemill_alert_silence
         set ended_at = $3
         where rule = $1
           and subject is not distinct from $2
           and ended_at is null
           and until > $3",
    )
    .bind(rule)
    .bind(subject)
    .bind(now)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

pub(crate) async fn silence_in_force(
    connection: &mut PgConnection,
    now: DbTime,
    limit: i64,
) -> Result<Vec<AlertSilenceRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, rule, subject, until, reason, actor, created_at, ended_at
         from tidemill_alert_silence
         where ended_at is null
           and until > $1
         order by until desc, id
         limit $2",
    )
    .bind(now)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// The silences that are in force for one alert.
pub(crate) async fn silence_covering(
    connection: &mut PgConnection,
    rule: &str,
    subject: &str,
    now: DbTime,
) -> Result<Vec<AlertSilenceRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, rule, subject, until, reason, actor, created_at, ended_at
         from tidemill_alert_silence
         where rule = $1
           and (subject is null or subject = $2)
           and ended_at is null
           and until > $3",
    )
    .bind(rule)
    .bind(subject)
    .bind(now)
    .fetch_all(connection)
    .await
}

pub(crate) async fn silence_prune(
    connection: &mut PgConnection,
    ended_before: DbTime,
    limit: i64,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from tidemill_alert_silence
         where id in (
             select id
             from tidemill_alert_silence
             where least(until, ended_at) < $1
             limit $2
         )",
    )
    .bind(ended_before)
    .bind(limit)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

pub(crate) async fn delivery_insert(
    connection: &mut PgConnection,
    row: &AlertDeliveryRow,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into tidemill_alert_delivery
             (rule, subject, notice, channel, body, created_at, attempt, run_after)
         values ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(&row.rule)
    .bind(&row.subject)
    .bind(&row.notice)
    .bind(&row.channel)
    .bind(&row.body)
    .bind(row.created_at)
    .bind(row.attempt)
    .bind(row.run_after)
    .execute(connection)
    .await?;
    Ok(())
}

/// Of each alert and channel only the oldest that is open: an end must not arrive before its beginning.
pub(crate) async fn delivery_due(
    connection: &mut PgConnection,
    now: DbTime,
    limit: i64,
) -> Result<Vec<AlertDeliveryRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, rule, subject, notice, channel, body, created_at, attempt, run_after, delivered_at,
             failed_at, last_error
         from tidemill_alert_delivery d
         where delivered_at is null
           and failed_at is null
           and run_after <= $1
           and not exists (
               select 1
               from tidemill_alert_delivery earlier
               where earlier.rule = d.rule
                 and earlier.subject = d.subject
                 and earlier.channel = d.channel
                 and earlier.id < d.id
                 and earlier.delivered_at is null
                 and earlier.failed_at is null
           )
         order by run_after, id
         limit $2",
    )
    .bind(now)
    .bind(limit)
    .fetch_all(connection)
    .await
}

pub(crate) async fn delivery_lock(
    connection: &mut PgConnection,
    id: i64,
) -> Result<Option<AlertDeliveryRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, rule, subject, notice, channel, body, created_at, attempt, run_after, delivered_at,
             failed_at, last_error
         from tidemill_alert_delivery
         where id = $1
         for update",
    )
    .bind(id)
    .fetch_optional(connection)
    .await
}

pub(crate) async fn delivery_save(
    connection: &mut PgConnection,
    row: &AlertDeliveryRow,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_alert_delivery
         set attempt = $2, run_after = $3, delivered_at = $4, failed_at = $5, last_error = $6
         where id = $1",
    )
    .bind(row.id)
    .bind(row.attempt)
    .bind(row.run_after)
    .bind(row.delivered_at)
    .bind(row.failed_at)
    .bind(&row.last_error)
    .execute(connection)
    .await?;
    Ok(())
}

/// The newest first.
pub(crate) async fn delivery_list(
    connection: &mut PgConnection,
    limit: i64,
) -> Result<Vec<AlertDeliveryRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, rule, subject, notice, channel, body, created_at, attempt, run_after, delivered_at,
             failed_at, last_error
         from tidemill_alert_delivery
         order by id desc
         limit $1",
    )
    .bind(limit)
    .fetch_all(connection)
    .await
}

pub(crate) async fn delivery_prune(
    connection: &mut PgConnection,
    ended_before: DbTime,
    limit: i64,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::query(
        "delete from tidemill_alert_delivery
         where id in (
             select id
             from tidemill_alert_delivery
             where coalesce(delivered_at, failed_at) < $1
             limit $2
         )",
    )
    .bind(ended_before)
    .bind(limit)
    .execute(connection)
    .await?;
    Ok(done.rows_affected())
}

pub(crate) async fn count_died(connection: &mut PgConnection, since: DbTime) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "select count(*)
         from tidemill_process
         where state = 'dead'
           and ended_at > $1",
    )
    .bind(since)
    .fetch_one(connection)
    .await
}

pub(crate) async fn count_live(connection: &mut PgConnection, now: DbTime) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "select count(*)
         from tidemill_process
         where state = 'live'
           and until > $1",
    )
    .bind(now)
    .fetch_one(connection)
    .await
}
