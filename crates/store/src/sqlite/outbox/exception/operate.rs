//! Statements on `tidemill_outbox_exception` by which people look at events and change what is published of them.

use crate::row::outbox::exception::{ContentRow, ExceptionRow};
use crate::tx::{EditColumns, ExceptionFilterRow};
use serde_json::json;
use sqlx::SqliteConnection;

/// Exceptions as they are shown, without what they say; the rest of the statement says which.
macro_rules! exceptions {
    ($rest:literal) => {
        concat!(
            "select x.event_id as event_id, x.slot as slot, x.seq as seq, x.aggregate_type as aggregate_type,
                    x.aggregate_id as aggregate_id, x.event_type as event_type, x.state as state,
                    x.revision as revision, x.attempts as attempts, x.next_attempt_at as next_attempt_at,
                    x.error as error, x.since as since, x.updated_at as updated_at, x.is_edited as is_edited,
                    x.topic as own_topic, e.topic as event_topic,
                    case when x.state = 'held' then (
                        select open.event_id
                        from tidemill_outbox_exception open
                        where open.slot = x.slot
                          and open.aggregate_type = x.aggregate_type
                          and open.aggregate_id = x.aggregate_id
                          and open.state <> 'skipped'
                        order by open.seq
                        limit 1
                    ) end as behind
             from tidemill_outbox_exception x
             left join outbox_event e on e.id = x.event_id
             ",
            $rest
        )
    };
}

/// The oldest first.
pub(crate) async fn list(
    connection: &mut SqliteConnection,
    filter: &ExceptionFilterRow<'_>,
    after: i64,
    limit: i64,
) -> Result<Vec<ExceptionRow>, sqlx::Error> {
    sqlx::query_as(exceptions!(
        "where x.event_id > $1
           and x.state in (select value from json_each($2))
           and ($3 is null or x.slot = $3)
           and ($4 is null or x.aggregate_type = $4)
           and ($5 is null or x.aggregate_id = $5)
           and ($6 is null or coalesce(x.topic, e.topic) = $6)
           and ($7 is null or x.event_type = $7)
           and ($8 is null or instr(x.error, $8) > 0)
         order by x.event_id
         limit $9"
    ))
    .bind(after)
    .bind(json!(filter.states).to_string())
    .bind(filter.slot)
    .bind(filter.aggregate_type)
    .bind(filter.aggregate_id)
    .bind(filter.topic)
    .bind(filter.event_type)
    .bind(filter.error_contains)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// How many there are, counted up to `limit`.
pub(crate) async fn count(
    connection: &mut SqliteConnection,
    filter: &ExceptionFilterRow<'_>,
    limit: i64,
) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "select count(*)
         from (
             select 1
             from tidemill_outbox_exception x
             left join outbox_event e on e.id = x.event_id
             where x.state in (select value from json_each($1))
               and ($2 is null or x.slot = $2)
               and ($3 is null or x.aggregate_type = $3)
               and ($4 is null or x.aggregate_id = $4)
               and ($5 is null or coalesce(x.topic, e.topic) = $5)
               and ($6 is null or x.event_type = $6)
               and ($7 is null or instr(x.error, $7) > 0)
             limit $8
         ) as counted",
    )
    .bind(json!(filter.states).to_string())
    .bind(filter.slot)
    .bind(filter.aggregate_type)
    .bind(filter.aggregate_id)
    .bind(filter.topic)
    .bind(filter.event_type)
    .bind(filter.error_contains)
    .bind(limit)
    .fetch_one(connection)
    .await
}

pub(crate) async fn find(
    connection: &mut SqliteConnection,
    ids: &[i64],
) -> Result<Vec<ExceptionRow>, sqlx::Error> {
    sqlx::query_as(exceptions!("where x.event_id in (select value from json_each($1))"))
        .bind(json!(ids).to_string())
        .fetch_all(connection)
        .await
}

/// What would be published of one.
pub(crate) async fn content(
    connection: &mut SqliteConnection,
    id: i64,
) -> Result<Option<ContentRow>, sqlx::Error> {
    sqlx::query_as(
        "select e.created_at as created_at, coalesce(x.topic, e.topic) as topic,
                case when x.is_edited then x.payload else e.payload end as payload,
                case when x.is_edited then x.payload_bytes else e.payload_bytes end as payload_bytes,
                case when x.is_edited then x.headers else e.headers end as headers
         from tidemill_outbox_exception x
         left join outbox_event e on e.id = x.event_id
         where x.event_id = $1",
    )
    .bind(id)
    .fetch_optional(connection)
    .await
}

/// Overrides what these say. What is not replaced is taken over from what they say now.
pub(crate) async fn edit(
    connection: &mut SqliteConnection,
    ids: &[i64],
    edit: &EditColumns<'_>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_outbox_exception as x
         set is_edited = 1,
             payload = case when $2 then $3 when x.is_edited then x.payload else e.payload end,
             payload_bytes = case when $2 then $4 when x.is_edited then x.payload_bytes else e.payload_bytes end,
             headers = case when $5 then $6 when x.is_edited then x.headers else e.headers end
         from outbox_event e
         where e.id = x.event_id
           and x.event_id in (select value from json_each($1))",
    )
    .bind(json!(ids).to_string())
    .bind(edit.replaces_payload)
    .bind(edit.payload)
    .bind(edit.payload_bytes)
    .bind(edit.replaces_headers)
    .bind(&edit.headers)
    .execute(connection)
    .await?;
    Ok(())
}

/// Overrides where these go.
pub(crate) async fn redirect(
    connection: &mut SqliteConnection,
    ids: &[i64],
    topic: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_outbox_exception
         set topic = $2
         where event_id in (select value from json_each($1))",
    )
    .bind(json!(ids).to_string())
    .bind(topic)
    .execute(connection)
    .await?;
    Ok(())
}
