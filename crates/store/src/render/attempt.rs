//! Attempts at a render: one row per claim.

use super::record::reason;
use super::{ClaimRequest, RenderRecord, TransitionRecord, object};
use crate::codec::storable;
use crate::error::{Result, damaged};
use crate::statement::{rows, statements, stored};
use crate::tx::Renders;
use serde_json::{Value, json};
use tidemill_domain::lease::Epoch;
use tidemill_domain::process::ProcessId;
use tidemill_domain::render::RenderId;
use tidemill_domain::render::attempt::AttemptOutcome;
use tidemill_domain::render::lifecycle::Reason;
use tidemill_domain::time::Timestamp;

stored! {
    #[derive(Clone, PartialEq, Debug)]
    pub struct AttemptRecord in ("render_attempt", "render_id epoch") |row| {
        pub epoch: Epoch,
        pub worker: ProcessId = "worker_id",
        pub worker_name: String,
        pub remote_job: Option<String> = "nexrender_job_id",
        /// SHA-256 of the job's document; a keyed hash where data is encrypted: otherwise a reader could guess names
        /// until one matches.
        pub document_sha256: Option<String>,
        pub started_at: Timestamp,
        pub ended_at: Option<Timestamp>,
        pub outcome: Option<AttemptOutcome>,
        pub reason: Option<Reason> => reason(row.get("error_code")?, row.get("error_message")?),
        /// The result of the file checks.
        pub report: Option<Value>,
    }
}

/// Absent values stay unchanged.
pub(crate) struct AttemptNote<'a> {
    pub(super) render_id: RenderId,
    pub(super) epoch: Epoch,
    pub(super) nexrender_job_id: Option<&'a str>,
    pub(super) document: Option<&'a str>,
    pub(super) document_sha256: Option<&'a str>,
    pub(super) document_key_id: Option<&'a str>,
    pub(super) report: Option<&'a str>,
}

impl Renders<'_> {
    /// The decrypted job of this epoch; `None` if there was none.
    #[crate::boxed]
    pub async fn document(&mut self, id: RenderId, epoch: Epoch) -> Result<Option<Value>> {
        let Some(stored) = self.render_attempt_document(id, epoch).await? else {
            return Ok(None);
        };
        let text = self.render_keys().open(&place(id, epoch), stored)?;
        let broken = |_| damaged("render_attempt", "document", format!("{id} {epoch}"));
        serde_json::from_str(&text).map(Some).map_err(broken)
    }

    /// The document as it is stored, and its key.
    pub(super) fn seal_document(
        &self,
        id: RenderId,
        epoch: Epoch,
        text: String,
    ) -> Result<(Option<String>, Option<String>)> {
        Ok(match self.render_keys().seal(&place(id, epoch), &text)? {
            Some(sealed) => (Some(sealed.text()), Some(sealed.key_id().to_owned())),
            None => (Some(storable(&text)), None),
        })
    }
}

/// What the encrypted document is bound to.
pub(super) fn place(id: RenderId, epoch: Epoch) -> String {
    format!("{}/{epoch}", object(id))
}

statements! {
    fn render_attempt_lose(renders: &[i64], now: Timestamp) -> () {
        "update render_attempt set ended_at = $2, outcome = 'lost' where render_id {in $1} and ended_at is null"
    }

    /// One per claim.
    fn render_attempt_begin(claimed: &[&RenderRecord], request: ClaimRequest<'_>, now: Timestamp) -> () {
        bind(
            rows(claimed, |record| json!({
                "id": record.id().get(), "epoch": record.render.lease.epoch().get(), "job": record.remote_job,
            })),
            request.by, request.worker, now,
        )
        "insert into render_attempt (render_id, epoch, worker_id, worker_name, nexrender_job_id, started_at)
         select id, epoch, $2, $3, job, $4 from {rows new $1: id bigint, epoch bigint, job text}"
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
        id: RenderId, epoch: Epoch, outcome: AttemptOutcome, reason: Option<&Reason>, now: Timestamp,
    ) -> () {
        bind(
            id, epoch, outcome.as_str(), reason.map(|reason| reason.code.to_string()),
            reason.map(|reason| reason.message.as_str()), now,
        )
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
