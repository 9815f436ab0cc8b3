//! Statements that insert, lock and list rows of `render_queue`.

use crate::codec::DbTime;
use crate::render::record::CheckedRender;
use crate::render::{NewRender, RenderFilter, RenderRecord};
use crate::statement::{One, statements};
use serde_json::{Value, json};
use tidemill_domain::render::{RenderId, Status};
use tidemill_domain::time::Timestamp;

/// Renders without their data; the rest of the statement says which. Without statistics SQLite's planner would rather
/// sort, so the index is named.
macro_rules! renders {
    ($(indexed by $index:literal,)? $rest:literal) => {
        concat!(
            "select id{::bigint} as id, composition_id{::text} as composition_id, cue_item_id{::text} as cue_item_id,
                    status, phase, progress{::bigint} as progress, worker_id, worker_name, lock_expires_at, epoch,
                    job_epoch, nexrender_job_id, attempts, recovery_count{::bigint} as recovery_count, submit_failures,
                    render_failures, upload_failures, run_after, priority, deadline,
                    {date broadcast_date} as broadcast_date, cancel_requested_at, error_code, error_message,
                    submitted_at, node_started_at, changed_at, remote_mark, staged_path, output_file_path,
                    output_bytes, output_sha256, poster_path, gfx_key_id, gfx_hash, created_at, updated_at,
                    started_at, completed_at, ended_at, duration_seconds{::double precision} as duration_seconds,
                    revision
             from render_queue ",
            $("{indexed by ", $index, "} ",)?
            $rest
        )
    };
}

/// The columns whose types an adopted table may have chosen.
fn adopted_columns(new: &NewRender, data: &str) -> Result<String, sqlx::Error> {
    let data: Value = serde_json::from_str(data).map_err(|error| sqlx::Error::Encode(error.into()))?;
    let columns = json!({ "composition_id": new.composition, "cue_item_id": new.cue_item, "gfx_data": data });
    Ok(columns.to_string())
}

statements! {
    /// `None` if the same was ordered before and has not ended. Goes through a JSON record, which fits any column types
    /// of an adopted table. `data` is JSON.
    fn render_insert(
        new: &NewRender, data: &str, hash: Option<&str>, by: &str, now: Timestamp,
    ) -> Option<i64> {
        postgres {
            bind(
                adopted_columns(new, data)?, hash, new.priority, new.deadline,
                new.broadcast_date.map(|date| date.to_string()), now, by,
            )
            "insert into render_queue
                 (composition_id, cue_item_id, gfx_data, gfx_hash, priority, deadline, broadcast_date, run_after,
                  created_at, updated_at, changed_by)
             select r.composition_id, r.cue_item_id, r.gfx_data, $2, $3, $4, $5::date, $6, $6, $6, $7
             from jsonb_populate_record(null::render_queue, $1::jsonb) as r
             on conflict do nothing returning id::bigint"
        }
        sqlite {
            bind(
                &new.composition, &new.cue_item, data, hash, new.priority, new.deadline,
                new.broadcast_date.map(|date| date.to_string()), now, by,
            )
            "insert into render_queue
                 (composition_id, cue_item_id, gfx_data, gfx_hash, priority, deadline, broadcast_date, run_after,
                  created_at, updated_at, changed_by)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $8, $8, $9)
             on conflict do nothing returning id"
        }
    }

    fn render_find_same(cue_item: &str, hash: &str) -> Option<i64> {
        "select id{::bigint} from render_queue
         where cue_item_id{::text} = $1
           and gfx_hash = $2
           and status in ('pending', 'preparing', 'rendering', 'encoding', 'uploading')"
    }

    fn render_lock(id: RenderId) -> Option<RenderRecord> {
        renders!("where id = $1 {for update}")
    }

    pub fn Renders::find(id: RenderId) -> Option<RenderRecord> {
        renders!("where id = $1")
    }

    /// In the order of claims; skips locked rows. Needs `render_queue_claim`.
    fn render_lock_waiting(now: Timestamp, limit: u32) -> Vec<CheckedRender> {
        renders!(
            indexed by "render_queue_claim",
            "where status = 'pending' and run_after <= $1
             order by priority desc, {nulls last deadline}, created_at, id limit $2 {for update skip locked}"
        )
    }

    /// Lapsed leases, also of renders cancelled by SQL. Needs `render_queue_lease`.
    fn render_lock_lapsed(now: Timestamp, limit: u32) -> Vec<CheckedRender> {
        renders!(
            indexed by "render_queue_lease",
            "where worker_id is not null
               and status in ('preparing', 'rendering', 'encoding', 'uploading', 'cancelled')
               and (lock_expires_at <= $1 or lock_expires_at is null)
             order by lock_expires_at limit $2 {for update skip locked}"
        )
    }

    /// Newest first, between two ids; also by a text in the composition, the cue item or the error.
    fn render_list(
        filter: &RenderFilter, text: Option<&str>, from: i64, before: i64, limit: u32,
    ) -> Vec<RenderRecord> {
        bind(
            before, filter.status.map(Status::as_str), &filter.composition, &filter.worker,
            filter.date.map(|date| date.to_string()), text, from, limit,
        )
        renders!(
            "where id < $1
               and ($2{::text} is null or status = $2)
               and ($3{::text} is null or composition_id{::text} = $3)
               and ($4{::text} is null or worker_name = $4)
               and ($5{::text} is null or broadcast_date = $5{::date})
               and ($6{::text} is null
                    or {position}(lower(coalesce(composition_id{::text}, '') || ' ' || coalesce(cue_item_id{::text}, '')
                                        || ' ' || coalesce(error_message, '')), lower($6)) > 0)
               and id >= $7
             order by id desc limit $8"
        )
    }

    /// The oldest of the `skipped` + 1 newest before this one; `None` if there are fewer.
    fn render_floor(before: i64, skipped: i64) -> Option<i64> {
        "select id{::bigint} from render_queue where id < $1 order by id desc limit 1 offset $2"
    }

    /// The same in one status, by `render_queue_status`.
    fn render_floor_in_status(status: &str, before: i64, skipped: i64) -> Option<i64> {
        "select id{::bigint} from render_queue where status = $1 and id < $2 order by id desc limit 1 offset $3"
    }

    /// At most `limit` that a worker has, the newest first. Needs `render_queue_status`.
    pub fn Renders::at_work(limit: u32) -> Vec<RenderRecord> {
        renders!(
            indexed by "render_queue_status",
            "where status in ('preparing', 'rendering', 'encoding', 'uploading')
             order by id desc limit $1"
        )
    }

    /// At most `limit` that wait, in the order of claims, also those scheduled for later. Needs `render_queue_claim`.
    pub fn Renders::waiting(limit: u32) -> Vec<RenderRecord> {
        renders!(
            indexed by "render_queue_claim",
            "where status = 'pending'
             order by priority desc, {nulls last deadline}, created_at, id limit $1"
        )
    }

    /// At most `limit` that have ended last. Needs `render_queue_ended`.
    pub fn Renders::ended(limit: u32) -> Vec<RenderRecord> {
        renders!(
            indexed by "render_queue_ended",
            "where ended_at is not null order by ended_at desc, id desc limit $1"
        )
    }

    /// How many are claimed before this one, at most `most`. Needs `render_queue_claim`.
    fn render_count_ahead(record: &RenderRecord, now: Timestamp, most: u32) -> One<i64> {
        bind(
            record.id(), record.priority, record.render.deadline,
            record.created_at, now, most,
        )
        postgres {
            "select count(*)
             from (
                 select
                 from render_queue
                 where status = 'pending'
                   and run_after <= $5
                   and priority >= $2
                   and (priority > $2
                        or coalesce(deadline, 'infinity') < coalesce($3, 'infinity'::timestamptz)
                        or (deadline is not distinct from $3 and (created_at, id::bigint) < ($4, $1)))
                 limit $6
             ) as ahead"
        }
        sqlite {
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
             ) as ahead"
        }
    }

    /// The average duration of the newest completed renders, in seconds. Needs `render_queue_status`.
    fn render_average(newest: u32) -> One<Option<f64>> {
        "select avg(seconds){::double precision}
         from (
             select duration_seconds{::double precision} as seconds
             from render_queue
             where status = 'completed'
             order by id desc
             limit $1
         ) as newest"
    }

    /// By status, at most `most` of each, and the oldest waiting one. Needs `render_queue_status`.
    fn render_count(most: u32) -> Vec<(String, i64, Option<DbTime>)> {
        "select s.status,
                (select count(*) from (select 1 from render_queue q where q.status = s.status limit $1) as counted),
                case when s.status = 'pending' then (
                    select min(created_at) from render_queue where status = 'pending'
                ) end
         from (
             select 'pending' as status union all select 'preparing' union all select 'rendering'
             union all select 'encoding' union all select 'uploading' union all select 'completed'
             union all select 'failed' union all select 'cancelled'
         ) as s"
    }
}
