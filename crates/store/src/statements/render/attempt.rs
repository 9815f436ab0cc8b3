//! Statements on `render_attempt`, and on `render_queue_audit`.

use crate::render::row::RenderRow;
use crate::render::{AttemptRecord, TransitionRecord};
use crate::statement::{column, statements};
use crate::tx::{AttemptNote, Takeover};
use tidemill_domain::lease::Epoch;
use tidemill_domain::render::RenderId;
use tidemill_domain::time::Timestamp;

statements! {
    /// One per claim. Earlier attempts without an end were lost: the status was changed by SQL.
    fn render_attempt_begin(rows: &[&RenderRow], takeover: Takeover<'_>) -> () {
        postgres {
            bind(
                column(rows, |row| row.id), column(rows, |row| row.epoch),
                column(rows, |row| row.nexrender_job_id.as_deref()), takeover.worker, takeover.name,
                takeover.now,
            )
            "with ended as (
                 update render_attempt
                 set ended_at = $6, outcome = 'lost'
                 where render_id = any($1)
                   and ended_at is null
             )
             insert into render_attempt (render_id, epoch, worker_id, worker_name, nexrender_job_id, started_at)
             select c.id, c.epoch, $4, $5, c.job, $6
             from unnest($1::bigint[], $2::bigint[], $3::text[]) as c (id, epoch, job)"
        }
        sqlite |connection| {
            for row in rows {
                sqlx::query(
                    "update render_attempt set ended_at = $2, outcome = 'lost'
                     where render_id = $1 and ended_at is null",
                )
                .bind(row.id)
                .bind(takeover.now)
                .execute(&mut *connection)
                .await?;
                sqlx::query(
                    "insert into render_attempt (render_id, epoch, worker_id, worker_name, nexrender_job_id, started_at)
                     values ($1, $2, $3, $4, $5, $6)",
                )
                .bind(row.id)
                .bind(row.epoch)
                .bind(takeover.worker)
                .bind(takeover.name)
                .bind(&row.nexrender_job_id)
                .bind(takeover.now)
                .execute(&mut *connection)
                .await?;
            }
            Ok(())
        }
    }

    fn render_attempt_note(note: &AttemptNote<'_>) -> () {
        bind(
            note.render_id, note.epoch, note.nexrender_job_id, note.document, note.document_sha256,
            note.document_key_id, note.report,
        )
        "update render_attempt
         set nexrender_job_id = coalesce($3, nexrender_job_id), document = coalesce($4, document),
             document_sha256 = coalesce($5, document_sha256),
             document_key_id = case when $4{::text} is null then document_key_id else $6 end,
             report = coalesce($7, report)
         where render_id = $1 and epoch = $2"
    }

    fn render_attempt_end(
        id: i64, epoch: i64, outcome: &str, code: Option<&str>, message: Option<&str>, now: Timestamp,
    ) -> () {
        "update render_attempt set ended_at = $6, outcome = $3, error_code = $4, error_message = $5
         where render_id = $1 and epoch = $2 and ended_at is null"
    }

    /// Oldest first.
    pub fn Renders::attempts(id: RenderId) -> Vec<AttemptRecord> {
        "select render_id, epoch, worker_id, worker_name, nexrender_job_id, document_sha256, started_at, ended_at,
                outcome, error_code, error_message, report
         from render_attempt where render_id = $1 order by epoch"
    }

    /// As triggers have recorded them, the oldest first.
    fn render_transitions_of(id: RenderId) -> Vec<Option<TransitionRecord>> {
        "select id, status_from, status_to, worker_id, changed_at, changed_by, phase, epoch, error_code
         from render_queue_audit where render_queue_id = $1 order by id"
    }

    fn render_attempt_document(id: RenderId, epoch: Epoch) -> Option<String> {
        "select document from render_attempt where render_id = $1 and epoch = $2 and document is not null"
    }

    /// All of a render, with their epochs.
    fn render_attempt_documents(id: i64) -> Vec<(i64, String)> {
        "select epoch, document from render_attempt where render_id = $1 and document is not null"
    }

    fn render_attempt_reseal(id: i64, epoch: i64, text: &str, key: &str, hash: &str) -> () {
        "update render_attempt set document = $3, document_key_id = $4, document_sha256 = $5
         where render_id = $1 and epoch = $2"
    }
}
