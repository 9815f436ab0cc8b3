//! Saves what the rules decide about a render: the row under its fence, and its dependent rows, in one transaction.
//! Each change raises the revision, by which triggers recognise our changes.

use super::attempt::AttemptNote;
use super::data::DataRow;
use super::record::RenderRecord;
use super::work::Notes;
use super::{ClaimRequest, OrphanJob, RENDER_CANCELLED, RENDER_LEFTOVER, RENDER_WAITING};
use crate::codec::{DbId, storable};
use crate::crash_point;
use crate::error::Result;
use crate::statement::{rows, statements};
use crate::tx::Renders;
use serde_json::{Value, json};
use std::time::Duration;
use tidemill_domain::lease::{Fence, Lease};
use tidemill_domain::outbox::lifecycle_events::RenderChange;
use tidemill_domain::process::ProcessId;
use tidemill_domain::render::attempt::AttemptOutcome;
use tidemill_domain::render::lifecycle::Approval;
use tidemill_domain::render::order::may_be_published;
use tidemill_domain::render::{Act, Decision, Phase, Render, RenderId, Status, Uid};
use tidemill_domain::time::Timestamp;

#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    /// For the audit log.
    pub(super) by: &'a str,
    /// The outcome of an attempt that is given back for a retry.
    pub(super) given_back: AttemptOutcome,
    /// How long a dropped job is left to the worker that dropped it.
    pub(super) leftover_kept: Duration,
    pub(super) notes: Notes<'a>,
    pub(super) now: Timestamp,
}

impl<'a> Change<'a> {
    pub(super) fn new(by: &'a str, now: Timestamp) -> Self {
        let (given_back, notes) = (AttemptOutcome::Retried, Notes::default());
        Self { by, given_back, leftover_kept: Duration::ZERO, notes, now }
    }
}

impl Renders<'_> {
    /// Saves a decision about a locked row. `None` if the fence no longer holds: then nothing is written; read the row
    /// again.
    pub(super) async fn save_render(
        &mut self,
        mut record: RenderRecord,
        decision: &Decision,
        change: Change<'_>,
    ) -> Result<Option<RenderRecord>> {
        let Some(after) = &decision.write else { return Ok(Some(record)) };
        let old = record.clone();
        let before = &old.render;
        update(&mut record, before, after, &change);
        if self.render_save(&record, before, change.by).await? == 0 {
            return Ok(None);
        }
        record.revision += 1;
        crash_point!("render_saved");
        self.note_attempt(&record, before, &change).await?;
        if let Act::DropJob { epoch, slot, file } = decision.act {
            let own = Some(&old).filter(|_| before.job == Some(epoch));
            let remote_job = own.and_then(|old| old.remote_job.clone());
            let job = OrphanJob {
                render: before.id,
                epoch,
                remote_job: remote_job.unwrap_or_else(|| Uid::new(before.id, epoch).to_string()),
                staged_path: own.and_then(|old| old.staged_path.clone()),
                slot,
                file,
                since: change.now,
            };
            self.render_leftover_insert(&job, change.now.plus(change.leftover_kept)).await?;
            if change.leftover_kept.is_zero() {
                self.wake(RENDER_LEFTOVER);
            }
        }
        self.tell_of_render(&record, before, change.now).await?;
        match after.status {
            Status::Pending if after.run_after <= change.now && !after.awaits_approval() => {
                self.wake(RENDER_WAITING)
            }
            status if status.is_active() && before.cancel_requested_at != after.cancel_requested_at => {
                self.wake(RENDER_CANCELLED);
            }
            _ => {}
        }
        Ok(Some(record))
    }

    /// Saves what is known of the row's attempt, and how it ended.
    async fn note_attempt(
        &mut self,
        record: &RenderRecord,
        before: &Render,
        change: &Change<'_>,
    ) -> Result<()> {
        let Lease::Held { fence: Fence { epoch, .. }, .. } = before.lease else { return Ok(()) };
        let (after, notes) = (&record.render, &change.notes);
        let has_new_job = after.job != before.job || notes.remote_job.is_some();
        let job = record.remote_job.as_deref().filter(|_| has_new_job);
        let document = notes.document.map(Value::to_string);
        let report = notes.report.map(|report| storable(&report.to_string()));
        if job.is_some() || document.is_some() || report.is_some() {
            let hash = document.as_ref().map(|text| self.render_keys().hash(text));
            let (document, key) = match document {
                Some(text) => self.seal_document(after.id, epoch, text)?,
                None => (None, None),
            };
            self.render_attempt_note(&AttemptNote {
                render_id: after.id,
                epoch,
                nexrender_job_id: job,
                document: document.as_deref(),
                document_sha256: hash.as_deref(),
                document_key_id: key.as_deref(),
                report: report.as_deref(),
            })
            .await?;
        }
        if matches!(after.lease, Lease::Held { .. }) {
            return Ok(());
        }
        let outcome = AttemptOutcome::of(after.status, change.given_back);
        Ok(self.render_attempt_end(after.id, epoch, outcome, after.reason.as_ref(), change.now).await?)
    }

    /// Writes a lifecycle event for a render that has ended or waits for approval, if enabled, and the notices for alert
    /// channels.
    async fn tell_of_render(&mut self, record: &RenderRecord, before: &Render, at: Timestamp) -> Result<()> {
        let after = &record.render;
        // A render cancelled by SQL ends when its worker gives it back.
        let is_given_back = matches!(before.lease, Lease::Held { .. });
        let is_asked = after.awaits_approval() && !before.awaits_approval();
        let is_over = after.status.is_terminal() && (before.status != after.status || is_given_back);
        if !is_asked && !is_over {
            return Ok(());
        }
        let change = RenderChange {
            render: after.id,
            composition: record.composition.as_deref(),
            cue_item: record.cue_item.as_deref(),
            status: after.status,
            code: after.reason.as_ref().map(|reason| reason.code),
            output: record.output_path.as_deref(),
            objects: &record.objects(),
            at,
        };
        if let Some(event) = self.lifecycle_events().of_render(&change) {
            self.publish(&event).await?;
        }
        self.notify_of_render(&change).await
    }
}

fn update(record: &mut RenderRecord, before: &Render, after: &Render, change: &Change<'_>) {
    let now = change.now;
    let published = record.output_path.clone();
    // Objects are not replaced, and one store may have the file although another one was down.
    let may_be_stored = record.output_objects.is_some() && record.output_bytes.is_some();
    record.set(after);
    record.updated_at = now;
    if after.job != before.job {
        record.remote_job = after.job.map(|epoch| Uid::new(after.id, epoch).to_string());
        (record.submitted_at, record.node_started_at, record.changed_at) = (None, None, None);
        (record.remote_mark, record.staged_path) = (None, None);
        (record.output_bytes, record.output_sha256) = (None, None);
        (record.output_path, record.poster_path) = (None, None);
    }
    let is_marked = change.notes.mark.is_some_and(|mark| record.remote_mark.as_deref() != Some(mark));
    note(record, &change.notes);
    if after.phase.is_remote() {
        record.submitted_at.get_or_insert(now);
        if after.phase > Phase::WaitingForNode {
            record.node_started_at.get_or_insert(now);
        } else if record.node_started_at.take().is_some() {
            // The node has put it back, so it waits as if it were new.
            record.submitted_at = Some(now);
        }
        let has_moved = after.phase != before.phase || after.progress != before.progress;
        if is_marked || has_moved || record.changed_at.is_none() {
            record.changed_at = Some(now);
        }
    }
    if after.status.is_terminal() && !before.status.is_terminal() {
        record.ended_at = Some(now);
    }
    if after.status == Status::Completed && before.status != Status::Completed {
        record.completed_at = Some(now);
        record.duration_seconds = record.started_at.map(|started_at| now.since(started_at).as_secs_f64());
    }
    if before.awaits_approval() && after.approval == Some(Approval::Approved) {
        // The time of a person is not the time that a render takes.
        record.started_at = record.started_at.map(|started_at| started_at.plus(now.since(before.run_after)));
    }
    let is_wanted_again = before.status.is_terminal() && after.status == Status::Pending;
    if is_wanted_again {
        (record.ended_at, record.started_at, record.completed_at, record.duration_seconds) =
            (None, None, None, None);
        // The same may have been ordered again meanwhile.
        record.gfx_hash = None;
    }
    let begins_anew = after.status == Status::Pending && after.phase == Phase::Queued;
    if begins_anew && (may_be_stored || is_wanted_again && may_be_published(before)) {
        record.output_revision += 1;
        record.previous_output_path = published.or(record.previous_output_path.take());
        (record.output_path, record.output_bytes, record.output_sha256) = (None, None, None);
    }
}

fn note(record: &mut RenderRecord, notes: &Notes<'_>) {
    let set = |column: &mut Option<String>, given: Option<&str>| {
        if let Some(text) = given {
            *column = Some(storable(text));
        }
    };
    set(&mut record.staged_path, notes.staged_path);
    set(&mut record.remote_job, notes.remote_job);
    set(&mut record.remote_mark, notes.mark);
    set(&mut record.poster_path, notes.poster_path);
    set(&mut record.output_sha256, notes.output_sha256);
    set(&mut record.output_path, notes.output_path);
    set(&mut record.output_objects, notes.output_objects);
    set(&mut record.previous_output_path, notes.previous_path);
    record.output_bytes = notes.output_bytes.or(record.output_bytes);
}

/// The owner of a lease, and its end.
fn held(lease: Lease) -> (Option<ProcessId>, Option<Timestamp>) {
    match lease {
        Lease::Free { .. } => (None, None),
        Lease::Held { fence, until } => (Some(fence.owner), until),
    }
}

statements! {
    /// Writes a row under the lease that it had when it was read: zero rows mean that another worker has it.
    fn render_save(record: &RenderRecord, before: &Render, by: &str) -> u64 {
        bind(
            record.id(), before.lease.epoch(), held(before.lease).0, record.render.status.as_str(),
            record.render.phase.as_str(), i64::from(record.render.progress.get()), held(record.render.lease).0,
            &record.worker_name, held(record.render.lease).1, record.render.lease.epoch(), record.render.job,
            &record.remote_job, record.render.counts.attempts, record.render.counts.recoveries,
            record.render.counts.submit, record.render.counts.render, record.render.counts.upload,
            record.render.run_after, record.render.cancel_requested_at,
            record.render.reason.as_ref().map(|reason| reason.code.to_string()),
            record.render.reason.as_ref().map(|reason| reason.message.as_str()), record.submitted_at,
            record.node_started_at, record.changed_at, &record.remote_mark, &record.staged_path, &record.output_path,
            record.output_bytes, &record.output_sha256, &record.poster_path, &record.gfx_hash, record.started_at,
            record.completed_at, record.ended_at, record.duration_seconds, record.updated_at, by,
            &record.previous_output_path, record.output_revision, record.render.approval.map(Approval::as_str),
            &record.output_objects,
        )
        "update render_queue
         set status = $4, phase = $5, progress = $6, worker_id = $7, worker_name = $8, lock_expires_at = $9,
             epoch = $10, job_epoch = $11, nexrender_job_id = $12, attempts = $13, recovery_count = $14,
             submit_failures = $15, render_failures = $16, upload_failures = $17, run_after = $18,
             cancel_requested_at = $19, error_code = $20, error_message = $21, submitted_at = $22,
             node_started_at = $23, changed_at = $24, remote_mark = $25, staged_path = $26, output_file_path = $27,
             output_bytes = $28, output_sha256 = $29, poster_path = $30, gfx_hash = $31, started_at = $32,
             completed_at = $33, ended_at = $34, duration_seconds = $35, updated_at = $36, changed_by = $37,
             previous_output_path = $38, output_revision = $39, approval = $40, output_objects = $41,
             lock_renewed_at = case when lock_expires_at {is not} $9 then $36 else lock_renewed_at end,
             revision = revision + 1
         where id = $1 and epoch = $2 and worker_id {is} $3"
    }

    /// The changes of a claim, for all rows at once. They are locked.
    fn render_save_claimed(claimed: &[&RenderRecord], request: ClaimRequest<'_>, now: Timestamp) -> u64 {
        bind(
            rows(claimed, |RenderRecord { render, broadcast_date, .. }| json!({
                "id": render.id.get(), "status": render.status.as_str(), "phase": render.phase.as_str(),
                "progress": render.progress.get(), "epoch": render.lease.epoch().get(),
                "attempts": render.counts.attempts, "broadcast_date": broadcast_date.map(|date| date.to_string()),
            })),
            request.by, request.worker, now.plus(request.policy.lease_for), now,
        )
        "update render_queue as q
         set status = c.status, phase = c.phase, progress = c.progress, epoch = c.epoch, attempts = c.attempts,
             broadcast_date = coalesce(q.broadcast_date, c.broadcast_date{::date}), worker_id = $2, worker_name = $3,
             lock_expires_at = $4, lock_renewed_at = $5, error_code = null, error_message = null,
             started_at = coalesce(q.started_at, $5), updated_at = $5, changed_by = $3, revision = q.revision + 1
         from {rows c $1: id bigint, status text, phase text, progress bigint, epoch bigint, attempts bigint,
               broadcast_date text}
         where q.id = c.id and q.status = 'pending'"
    }

    /// Ends a render with an invalid row, so that it does not block the others.
    fn render_set_aside(id: RenderId, code: &str, why: &str, now: Timestamp) -> () {
        "update render_queue
         set status = 'failed', worker_id = null, lock_expires_at = null, error_code = $2, error_message = $3,
             ended_at = $4, updated_at = $4, changed_by = 'tidemill', revision = revision + 1
         where id = $1"
    }

    /// `decide` with `Work::Renew` as one guarded statement, where only the lease changes. Returns those renewed.
    fn render_renew(held: &[(RenderId, Fence)], micros: i64, now: Option<Timestamp>) -> Vec<i64> {
        bind(
            rows(held, |(id, fence)| json!({
                "id": id.get(), "epoch": fence.epoch.get(), "owner": DbId::from(fence.owner),
            })),
            micros, now,
        )
        "update render_queue
         set lock_expires_at = coalesce($3, {now}) + $2 * {micros 1}, lock_renewed_at = coalesce($3, {now}),
             revision = revision + 1
         from {rows held $1: id bigint, epoch bigint, owner uuid}
         where render_queue.id = held.id
           and render_queue.epoch = held.epoch
           and worker_id = held.owner
           and lock_expires_at > coalesce($3, {now})
           and status in ('preparing', 'rendering', 'encoding', 'uploading')
           and (cancel_requested_at is null or phase = 'publishing')
         returning render_queue.id{::bigint}"
    }

    fn render_data_find(id: RenderId) -> Option<DataRow> {
        "select id{::bigint} as id, coalesce(gfx_data{::text}, 'null') as gfx_data, gfx_key_id
         from render_queue where id = $1"
    }

    fn render_data_short(ids: &[i64], chars_max: u32) -> Vec<DataRow> {
        "select id{::bigint} as id, gfx_data{::text} as gfx_data, gfx_key_id
         from render_queue
         where id {in $1} and length(gfx_data{::text}) <= $2"
    }

    /// Locks renders whose data or job is not under this key, by id.
    fn render_data_lock_others(key: &str, after: i64, limit: u32) -> Vec<DataRow> {
        "select id{::bigint} as id, coalesce(gfx_data{::text}, 'null') as gfx_data, gfx_key_id
         from render_queue q
         where id > $2
           and (
               gfx_key_id {is not} $1
               or exists (
                   select 1 from render_attempt a
                   where a.render_id = q.id
                     and a.document is not null
                     and a.document_key_id {is not} $1
               )
           )
         order by id limit $3 {for update}"
    }

    /// Goes through a JSON record, which fits any column type of an adopted table.
    fn render_data_save(id: RenderId, text: &str, key: Option<&str>) -> () {
        postgres {
            "update render_queue
             set gfx_data = (
                     select r.gfx_data
                     from jsonb_populate_record(null::render_queue, jsonb_build_object('gfx_data', $2::jsonb)) as r
                 ),
                 gfx_key_id = $3, revision = revision + 1
             where id = $1"
        }
        sqlite {
            "update render_queue set gfx_data = $2, gfx_key_id = $3, revision = revision + 1 where id = $1"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use crate::store::Store;
    use tidemill_domain::render::{Event, Policy, RenderId, decide};

    /// Rows are locked before they are written, so only a row read earlier can show what the fence itself does.
    async fn a_row_that_was_read_under_another_lease_is_not_written(scratch: Scratch) {
        let store: Store = scratch.store(None).await.unwrap();
        let mut tx = store.begin().await.unwrap();
        tx.execute_for_test("insert into render_queue (composition_id, gfx_data) values ('c', '{}')")
            .await
            .unwrap();
        let now = tx.now().await.unwrap();
        let policy = Policy::standard().unwrap();
        let row = tx.render_lock(RenderId::new(1)).await.unwrap().unwrap();
        let by = tidemill_domain::process::ProcessId::new(uuid::Uuid::from_u128(7));
        let decision = decide(&row.render, &Event::Claim { by }, &policy, now.plus(Duration::from_secs(1)));
        assert!(decision.write.is_some());
        for stale in [
            "update render_queue set epoch = epoch + 1",
            "update render_queue set epoch = 0, worker_id = '00000000-0000-0000-0000-000000000009'",
        ] {
            tx.execute_for_test(stale).await.unwrap();

            let saved =
                tx.renders().save_render(row.clone(), &decision, Change::new("w", now)).await.unwrap();

            assert!(saved.is_none(), "{stale}");
            let found = tx.renders().find(RenderId::new(1)).await.unwrap().unwrap();
            assert_eq!(found.render.status, Status::Pending, "{stale}");
        }
        tx.execute_for_test("update render_queue set worker_id = null").await.unwrap();
        let saved = tx.renders().save_render(row, &decision, Change::new("w", now)).await.unwrap();
        assert!(saved.is_some());
    }

    #[tokio::test]
    async fn on_sqlite_a_row_that_was_read_under_another_lease_is_not_written() {
        a_row_that_was_read_under_another_lease_is_not_written(Scratch::file()).await;
    }

    #[tokio::test]
    async fn on_postgres_a_row_that_was_read_under_another_lease_is_not_written() {
        if let Some(scratch) = Scratch::postgres().await {
            a_row_that_was_read_under_another_lease_is_not_written(scratch).await;
        }
    }
}
