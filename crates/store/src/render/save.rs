//! Saves what the rules decide about a render: the row under its fence, and its dependent rows, in one transaction.

use super::record::{RenderRecord, storable};
use super::work::Notes;
use super::{RENDER_CANCELLED, RENDER_LEFTOVER, RENDER_WAITING};
use crate::crash_point;
use crate::error::Result;
use crate::tx::{AttemptNote, NewLeftover, Renders};
use serde_json::Value;
use std::time::Duration;
use tidemill_domain::lease::{Fence, Lease};
use tidemill_domain::outbox::lifecycle_events::RenderChange;
use tidemill_domain::render::attempt::AttemptOutcome;
use tidemill_domain::render::{Act, Decision, Phase, Render, Status, Uid};
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
            let uid = Uid::new(before.id, epoch).to_string();
            let is_own = before.job == Some(epoch);
            self.render_leftover_insert(&NewLeftover {
                render_id: before.id,
                epoch,
                nexrender_job_id: old.remote_job.as_deref().filter(|_| is_own).unwrap_or(&uid),
                staged_path: old.staged_path.as_deref().filter(|_| is_own),
                slot: slot.as_str(),
                file: file.as_str(),
                since: change.now,
                look_after: change.now.plus(change.leftover_kept),
            })
            .await?;
            if change.leftover_kept.is_zero() {
                self.wake(RENDER_LEFTOVER);
            }
        }
        self.publish_render_event(&record, before, change.now).await?;
        match after.status {
            Status::Pending if after.run_after <= change.now => self.wake(RENDER_WAITING),
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

    /// Writes a lifecycle event for a render that has ended, if enabled.
    pub(super) async fn publish_render_event(
        &mut self,
        record: &RenderRecord,
        before: &Render,
        at: Timestamp,
    ) -> Result<()> {
        let after = &record.render;
        // A render cancelled by SQL ends when its worker gives it back.
        let is_given_back = matches!(before.lease, Lease::Held { .. });
        if !after.status.is_terminal() || (before.status == after.status && !is_given_back) {
            return Ok(());
        }
        let event = self.lifecycle_events().of_render(&RenderChange {
            render: after.id,
            composition: record.composition.as_deref(),
            cue_item: record.cue_item.as_deref(),
            status: after.status,
            code: after.reason.as_ref().map(|reason| reason.code),
            output: record.output_path.as_deref(),
            at,
        });
        if let Some(event) = event {
            self.publish(&event).await?;
        }
        Ok(())
    }
}

fn update(record: &mut RenderRecord, before: &Render, after: &Render, change: &Change<'_>) {
    let now = change.now;
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
    if before.status.is_terminal() && after.status == Status::Pending {
        (record.ended_at, record.started_at, record.completed_at, record.duration_seconds) =
            (None, None, None, None);
        // The same may have been ordered again meanwhile.
        record.gfx_hash = None;
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
    record.output_bytes = notes.output_bytes.or(record.output_bytes);
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
