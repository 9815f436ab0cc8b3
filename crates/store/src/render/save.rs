//! Saves what the rules decide about a render: the row under its fence, and its dependent rows, in one transaction.

use super::row::{RenderRow, storable};
use super::work::Notes;
use super::{RENDER_CANCELLED, RENDER_LEFTOVER, RENDER_WAITING};
use crate::codec::DbTime;
use crate::crash_point;
use crate::error::Result;
use crate::tx::{AttemptNote, NewLeftover, Renders};
use serde_json::Value;
use std::time::Duration;
use tidemill_domain::lease::{Epoch, Lease};
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
        mut row: RenderRow,
        before: &Render,
        decision: &Decision,
        change: Change<'_>,
    ) -> Result<Option<RenderRow>> {
        let Some(after) = &decision.write else { return Ok(Some(row)) };
        let old = row.clone();
        update(&mut row, before, after, &change);
        let worker_before = match before.lease {
            Lease::Held { fence, .. } => Some(fence.owner.into()),
            Lease::Free { .. } => None,
        };
        let epoch_before = before.lease.epoch().get();
        if self.render_save(&row, epoch_before, worker_before, change.by).await? == 0 {
            return Ok(None);
        }
        row.revision += 1;
        crash_point!("render_saved");
        self.note_attempt(&row, (before, after), &change).await?;
        if let Act::DropJob { epoch, slot, file } = decision.act {
            let uid = Uid::new(before.id, epoch).to_string();
            let is_own = old.job_epoch == Some(epoch.get());
            self.render_leftover_insert(&NewLeftover {
                render_id: row.id,
                epoch: epoch.get(),
                nexrender_job_id: old.nexrender_job_id.as_deref().filter(|_| is_own).unwrap_or(&uid),
                staged_path: old.staged_path.as_deref().filter(|_| is_own),
                slot: slot.as_str(),
                file: file.as_str(),
                since: change.now.into(),
                look_after: change.now.plus(change.leftover_kept).into(),
            })
            .await?;
            if change.leftover_kept.is_zero() {
                self.wake(RENDER_LEFTOVER);
            }
        }
        self.publish_render_event(&row, before, after, change.now).await?;
        match after.status {
            Status::Pending if after.run_after <= change.now => self.wake(RENDER_WAITING),
            status if status.is_active() && before.cancel_requested_at != after.cancel_requested_at => {
                self.wake(RENDER_CANCELLED);
            }
            _ => {}
        }
        Ok(Some(row))
    }

    /// Saves what is known of the row's attempt, and how it ended.
    async fn note_attempt(
        &mut self,
        row: &RenderRow,
        (before, after): (&Render, &Render),
        change: &Change<'_>,
    ) -> Result<()> {
        let Lease::Held { fence, .. } = before.lease else { return Ok(()) };
        let epoch = fence.epoch.get();
        let notes = &change.notes;
        let job = (row.job_epoch != before.job.map(Epoch::get) || notes.remote_job.is_some())
            .then(|| row.nexrender_job_id.clone())
            .flatten();
        let document = notes.document.map(Value::to_string);
        let report = notes.report.map(|report| storable(&report.to_string()));
        if job.is_some() || document.is_some() || report.is_some() {
            let hash = document.as_ref().map(|text| self.render_keys().hash(text));
            let (document, key) = match document {
                Some(text) => self.seal_document(row.id, epoch, text)?,
                None => (None, None),
            };
            self.render_attempt_note(&AttemptNote {
                render_id: row.id,
                epoch,
                nexrender_job_id: job.as_deref(),
                document: document.as_deref(),
                document_sha256: hash.as_deref(),
                document_key_id: key.as_deref(),
                report: report.as_deref(),
            })
            .await?;
        }
        if row.worker_id.is_some() {
            return Ok(());
        }
        let outcome = AttemptOutcome::of(after.status, change.given_back).as_str();
        let (code, message) = (row.error_code.as_deref(), row.error_message.as_deref());
        Ok(self.render_attempt_end(row.id, epoch, outcome, code, message, change.now).await?)
    }

    /// Writes a lifecycle event for a render that has ended, if enabled.
    pub(super) async fn publish_render_event(
        &mut self,
        row: &RenderRow,
        before: &Render,
        after: &Render,
        at: Timestamp,
    ) -> Result<()> {
        // A render cancelled by SQL ends when its worker gives it back.
        let is_given_back = matches!(before.lease, Lease::Held { .. });
        if !after.status.is_terminal() || (before.status == after.status && !is_given_back) {
            return Ok(());
        }
        let event = self.lifecycle_events().of_render(&RenderChange {
            render: after.id,
            composition: row.composition_id.as_deref(),
            cue_item: row.cue_item_id.as_deref(),
            status: after.status,
            code: after.reason.as_ref().map(|reason| reason.code),
            output: row.output_file_path.as_deref(),
            at,
        });
        if let Some(event) = event {
            self.publish(&event).await?;
        }
        Ok(())
    }
}

fn update(row: &mut RenderRow, before: &Render, after: &Render, change: &Change<'_>) {
    let now = DbTime(change.now);
    row.set(after);
    row.updated_at = now;
    if after.job != before.job {
        row.nexrender_job_id = after.job.map(|epoch| Uid::new(after.id, epoch).to_string());
        (row.submitted_at, row.node_started_at, row.changed_at) = (None, None, None);
        (row.remote_mark, row.staged_path) = (None, None);
        (row.output_bytes, row.output_sha256) = (None, None);
        (row.output_file_path, row.poster_path) = (None, None);
    }
    let is_marked = change.notes.mark.is_some_and(|mark| row.remote_mark.as_deref() != Some(mark));
    note(row, &change.notes);
    if after.phase.is_remote() {
        row.submitted_at.get_or_insert(now);
        if after.phase > Phase::WaitingForNode {
            row.node_started_at.get_or_insert(now);
        } else if row.node_started_at.take().is_some() {
            // The node has put it back, so it waits as if it were new.
            row.submitted_at = Some(now);
        }
        let has_moved = after.phase != before.phase || after.progress != before.progress;
        if is_marked || has_moved || row.changed_at.is_none() {
            row.changed_at = Some(now);
        }
    }
    if after.status.is_terminal() && !before.status.is_terminal() {
        row.ended_at = Some(now);
    }
    if after.status == Status::Completed && before.status != Status::Completed {
        row.completed_at = Some(now);
        let started_at = row.started_at.map(Timestamp::from);
        row.duration_seconds = started_at.map(|started_at| change.now.since(started_at).as_secs_f64());
    }
    if before.status.is_terminal() && after.status == Status::Pending {
        (row.ended_at, row.started_at, row.completed_at, row.duration_seconds) = (None, None, None, None);
        // The same may have been ordered again meanwhile.
        row.gfx_hash = None;
    }
}

fn note(row: &mut RenderRow, notes: &Notes<'_>) {
    let set = |column: &mut Option<String>, given: Option<&str>| {
        if let Some(text) = given {
            *column = Some(storable(text));
        }
    };
    set(&mut row.staged_path, notes.staged_path);
    set(&mut row.nexrender_job_id, notes.remote_job);
    set(&mut row.remote_mark, notes.mark);
    set(&mut row.poster_path, notes.poster_path);
    set(&mut row.output_sha256, notes.output_sha256);
    set(&mut row.output_file_path, notes.output_path);
    if let Some(bytes) = notes.output_bytes {
        row.output_bytes = Some(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use crate::store::Store;
    use tidemill_domain::render::{Event, Policy, decide};

    /// Rows are locked before they are written, so only a row read earlier can show what the fence itself does.
    async fn a_row_that_was_read_under_another_lease_is_not_written(scratch: Scratch) {
        let store: Store = scratch.store(None).await.unwrap();
        let mut tx = store.begin().await.unwrap();
        tx.execute_for_test("insert into render_queue (composition_id, gfx_data) values ('c', '{}')")
            .await
            .unwrap();
        let now = tx.now().await.unwrap();
        let policy = Policy::standard().unwrap();
        let decide = |row: &RenderRow| {
            let before = row.render().unwrap();
            let by = tidemill_domain::process::ProcessId::new(uuid::Uuid::from_u128(7));
            let decision = decide(&before, &Event::Claim { by }, &policy, now.plus(Duration::from_secs(1)));
            assert!(decision.write.is_some());
            (before, decision)
        };
        let row = tx.render_lock(1).await.unwrap().unwrap();
        let (before, decision) = decide(&row);
        for stale in [
            "update render_queue set epoch = epoch + 1",
            "update render_queue set epoch = 0, worker_id = '00000000-0000-0000-0000-000000000009'",
        ] {
            tx.execute_for_test(stale).await.unwrap();

            let saved = tx
                .renders()
                .save_render(row.clone(), &before, &decision, Change::new("w", now))
                .await
                .unwrap();

            assert!(saved.is_none(), "{stale}");
            assert_eq!(tx.render_find(1).await.unwrap().unwrap().status, "pending", "{stale}");
        }
        tx.execute_for_test("update render_queue set worker_id = null").await.unwrap();
        let saved = tx.renders().save_render(row, &before, &decision, Change::new("w", now)).await.unwrap();
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
