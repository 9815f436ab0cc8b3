//! Statements on `tidemill_outbox_exception`, many rows at a time. Lists travel as JSON texts.

pub(crate) mod operate;

use crate::codec::DbTime;
use crate::row::outbox::exception::{AggregateRow, DueRow, StandingRow};
use crate::tx::{ExceptionChange, Most, NewExceptionRow};
use serde_json::json;
use sqlx::SqliteConnection;

/// Nothing to do: whoever writes is alone.
pub(crate) async fn lock(_connection: &mut SqliteConnection, _slots: &[i16]) -> Result<(), sqlx::Error> {
    Ok(())
}

pub(crate) async fn slots(connection: &mut SqliteConnection, ids: &[i64]) -> Result<Vec<i16>, sqlx::Error> {
    sqlx::query_scalar(
        "select distinct slot
         from tidemill_outbox_exception
         where event_id in (select value from json_each($1))",
    )
    .bind(json!(ids).to_string())
    .fetch_all(connection)
    .await
}

pub(crate) async fn known(connection: &mut SqliteConnection, ids: &[i64]) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "select event_id
         from tidemill_outbox_exception
         where event_id in (select value from json_each($1))",
    )
    .bind(json!(ids).to_string())
    .fetch_all(connection)
    .await
}

/// Which of these have an open exception. Needs `tidemill_outbox_exception_aggregate`.
pub(crate) async fn open(
    connection: &mut SqliteConnection,
    keys: &[AggregateRow],
) -> Result<Vec<AggregateRow>, sqlx::Error> {
    sqlx::query_as(
        "select asked.slot as slot, asked.aggregate_type as aggregate_type, asked.aggregate_id as aggregate_id
         from (
             select json_extract(value, '$[0]') as slot, json_extract(value, '$[1]') as aggregate_type,
                    json_extract(value, '$[2]') as aggregate_id
             from json_each($1)
         ) asked
         where exists (
             select 1 from tidemill_outbox_exception x
             where x.slot = asked.slot
               and x.aggregate_type = asked.aggregate_type
               and x.aggregate_id = asked.aggregate_id
               and x.state <> 'skipped'
         )",
    )
    .bind(list(keys))
    .fetch_all(connection)
    .await
}

pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    rows: &[NewExceptionRow<'_>],
    now: DbTime,
) -> Result<(), sqlx::Error> {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let new = row.new;
            json!([
                new.event_id.get(),
                new.slot.get(),
                new.seq.get(),
                new.aggregate.kind,
                new.aggregate.id,
                new.event_type,
                row.state,
                new.attempts,
                row.next_attempt_at.map(|at| at.0.as_micros()),
                row.error,
            ])
        })
        .collect();
    sqlx::query(
        "insert into tidemill_outbox_exception
             (event_id, slot, seq, aggregate_type, aggregate_id, event_type, state, attempts, next_attempt_at, error,
              since, updated_at)
         select json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
                json_extract(value, '$[3]'), json_extract(value, '$[4]'), json_extract(value, '$[5]'),
                json_extract(value, '$[6]'), json_extract(value, '$[7]'), json_extract(value, '$[8]'),
                json_extract(value, '$[9]'), $2, $2
         from json_each($1)
         where true
         on conflict (event_id) do nothing",
    )
    .bind(json!(rows).to_string())
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}

/// Each aggregate once: one of its open exceptions is waiting or parked. Needs `tidemill_outbox_exception_state`, so
/// that it does not matter how many are held.
pub(crate) async fn blocked(
    connection: &mut SqliteConnection,
    slots: &[i16],
) -> Result<Vec<AggregateRow>, sqlx::Error> {
    sqlx::query_as(
        "select slot, aggregate_type, aggregate_id
         from tidemill_outbox_exception
         where state in ('waiting', 'parked')
           and slot in (select value from json_each($1))",
    )
    .bind(json!(slots).to_string())
    .fetch_all(connection)
    .await
}

/// The events that are due, the longest overdue first, each with those behind it. Every aggregate gets the same share
/// of what is read at most; the place of the first that is too many is looked up. Needs `tidemill_outbox_exception_due` and
/// `tidemill_outbox_exception_aggregate`.
pub(crate) async fn due(
    connection: &mut SqliteConnection,
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
               and slot in (select value from json_each($1))
             order by next_attempt_at, event_id
             limit $3
         ),
         share as materialized (
             select head.*, (
                 select over.seq
                 from tidemill_outbox_exception over
                 where over.slot = head.slot
                   and over.aggregate_type = head.aggregate_type
                   and over.aggregate_id = head.aggregate_id
                   and over.state <> 'skipped'
                   and over.seq >= head.seq
                 order by over.seq
                 limit 1 offset max($4 / (select max(count(*), 1) from head), 1)
             ) as over_seq
             from head
         ),
         found as materialized (
             select x.event_id as event_id, share.event_id as head,
                    row_number() over (order by share.next_attempt_at, share.event_id, x.seq) as turn,
                    case when x.is_edited
                         then coalesce(octet_length(x.payload), octet_length(x.payload_bytes), 0)
                              + coalesce(octet_length(x.headers), 0)
                         else coalesce(octet_length(e.payload), octet_length(e.payload_bytes), 0)
                              + coalesce(octet_length(e.headers), 0) end as bytes
             from share
             join tidemill_outbox_exception x
                 on x.slot = share.slot
                and x.aggregate_type = share.aggregate_type
                and x.aggregate_id = share.aggregate_id
                and x.state <> 'skipped'
                and x.seq >= share.seq
                and x.seq < coalesce(share.over_seq, 9223372036854775807)
             left join outbox_event e on e.id = x.event_id
         ),
         sized as materialized (
             select event_id, head, turn,
                    sum(bytes) over (order by turn rows between unbounded preceding and 1 preceding) as bytes_before
             from found
         )
         select x.event_id as event_id, sized.head as head, x.slot as slot, x.seq as seq,
                x.aggregate_type as aggregate_type, x.aggregate_id as aggregate_id, x.event_type as event_type,
                x.revision as revision, x.attempts as attempts, e.created_at as created_at,
                coalesce(x.topic, e.topic) as topic, x.topic is not null as is_redirected,
                case when x.is_edited then x.payload else e.payload end as payload,
                case when x.is_edited then x.payload_bytes else e.payload_bytes end as payload_bytes,
                case when x.is_edited then x.headers else e.headers end as headers
         from sized
         join tidemill_outbox_exception x on x.event_id = sized.event_id
         left join outbox_event e on e.id = x.event_id
         where coalesce(sized.bytes_before, 0) <= $5
         order by sized.turn",
    )
    .bind(json!(slots).to_string())
    .bind(now)
    .bind(heads_max)
    .bind(most.events)
    .bind(most.bytes)
    .fetch_all(connection)
    .await
}

/// In the order of their places.
pub(crate) async fn standing(
    connection: &mut SqliteConnection,
    ids: &[i64],
) -> Result<Vec<StandingRow>, sqlx::Error> {
    sqlx::query_as(
        "select event_id, slot, aggregate_type, aggregate_id, state, revision, attempts, next_attempt_at
         from tidemill_outbox_exception
         where event_id in (select value from json_each($1))
         order by slot, seq",
    )
    .bind(json!(ids).to_string())
    .fetch_all(connection)
    .await
}

/// Deletes those that are still of the revision beside them.
pub(crate) async fn delete(
    connection: &mut SqliteConnection,
    rows: &[(i64, i64)],
) -> Result<u64, sqlx::Error> {
    let deleted = sqlx::query(
        "delete from tidemill_outbox_exception
         where event_id in (
             select x.event_id
             from json_each($1) asked
             join tidemill_outbox_exception x on x.event_id = json_extract(asked.value, '$[0]')
             where x.revision = json_extract(asked.value, '$[1]')
         )",
    )
    .bind(json!(rows).to_string())
    .execute(connection)
    .await?;
    Ok(deleted.rows_affected())
}

/// Saves those that are still of the revision that was seen.
pub(crate) async fn save(
    connection: &mut SqliteConnection,
    changes: &[ExceptionChange],
    now: DbTime,
) -> Result<u64, sqlx::Error> {
    let rows: Vec<_> = changes
        .iter()
        .map(|change| {
            let next_attempt_at = change.next_attempt_at.map(|at| at.0.as_micros());
            json!([
                change.event_id,
                change.seen,
                change.state,
                next_attempt_at,
                change.attempts,
                change.revision,
                change.error,
            ])
        })
        .collect();
    let saved = sqlx::query(
        "update tidemill_outbox_exception as x
         set state = new.state, next_attempt_at = new.next_attempt_at, attempts = new.attempts,
             revision = new.revision, error = coalesce(new.error, x.error), updated_at = $2
         from (
             select json_extract(value, '$[0]') as event_id, json_extract(value, '$[1]') as seen,
                    json_extract(value, '$[2]') as state, json_extract(value, '$[3]') as next_attempt_at,
                    json_extract(value, '$[4]') as attempts, json_extract(value, '$[5]') as revision,
                    json_extract(value, '$[6]') as error
             from json_each($1)
         ) as new
         where x.event_id = new.event_id
           and x.revision = new.seen",
    )
    .bind(json!(rows).to_string())
    .bind(now)
    .execute(connection)
    .await?;
    Ok(saved.rows_affected())
}

/// Makes the first open exception of each aggregate due, if it is held. The revision stays, as the rule says. Needs
/// `tidemill_outbox_exception_aggregate`.
pub(crate) async fn promote(
    connection: &mut SqliteConnection,
    keys: &[AggregateRow],
    now: DbTime,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_outbox_exception
         set state = 'waiting', next_attempt_at = $2, updated_at = $2
         where state = 'held'
           and event_id in (
               select (
                   select open.event_id
                   from tidemill_outbox_exception open
                   where open.slot = json_extract(asked.value, '$[0]')
                     and open.aggregate_type = json_extract(asked.value, '$[1]')
                     and open.aggregate_id = json_extract(asked.value, '$[2]')
                     and open.state <> 'skipped'
                   order by open.seq
                   limit 1
               )
               from json_each($1) asked
           )",
    )
    .bind(list(keys))
    .bind(now)
    .execute(connection)
    .await?;
    Ok(())
}

fn list(keys: &[AggregateRow]) -> String {
    let rows: Vec<_> =
        keys.iter().map(|key| json!([key.slot, key.aggregate_type, key.aggregate_id])).collect();
    json!(rows).to_string()
}
