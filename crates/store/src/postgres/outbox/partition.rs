//! Statements on the partitions of `outbox_event`. Their names cannot be bound; they are a word of ours and a number.

use crate::row::outbox::partition::PartitionRow;
use sqlx::{AssertSqlSafe, PgConnection};
use tidemill_domain::outbox::partition::Range;

/// The lock of those who make and drop partitions: `tide` and `outb`, as numbers.
const KEEPER: i64 = 0x7469_6465_6f75_7462;

/// Keeps other keepers out until the transaction ends; false when there is one already.
pub(crate) async fn lock(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select pg_try_advisory_xact_lock($1)").bind(KEEPER).fetch_one(connection).await
}

/// Whoever waits for a lock of a table keeps all out that come after it. So it waits for less than the time after
/// which PostgreSQL looks for deadlocks.
pub(crate) async fn hurry(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query("set local lock_timeout = '500ms'").execute(connection).await?;
    Ok(())
}

/// In the order of their ranges; the default partition, which has none, is the last. `rows` is an estimate; none when
/// nobody has estimated.
pub(crate) async fn list(connection: &mut PgConnection) -> Result<Vec<PartitionRow>, sqlx::Error> {
    sqlx::query_as(
        r"select c.relname::text as name, bound.ids[1]::bigint as from_id, bound.ids[2]::bigint as to_id,
                 nullif(c.reltuples, -1)::bigint as rows, pg_total_relation_size(c.oid) as bytes
          from pg_inherits i
          join pg_class c on c.oid = i.inhrelid
          cross join lateral (
              select regexp_match(
                  pg_get_expr(c.relpartbound, c.oid), '^FOR VALUES FROM \(''?(\d+)''?\) TO \(''?(\d+)''?\)$'
              ) as ids
          ) as bound
          where i.inhparent = 'outbox_event'::regclass
          order by from_id nulls last, name",
    )
    .fetch_all(connection)
    .await
}

/// The last id that was given out.
pub(crate) async fn last_id(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "select coalesce(pg_sequence_last_value(pg_get_serial_sequence('outbox_event', 'id')::regclass), 0)",
    )
    .fetch_one(connection)
    .await
}

/// By the index on `id`.
pub(crate) async fn highest_in_default(connection: &mut PgConnection) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar("select max(id) from outbox_event_default").fetch_one(connection).await
}

/// Made apart and then attached: `create table … partition of` would wait for all who write. Identity is not copied,
/// because a partition has that of its parent.
pub(crate) async fn create(connection: &mut PgConnection, range: Range) -> Result<(), sqlx::Error> {
    let Range { from, to } = range;
    let texts = [
        format!(
            "create table outbox_event_p{from} (
                 like outbox_event including defaults including constraints including generated including indexes
                 including storage
             )"
        ),
        format!(
            "alter table outbox_event attach partition outbox_event_p{from} for values from ({from}) to ({to})"
        ),
    ];
    for text in texts {
        sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *connection).await?;
    }
    Ok(())
}

/// How many events the default partition has, counted up to a limit.
pub(crate) async fn default_count(connection: &mut PgConnection, limit: i64) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("select count(*) from (select from outbox_event_default limit $1) as counted")
        .bind(limit)
        .fetch_one(connection)
        .await
}
