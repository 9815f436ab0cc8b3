//! Lists of renders for people. Pages go from the newest to the oldest, each from the last id of the previous one.

use super::NewRender;
use super::record::{CheckedRender, RenderRecord};
use crate::codec::DbTime;
use crate::error::{Result, damaged};
use crate::statement::{Columns, One, Stored, Total, statements};
use crate::tx::Renders;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::lease::Epoch;
use tidemill_domain::process::ProcessId;
use tidemill_domain::render::{BroadcastDate, Phase, RenderId, Status};
use tidemill_domain::time::Timestamp;

/// Absent conditions match everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RenderFilter {
    pub status: Option<Status>,
    pub composition: Option<String>,
    pub worker: Option<String>,
    pub date: Option<BroadcastDate>,
    pub batch: Option<RenderId>,
    /// Unfinished at this time, and past their deadline; or waiting for an attempt that is.
    pub late_at: Option<Timestamp>,
    pub ended_after: Option<Timestamp>,
}

/// Renders per search.
pub const SEARCHED_MAX: u32 = 10_000;

#[derive(Clone, PartialEq, Debug)]
pub struct RenderSearch {
    /// Newest first.
    pub records: Vec<RenderRecord>,
    /// The oldest render searched, if there may be older ones.
    pub searched_to: Option<RenderId>,
}

/// Counts per status stop here, because counting a long history takes too long.
pub const COUNTED_MAX: u32 = 10_000;

/// At most [`COUNTED_MAX`] per status.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RenderCounts {
    /// Statuses without renders are left out.
    pub by_status: BTreeMap<Status, u64>,
    /// Those of the pending ones that wait for approval.
    pub awaiting_approval: u64,
    pub awaiting_since: Option<Timestamp>,
    /// Of those that wait for a worker.
    pub oldest_pending: Option<Timestamp>,
    /// Jobs not yet removed from nexrender.
    pub leftovers: u64,
}

impl RenderCounts {
    pub fn of(&self, status: Status) -> u64 {
        self.by_status.get(&status).copied().unwrap_or_default()
    }

    /// Pending renders that a worker may take, now or later.
    pub fn waiting_for_worker(&self) -> u64 {
        self.of(Status::Pending).saturating_sub(self.awaiting_approval)
    }
}

/// A change of status, as the trigger has written it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransitionRecord {
    pub id: i64,
    /// `None` for the insert, and for unknown statuses.
    pub from: Option<Status>,
    pub to: Status,
    /// `None` in rows of other programs.
    pub phase: Option<Phase>,
    pub worker: Option<ProcessId>,
    pub epoch: Epoch,
    pub code: Option<Code>,
    pub at: Timestamp,
    /// A worker, an operator, or the database user who wrote SQL.
    pub by: String,
}

/// `None` if status or instant are unknown: such rows of other programs must not hide the rest of the history.
impl Stored for Option<TransitionRecord> {
    const PLACE: (&'static str, &'static str) = ("render_queue_audit", "id");

    fn from_columns(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        fn known<T: FromStr>(row: &Columns<'_>, column: &'static str) -> Result<Option<T>, sqlx::Error> {
            Ok(row.get::<Option<String>>(column)?.and_then(|word| word.parse().ok()))
        }
        let (to, at) = (known(row, "status_to")?, row.get("changed_at")?);
        let (Some(to), Some(at)) = (to, at) else { return Ok(None) };
        Ok(Some(TransitionRecord {
            id: row.get("id")?,
            from: known(row, "status_from")?,
            to,
            phase: known(row, "phase")?,
            worker: row.get("worker_id")?,
            epoch: row.get::<Option<Epoch>>("epoch")?.unwrap_or(Epoch::ZERO),
            code: known(row, "error_code")?,
            at,
            by: row.get::<Option<String>>("changed_by")?.unwrap_or_default(),
        }))
    }
}

/// Completed renders to average.
const PACED: u32 = 20;

impl Renders<'_> {
    /// At most `limit` renders older than `before`.
    pub async fn list(
        &mut self,
        filter: &RenderFilter,
        before: Option<RenderId>,
        limit: u32,
    ) -> Result<Vec<RenderRecord>> {
        let (from, before) = self.ids(filter, before).await?;
        Ok(self.render_list(filter, None, from, before, limit).await?)
    }

    /// The lowest id that the filter can match, and one that is above all of them. A batch is one stretch of ids, so
    /// nobody reads the long history beside it.
    async fn ids(&mut self, filter: &RenderFilter, before: Option<RenderId>) -> Result<(i64, i64)> {
        let before = before.map_or(i64::MAX, RenderId::get);
        let Some(batch) = filter.batch else { return Ok((i64::MIN, before)) };
        let end = self.render_batch_last(batch).await?.map_or(i64::MIN, |last| last.saturating_add(1));
        Ok((batch.get(), before.min(end)))
    }

    /// The same among the newest [`SEARCHED_MAX`], also by a text in the composition, the cue item or the error. The
    /// limit keeps a rare condition from reading all of a long history.
    #[crate::boxed]
    pub async fn search(
        &mut self,
        filter: &RenderFilter,
        text: Option<&str>,
        before: Option<RenderId>,
        limit: u32,
    ) -> Result<RenderSearch> {
        let status = filter.status.map(Status::as_str);
        let (from, before) = self.ids(filter, before).await?;
        let skipped = i64::from(SEARCHED_MAX) - 1;
        let floor = match status {
            _ if filter.batch.is_some() => None,
            Some(status) => self.render_floor_in_status(status, before, skipped).await?,
            None => self.render_floor(before, skipped).await?,
        };
        let from = floor.unwrap_or(from);
        let records = self.render_list(filter, text, from, before, limit).await?;
        Ok(RenderSearch { records, searched_to: floor.map(RenderId::new) })
    }

    #[crate::boxed]
    pub async fn counts(&mut self) -> Result<RenderCounts> {
        let mut counts = RenderCounts::default();
        for (status, count, oldest) in self.render_count(COUNTED_MAX).await? {
            let status: Status = status.parse().map_err(|_| damaged("render_queue", "status", "a row"))?;
            if count > 0 {
                counts.by_status.insert(status, u64::try_from(count).unwrap_or_default());
            }
            counts.oldest_pending = oldest.map(Into::into).or(counts.oldest_pending);
        }
        let (awaiting, since) = self.render_count_awaiting(COUNTED_MAX).await?;
        (counts.awaiting_approval, counts.awaiting_since) = (awaiting.unsigned_abs(), since.map(Into::into));
        counts.leftovers = self.render_leftover_count().await?;
        Ok(counts)
    }

    /// The average duration of the last completed renders.
    pub async fn pace(&mut self) -> Result<Option<Duration>> {
        let seconds = self.render_average(PACED).await?;
        Ok(seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()))
    }

    /// The changes of status of one render, the oldest first. Unknown words of other programs are left out.
    pub async fn transitions(&mut self, id: RenderId) -> Result<Vec<TransitionRecord>> {
        Ok(self.render_transitions_of(id).await?.into_iter().flatten().collect())
    }
}

/// Renders without their data; the rest of the statement says which. Columns that may have another type in an adopted
/// table are cast. The index is named, because SQLite's planner has no statistics and would rather sort.
macro_rules! renders {
    ($(indexed by $index:literal,)? $rest:literal) => {
        concat!(
            "select id{::bigint} as id, composition_id{::text} as composition_id, cue_item_id{::text} as cue_item_id,
                    status, phase, progress{::bigint} as progress, worker_id, worker_name, lock_expires_at, epoch,
                    job_epoch, nexrender_job_id, attempts, recovery_count{::bigint} as recovery_count, submit_failures,
                    render_failures, upload_failures, run_after, priority, deadline,
                    {date broadcast_date} as broadcast_date, cancel_requested_at, error_code, error_message,
                    submitted_at, node_started_at, changed_at, remote_mark, staged_path, output_file_path,
                    output_bytes, output_sha256, poster_path, approval, gfx_key_id, gfx_hash, created_at, updated_at,
                    started_at, completed_at, ended_at, duration_seconds{::double precision} as duration_seconds,
                    revision, output_revision, previous_output_path, output_objects, batch_id
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

    /// In the order of claims; skips locked rows and what waits for approval. Needs `render_queue_claim`.
    fn render_lock_waiting(now: Timestamp, limit: u32) -> Vec<CheckedRender> {
        renders!(
            indexed by "render_queue_claim",
            "where status = 'pending' and run_after <= $1 and approval {is not} 'awaiting'
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
            filter.date.map(|date| date.to_string()), text, from, limit, filter.batch, filter.late_at,
            filter.ended_after,
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
               and ($9{::bigint} is null or batch_id = $9)
               and ($10{::timestamptz} is null
                    or (status in ('pending', 'preparing', 'rendering', 'encoding', 'uploading')
                        and (deadline <= $10 or (status = 'pending' and run_after >= deadline))))
               and ($11{::timestamptz} is null or ended_at > $11)
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

    /// At most `limit` that ended before `cutoff`, the oldest first, after an instant and an id. Needs `render_queue_ended`.
    fn render_list_ended_before(
        cutoff: Timestamp, after: (Timestamp, RenderId), limit: u32,
    ) -> Vec<CheckedRender> {
        bind(cutoff, after.0, after.1, limit)
        renders!(
            indexed by "render_queue_ended",
            "where ended_at is not null and ended_at < $1 and (ended_at, id{::bigint}) > ($2, $3)
             order by ended_at, id limit $4"
        )
    }

    /// How many renders are claimed before a waiting one, at most `most`. Needs `render_queue_claim`.
    pub fn Renders::ahead(record: &RenderRecord, most: u32) at now -> Total {
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
                   and approval {is not} 'awaiting'
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
                   and approval {is not} 'awaiting'
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

    /// At most `most` that wait for approval, and since when. Needs `render_queue_approval`.
    fn render_count_awaiting(most: u32) -> One<(i64, Option<DbTime>)> {
        "select count(*), min(run_after)
         from (select run_after from render_queue where approval = 'awaiting' and status = 'pending' limit $1) as counted"
    }

    /// By status, at most `most` of each, and the oldest waiting one. Needs `render_queue_status`.
    fn render_count(most: u32) -> Vec<(String, i64, Option<DbTime>)> {
        "select s.status,
                (select count(*) from (select 1 from render_queue q where q.status = s.status limit $1) as counted),
                case when s.status = 'pending' then (
                    select min(created_at) from render_queue where status = 'pending' and approval {is not} 'awaiting'
                ) end
         from (
             select 'pending' as status union all select 'preparing' union all select 'rendering'
             union all select 'encoding' union all select 'uploading' union all select 'completed'
             union all select 'failed' union all select 'cancelled'
         ) as s"
    }
}
