//! Statements on `tidemill_outbox_exception`, many rows at a time.
//!
//! Locks are taken in the order row of the relay, exceptions of slots in the order of their numbers.

pub(crate) mod operate;

use crate::codec::DbTime;
use crate::row::outbox::exception::{AggregateRow, DueRow, StandingRow};
use crate::tx::{ExceptionChange, Most, NewExceptionRow};
use sqlx::PgConnection;

/// Names our locks among the advisory ones: "exce".
const LOCK: i32 = 0x6578_6365;

/// Locks the exceptions of slots until the end of the transaction. Rows would not do: the one that an operator makes the
/// first of its aggregate may be one that a relay is just adding. They are no rows of `tidemill_outbox_slot`, so that
/// relays can take and leave slots meanwhile.
pub(crate) async fn lock(connection: &mut PgConnection, slots: &[i16]) -> Result<(), sqlx::Error> {
    sqlx::query(
        "select pg_advisory_xact_lock($1, ordered.slot)
         from (select distinct asked.slot from unnest($2::integer[]) as asked (slot) order by asked.slot) ordered",
    )
    .bind(LOCK)
    .bind(slots.iter().map(|slot| i32::from(*slot)).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(())
}

pub(crate) async fn slots(connection: &mut PgConnection, ids: &[i64]) -> Result<Vec<i16>, sqlx::Error> {
    sqlx::query_scalar(
        "select distinct slot
         from tidemill_outbox_exception
         where event_id = any($1)",
    )
    .bind(ids)
    .fetch_all(connection)
    .await
}

pub(crate) async fn known(connection: &mut PgConnection, ids: &[i64]) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "select event_id
         from tidemill_outbox_exception
         where event_id = any($1)",
    )
    .bind(ids)
    .fetch_all(connection)
    .await
}

/// Which of these have an open exception. Needs `tidemill_outbox_exception_aggregate`.
pub(crate) async fn open(
    connection: &mut PgConnection,
    keys: &[AggregateRow],
) -> Result<Vec<AggregateRow>, sqlx::Error> {
    sqlx::query_as(
        "select asked.slot, asked.aggregate_type, asked.aggregate_id
         from unnest($1::smallint[], $2::text[], $3::text[]) as asked (slot, aggregate_type, aggregate_id)
         where exists (
             select from tidemill_outbox_exception x
             where x.slot = asked.slot
               and x.aggregate_type = asked.aggregate_type
               and x.aggregate_id = asked.aggregate_id
               and x.state <> 'skipped'
         )",
    )
    .bind(keys.iter().map(|key| key.slot).collect::<Vec<_>>())
    .bind(keys.iter().map(|key| key.aggregate_type.as_str()).collect::<Vec<_>>())
    .bind(keys.iter().map(|key| key.aggregate_id.as_str()).collect::<Vec<_>>())
    .fetch_all(connection)
    .await
}

pub(crate) async fn insert(
    connection: &mut PgConnection,
    rows: &[NewExceptionRow<'_>],
    now: DbTime,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "insert into tidemill_outbox_exception
             (event_id, slot, seq, aggregate_type, aggregate_id, event_type, state, attempts, next_attempt_at, error,
              since, updated_at)
         select new.event_id, new.slot, new.seq, new.aggregate_type, new.aggregate_id, new.event_type, new.state,
                new.attempts, new.next_attempt_at, new.error, $11, $11
         from unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[],
                     $8::bigint[], $9::timestamptz[], $10::text[])
             as new (event_id, slot, seq, aggregate_type, aggregate_id, event_type, state, attempts, next_attempt_at,
                     error)
         on conflict (event_id) do nothing",
    )
    .bind(rows.iter().map(|row| row.new.event_id.get()).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| i16::from(row.new.slot.get())).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.new.seq.get()).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.new.aggregate.kind.as_str()).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.new.aggregate.id.as_str()).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.new.event_type.as_str()).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.state).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| i64::from(row.new.attempts)).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.next_attempt_at).collect::<Vec<_>>())
    .bind(rows.iter().map(|row| row.error.as_deref()).collect::<Vec<_>>())
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}

/// Each aggregate once: one of its open exceptions is waiting or parked. Needs `tidemill_outbox_exception_state`, so
/// that it does not matter how many are held.
pub(crate) async fn blocked(
    connection: &mut PgConnection,
    slots: &[i16],
) -> Result<Vec<AggregateRow>, sqlx::Error> {
    sqlx::query_as(
        "select slot, aggregate_type, aggregate_id
         from tidemill_outbox_exception
         where state in ('waiting', 'parked')
           and slot = any($1)",
    )
    .bind(slots)
    .fetch_all(connection)
    .await
}

/// The events that are due, the longest overdue first, each with those behind it. Every aggregate gets the same share
/// of what is read at most. Needs `tidemill_outbox_exception_due` and `tidemill_outbox_exception_aggregate`.
pub(crate) async fn due(
    connection: &mut PgConnection,
    slots: &[i16],
    now: DbTime,
    heads_max: i64,
    most: Most,
) -> Result<Vec<DueRow>, sqlx::Error> {
    sqlx::query_as(
        "with head as materialized (
             select event_id, slot, aggregate_type, aggregate_id, seq, next_attempt_at
             from tidemill_outbox_exception
             where state = 'waiting'
               and next_attempt_at <= $2
               and slot = any($1)
             order by next_attempt_at, event_id
             limit $3
         ),
         found as (
             select x.event_id, head.event_id as head, x.slot, x.seq, x.aggregate_type, x.aggregate_id, x.event_type,
                    x.revision, x.attempts, e.created_at, coalesce(x.topic, e.topic) as topic,
                    x.topic is not null as is_redirected,
                    case when x.is_edited then x.payload else e.payload end as payload,
                    case when x.is_edited then x.payload_bytes else e.payload_bytes end as payload_bytes,
                    case when x.is_edited then x.headers else e.headers end as headers,
                    row_number() over (order by head.next_attempt_at, head.event_id, x.seq) as turn
             from head
             cross join lateral (
                 select held.*
                 from tidemill_outbox_exception held
                 where held.slot = head.slot
                   and held.aggregate_type = head.aggregate_type
                   and held.aggregate_id = head.aggregate_id
                   and held.state <> 'skipped'
                   and held.seq >= head.seq
                 order by held.seq
                 limit (select greatest($4 / greatest(count(*), 1), 1) from head)
             ) x
             left join outbox_event e on e.id = x.event_id
         ),
         sized as (
             select found.*,
                    sum(coalesce(octet_length(payload), octet_length(payload_bytes), 0)
                        + coalesce(octet_length(headers), 0))
                        over (order by turn rows between unbounded preceding and 1 preceding) as bytes_before
             from found
         )
         select event_id, head, slot, seq, aggregate_type, aggregate_id, event_type, revision, attempts, created_at, topic,
                is_redirected, payload, payload_bytes, headers
         from sized
         where coalesce(bytes_before, 0) <= $5
         order by turn",
    )
    .bind(slots)
    .bind(now)
    .bind(heads_max)
    .bind(most.events)
    .bind(most.bytes)
    .fetch_all(connection)
    .await
}

/// In the order of their places.
pub(crate) async fn standing(
    connection: &mut PgConnection,
    ids: &[i64],
) -> Result<Vec<StandingRow>, sqlx::Error> {
    sqlx::query_as(
        "select event_id, slot, aggregate_type, aggregate_id, state, revision, attempts, next_attempt_at
         from tidemill_outbox_exception
         where event_id = any($1)
         order by slot, seq",
    )
    .bind(ids)
    .fetch_all(connection)
    .await
}

/// Deletes those that are still of the revision beside them.
pub(crate) async fn delete(connection: &mut PgConnection, rows: &[(i64, i64)]) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query(
        "delete from tidemill_outbox_exception x
         using unnest($1::bigint[], $2::bigint[]) as asked (event_id, revision)
         where x.event_id = asked.event_id
           and x.revision = asked.revision",
    )
    .bind(rows.iter().map(|(id, _)| *id).collect::<Vec<_>>())
    .bind(rows.iter().map(|(_, revision)| *revision).collect::<Vec<_>>())
    .execute(connection)
    .await?;
    Ok(deleted.rows_affected())
}

/// Saves those that are still of the revision that was seen.
pub(crate) async fn save(
    connection: &mut PgConnection,
    changes: &[ExceptionChange],
    now: DbTime,
) -> Result<u64, sqlx::Error> {
    let saved = sqlx::query(
        "update tidemill_outbox_exception x
         set state = new.state, next_attempt_at = new.next_attempt_at, attempts = new.attempts,
             revision = new.revision, error = coalesce(new.error, x.error), updated_at = $8
         from unnest($1::bigint[], $2::bigint[], $3::text[], $4::timestamptz[], $5::bigint[], $6::bigint[], $7::text[])
             as new (event_id, seen, state, next_attempt_at, attempts, revision, error)
         where x.event_id = new.event_id
           and x.revision = new.seen",
    )
    .bind(changes.iter().map(|change| change.event_id).collect::<Vec<_>>())
    .bind(changes.iter().map(|change| change.seen).collect::<Vec<_>>())
    .bind(changes.iter().map(|change| change.state).collect::<Vec<_>>())
    .bind(changes.iter().map(|change| change.next_attempt_at).collect::<Vec<_>>())
    .bind(changes.iter().map(|change| change.attempts).collect::<Vec<_>>())
    .bind(changes.iter().map(|change| change.revision).collect::<Vec<_>>())
    .bind(changes.iter().map(|change| change.error.as_deref()).collect::<Vec<_>>())
    .bind(now)
    .execute(connection)
    .await?;
    Ok(saved.rows_affected())
}

/// Makes the first open exception of each aggregate due, if it is held. The revision stays, as the rule says. Needs
/// `tidemill_outbox_exception_aggregate`.
pub(crate) async fn promote(
    connection: &mut PgConnection,
    keys: &[AggregateRow],
    now: DbTime,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_outbox_exception x
         set state = 'waiting', next_attempt_at = $4, updated_at = $4
         from (
             select (
                 select open.event_id
                 from tidemill_outbox_exception open
                 where open.slot = asked.slot
                   and open.aggregate_type = asked.aggregate_type
                   and open.aggregate_id = asked.aggregate_id
                   and open.state <> 'skipped'
                 order by open.seq
                 limit 1
             ) as event_id
             from unnest($1::smallint[], $2::text[], $3::text[]) as asked (slot, aggregate_type, aggregate_id)
         ) head
         where x.event_id = head.event_id
           and x.state = 'held'",
    )
    .bind(keys.iter().map(|key| key.slot).collect::<Vec<_>>())
    .bind(keys.iter().map(|key| key.aggregate_type.as_str()).collect::<Vec<_>>())
    .bind(keys.iter().map(|key| key.aggregate_id.as_str()).collect::<Vec<_>>())
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}
