//! Statements that measure: how full pools are, how long their queues take, and who left them.

use crate::codec::DbTime;
use crate::row::pool::LevelRow;
use sqlx::SqliteConnection;

/// By name. Only the tickets of pools that somebody waits for are looked at.
pub(crate) async fn levels(
    connection: &mut SqliteConnection,
    limit: i64,
) -> Result<Vec<LevelRow>, sqlx::Error> {
    sqlx::query_as(
        "select name, settings, usage, active, waiting, suspect,
                case when waiting > 0 then (
                    select min(t.enqueued_at)
                    from tidemill_pool_ticket t
                    where t.pool = p.name
                      and t.ended_at is null
                      and t.state = 'waiting'
                ) end as waiting_since
         from tidemill_pool p
         order by name
         limit $1",
    )
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// By pool, the mean wait in microseconds of those that got their units since then and had to wait. They are live, or
/// ended since then too; so each half has its index.
pub(crate) async fn waits(
    connection: &mut SqliteConnection,
    since: DbTime,
) -> Result<Vec<(String, i64)>, sqlx::Error> {
    sqlx::query_as(
        "select granted.pool, cast(avg(granted.started_at - granted.enqueued_at) as integer)
         from (
             select t.pool, t.enqueued_at, t.started_at
             from tidemill_pool p
             join tidemill_pool_ticket t on t.pool = p.name
             where t.ended_at is null
               and t.started_at >= $1
             union all
             select t.pool, t.enqueued_at, t.started_at
             from tidemill_pool p
             join tidemill_pool_ticket t on t.pool = p.name
             where t.ended_at >= $1
               and t.started_at >= $1
         ) as granted
         where granted.started_at > granted.enqueued_at
         group by granted.pool",
    )
    .bind(since)
    .fetch_all(connection)
    .await
}

/// By pool, how many left the queue since then without units of their own accord.
pub(crate) async fn timeouts(
    connection: &mut SqliteConnection,
    since: DbTime,
) -> Result<Vec<(String, i64)>, sqlx::Error> {
    sqlx::query_as(
        "select t.pool, count(*)
         from tidemill_pool p
         join tidemill_pool_ticket t on t.pool = p.name
         where t.ended_at >= $1
           and t.started_at is null
           and t.ending in ('stopped_asking', 'gave_up', 'released', 'released_failed')
         group by t.pool",
    )
    .bind(since)
    .fetch_all(connection)
    .await
}
