//! Attempts at a render: one row per claim.

use super::object;
use super::record::{reason, storable};
use crate::error::{Result, damaged};
use crate::statement::stored;
use crate::tx::Renders;
use serde_json::Value;
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
