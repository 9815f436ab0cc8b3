//! Statements on `tidemill_outbox_exception` by which people look at events and change what is published of them.

use crate::row::outbox::exception::{ContentRow, ExceptionRow};
use crate::tx::{EditColumns, ExceptionFilterRow};
use sqlx::PgConnection;

/// Exceptions as they are shown, without what they say; the rest of the statement says which.
macro_rules! exceptions {
    ($rest:literal) => {
        concat!(
            "select x.event_id, x.slot, x.seq, x.aggregate_type, x.aggregate_id, x.event_type, x.state, x.revision,
                    x.attempts, x.next_attempt_at, x.error, x.since, x.updated_at, x.is_edited, x.topic as own_topic,
                    e.topic as event_topic,
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
    connection: &mut PgConnection,
    filter: &ExceptionFilterRow<'_>,
    after: i64,
    limit: i64,
) -> Result<Vec<ExceptionRow>, sqlx::Error> {
    sqlx::query_as(exceptions!(
        "where x.event_id > $1
           and x.state = any($2)
           and ($3::smallint is null or x.slot = $3)
           and ($4::text is null or x.aggregate_type = $4)
           and ($5::text is null or x.aggregate_id = $5)
           and ($6::text is null or coalesce(x.topic, e.topic) = $6)
           and ($7::text is null or x.event_type = $7)
           and ($8::text is null or strpos(x.error, $8) > 0)
         order by x.event_id
         limit $9"
    ))
    .bind(after)
    .bind(filter.states)
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

/// How many there are, counted up to `limit`. State by state, so that the index on it can be read in its order.
pub(crate) async fn count(
    connection: &mut PgConnection,
    filter: &ExceptionFilterRow<'_>,
    limit: i64,
) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "select count(*)
         from (
             select 1
             from unnest($1::text[]) as wanted (state)
             cross join lateral (
                 select x.event_id
                 from tidemill_outbox_exception x
                 left join outbox_event e on e.id = x.event_id
                 where x.state = wanted.state
                   and ($2::smallint is null or x.slot = $2)
                   and ($3::text is null or x.aggregate_type = $3)
                   and ($4::text is null or x.aggregate_id = $4)
                   and ($5::text is null or coalesce(x.topic, e.topic) = $5)
                   and ($6::text is null or x.event_type = $6)
                   and ($7::text is null or strpos(x.error, $7) > 0)
                 order by x.event_id
                 limit $8
             ) as found
             limit $8
         ) as counted",
    )
    .bind(filter.states)
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
    connection: &mut PgConnection,
    ids: &[i64],
) -> Result<Vec<ExceptionRow>, sqlx::Error> {
    sqlx::query_as(exceptions!("where x.event_id = any($1)")).bind(ids).fetch_all(connection).await
}

/// What would be published of one.
pub(crate) async fn content(
    connection: &mut PgConnection,
    id: i64,
) -> Result<Option<ContentRow>, sqlx::Error> {
    sqlx::query_as(
        "select e.created_at, coalesce(x.topic, e.topic) as topic,
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
    connection: &mut PgConnection,
    ids: &[i64],
    edit: &EditColumns<'_>,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_outbox_exception x
         set is_edited = true,
             payload = case when $2 then $3 when x.is_edited then x.payload else e.payload end,
             payload_bytes = case when $2 then $4 when x.is_edited then x.payload_bytes else e.payload_bytes end,
             headers = case when $5 then $6 when x.is_edited then x.headers else e.headers end
         from outbox_event e
         where e.id = x.event_id
           and x.event_id = any($1)",
    )
    .bind(ids)
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
    connection: &mut PgConnection,
    ids: &[i64],
    topic: &str,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update tidemill_outbox_exception
         set topic = $2
         where event_id = any($1)",
    )
    .bind(ids)
    .bind(topic)
    .execute(connection)
    .await?;
    Ok(())
}
