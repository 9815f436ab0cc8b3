//! Statements that insert, lock and list rows of `render_queue`.

use crate::codec::DbTime;
use crate::row::render::RenderRow;
use crate::tx::{AheadRow, NewRenderRow, RenderFilterRow};
use sqlx::SqliteConnection;

/// Renders without what they show; the rest of the statement says which.
macro_rules! renders {
    ($from:literal, $rest:literal) => {
        concat!(
            "select id, composition_id, cue_item_id, status, phase, progress, worker_id, worker_name, lock_expires_at,
                    epoch, job_epoch, nexrender_job_id, attempts, recovery_count, submit_failures, render_failures,
                    upload_failures, run_after, priority, deadline, broadcast_date, cancel_requested_at, error_code,
                    error_message, submitted_at, node_started_at, changed_at, remote_mark, staged_path,
                    output_file_path, output_bytes, output_sha256, poster_path, gfx_key_id, gfx_hash, created_at,
                    updated_at, started_at, completed_at, ended_at, duration_seconds, revision
             from ",
            $from,
            " ",
            $rest
        )
    };
    ($rest:literal) => {
        renders!("render_queue", $rest)
    };
}

/// None when the same was ordered before and has not ended.
pub(crate) async fn insert(
    connection: &mut SqliteConnection,
    row: &NewRenderRow<'_>,
) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "insert into render_queue
             (composition_id, cue_item_id, gfx_data, gfx_hash, priority, deadline, broadcast_date, run_after, created_at,
              updated_at, changed_by)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $8, $8, $9)
         on conflict do nothing
         returning id",
    )
    .bind(row.composition)
    .bind(row.cue_item)
    .bind(row.data)
    .bind(row.hash)
    .bind(row.priority)
    .bind(row.deadline)
    .bind(row.broadcast_date)
    .bind(row.now)
    .bind(row.by)
    .fetch_optional(connection)
    .await
}

pub(crate) async fn find_same(
    connection: &mut SqliteConnection,
    cue_item: &str,
    hash: &str,
) -> Result<Option<i64>, sqlx::Error> {
    sqlx::query_scalar(
        "select id
         from render_queue
         where cue_item_id = $1
           and gfx_hash = $2
           and status in ('pending', 'preparing', 'rendering', 'encoding', 'uploading')",
    )
    .bind(cue_item)
    .bind(hash)
    .fetch_optional(connection)
    .await
}

pub(crate) async fn lock(
    connection: &mut SqliteConnection,
    id: i64,
) -> Result<Option<RenderRow>, sqlx::Error> {
    sqlx::query_as(renders!("where id = $1")).bind(id).fetch_optional(connection).await
}

pub(crate) async fn find(
    connection: &mut SqliteConnection,
    id: i64,
) -> Result<Option<RenderRow>, sqlx::Error> {
    sqlx::query_as(renders!("where id = $1")).bind(id).fetch_optional(connection).await
}

/// Those that are first in the order of claims. Without statistics the planner would rather
/// sort, so it is told to use `render_queue_claim`.
pub(crate) async fn lock_waiting(
    connection: &mut SqliteConnection,
    now: DbTime,
    limit: i64,
) -> Result<Vec<RenderRow>, sqlx::Error> {
    sqlx::query_as(renders!(
        "render_queue indexed by render_queue_claim",
        "where status = 'pending'
           and run_after <= $1
         order by priority desc, deadline is null, deadline, created_at, id
         limit $2"
    ))
    .bind(now)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Those whose lease has lapsed, also when somebody has set them to cancelled by SQL. Needs `render_queue_lease`.
pub(crate) async fn lock_lapsed(
    connection: &mut SqliteConnection,
    now: DbTime,
    limit: i64,
) -> Result<Vec<RenderRow>, sqlx::Error> {
    sqlx::query_as(renders!(
        "render_queue indexed by render_queue_lease",
        "where worker_id is not null
           and status in ('preparing', 'rendering', 'encoding', 'uploading', 'cancelled')
           and (lock_expires_at <= $1 or lock_expires_at is null)
         order by lock_expires_at
         limit $2"
    ))
    .bind(now)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// The newest first.
pub(crate) async fn list(
    connection: &mut SqliteConnection,
    filter: &RenderFilterRow<'_>,
    before: i64,
    limit: i64,
) -> Result<Vec<RenderRow>, sqlx::Error> {
    sqlx::query_as(renders!(
        "where id < $1
           and ($2 is null or status = $2)
           and ($3 is null or composition_id = $3)
           and ($4 is null or worker_name = $4)
           and ($5 is null or broadcast_date = $5)
           and ($6 is null
                or instr(lower(coalesce(composition_id, '') || ' ' || coalesce(cue_item_id, '') || ' ' ||
                               coalesce(error_message, '')), lower($6)) > 0)
           and id >= $7
         order by id desc
         limit $8"
    ))
    .bind(before)
    .bind(filter.status)
    .bind(filter.composition)
    .bind(filter.worker)
    .bind(filter.date)
    .bind(filter.text)
    .bind(filter.from)
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// The oldest of the `skipped` + 1 newest before this one; none when there are fewer. By the primary key, or
/// `render_queue_status`.
pub(crate) async fn floor(
    connection: &mut SqliteConnection,
    status: Option<&str>,
    before: i64,
    skipped: i64,
) -> Result<Option<i64>, sqlx::Error> {
    let sql = match status {
        Some(_) => {
            "select id from render_queue where id < $1 and status = $3 order by id desc limit 1 offset $2"
        }
        None => "select id from render_queue where id < $1 and $3 is null order by id desc limit 1 offset $2",
    };
    sqlx::query_scalar(sql).bind(before).bind(skipped).bind(status).fetch_optional(connection).await
}

/// Those that a worker has, the newest first. Needs `render_queue_status`.
pub(crate) async fn list_at_work(
    connection: &mut SqliteConnection,
    limit: i64,
) -> Result<Vec<RenderRow>, sqlx::Error> {
    sqlx::query_as(renders!(
        "render_queue indexed by render_queue_status",
        "where status in ('preparing', 'rendering', 'encoding', 'uploading')
         order by id desc
         limit $1"
    ))
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Those that wait, in the order of claims, also when their time has not come. Needs `render_queue_claim`.
pub(crate) async fn list_waiting(
    connection: &mut SqliteConnection,
    limit: i64,
) -> Result<Vec<RenderRow>, sqlx::Error> {
    sqlx::query_as(renders!(
        "render_queue indexed by render_queue_claim",
        "where status = 'pending'
         order by priority desc, deadline is null, deadline, created_at, id
         limit $1"
    ))
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// Those that have ended last. Needs `render_queue_ended`.
pub(crate) async fn list_ended(
    connection: &mut SqliteConnection,
    limit: i64,
) -> Result<Vec<RenderRow>, sqlx::Error> {
    sqlx::query_as(renders!(
        "render_queue indexed by render_queue_ended",
        "where ended_at is not null
         order by ended_at desc, id desc
         limit $1"
    ))
    .bind(limit)
    .fetch_all(connection)
    .await
}

/// How many are claimed before this one, at most so many. Needs `render_queue_claim`.
pub(crate) async fn count_ahead(
    connection: &mut SqliteConnection,
    row: AheadRow,
    most: i64,
) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(
        "select count(*)
         from (
             select 1
             from render_queue indexed by render_queue_claim
             where status = 'pending'
               and run_after <= $5
               and priority >= $2
               and (priority > $2
                    or (deadline is null, coalesce(deadline, 0), created_at, id) < ($3 is null, coalesce($3, 0), $4, $1))
             limit $6
         ) as ahead",
    )
    .bind(row.id)
    .bind(row.priority)
    .bind(row.deadline)
    .bind(row.created_at)
    .bind(row.now)
    .bind(most)
    .fetch_one(connection)
    .await
}

/// How long the newest that were completed took, in seconds. Needs `render_queue_status`.
pub(crate) async fn average(
    connection: &mut SqliteConnection,
    newest: i64,
) -> Result<Option<f64>, sqlx::Error> {
    sqlx::query_scalar(
        "select avg(seconds)
         from (
             select duration_seconds as seconds
             from render_queue
             where status = 'completed'
             order by id desc
             limit $1
         ) as newest",
    )
    .bind(newest)
    .fetch_one(connection)
    .await
}

/// By status, of each at most so many, and when the oldest that waits was ordered. Needs `render_queue_status`.
pub(crate) async fn count(
    connection: &mut SqliteConnection,
    most: i64,
) -> Result<Vec<(String, i64, Option<DbTime>)>, sqlx::Error> {
    sqlx::query_as(
        "select s.status,
                (select count(*) from (select 1 from render_queue q where q.status = s.status limit $1) as counted),
                case when s.status = 'pending' then (
                    select min(created_at) from render_queue where status = 'pending'
                ) end
         from (
             select 'pending' as status union all select 'preparing' union all select 'rendering'
             union all select 'encoding' union all select 'uploading' union all select 'completed'
             union all select 'failed' union all select 'cancelled'
         ) as s",
    )
    .bind(most)
    .fetch_all(connection)
    .await
}
