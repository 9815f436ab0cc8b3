//! What was tried with a render: one row for each claim.

use super::object;
use super::row::{reason, storable};
use crate::codec::DbId;
use crate::error::{StoreError, damaged};
use crate::statement::{Columns, Stored};
use crate::tx::Renders;
use serde_json::Value;
use tidemill_domain::lease::Epoch;
use tidemill_domain::process::ProcessId;
use tidemill_domain::render::RenderId;
use tidemill_domain::render::attempt::AttemptOutcome;
use tidemill_domain::render::lifecycle::Reason;
use tidemill_domain::time::Timestamp;

#[derive(Clone, PartialEq, Debug)]
pub struct AttemptRecord {
    pub epoch: Epoch,
    pub worker: ProcessId,
    pub worker_name: String,
    pub remote_job: Option<String>,
    /// The SHA-256 of the job's document; under a key, where data is encrypted: otherwise whoever may read it could try
    /// names until one fits.
    pub document_sha256: Option<String>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub outcome: Option<AttemptOutcome>,
    pub reason: Option<Reason>,
    /// What the checks of the file have found.
    pub report: Option<Value>,
}

impl Stored for AttemptRecord {
    const PLACE: (&'static str, &'static str) = ("render_attempt", "render_id epoch");

    fn from_columns(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        let code: Option<String> = row.get("error_code")?;
        let message: Option<String> = row.get("error_message")?;
        Ok(Self {
            epoch: Epoch::new(row.get("epoch")?),
            worker: row.get::<DbId>("worker_id")?.into(),
            worker_name: row.get("worker_name")?,
            remote_job: row.get("nexrender_job_id")?,
            document_sha256: row.get("document_sha256")?,
            started_at: row.time("started_at")?,
            ended_at: row.time_if("ended_at")?,
            outcome: row.parsed_if("outcome")?,
            reason: reason(code.as_deref(), message.as_deref()),
            report: row.parsed_if("report")?,
        })
    }
}

impl Renders<'_> {
    /// What was tried with a render, the oldest first.
    pub async fn attempts(&mut self, id: RenderId) -> Result<Vec<AttemptRecord>, StoreError> {
        Ok(self.render_attempts_of(id.get()).await?)
    }

    /// The job that was made in this epoch, in clear; none when there was none.
    pub async fn document(&mut self, id: RenderId, epoch: Epoch) -> Result<Option<Value>, StoreError> {
        let Some(stored) = self.render_attempt_document(id.get(), epoch.get()).await? else {
            return Ok(None);
        };
        let text = self.render_keys().open(&place(id, epoch), stored)?;
        let broken = |_| damaged("render_attempt", "document", format!("{id} {epoch}"));
        serde_json::from_str(&text).map(Some).map_err(broken)
    }

    /// The document as it is stored, and its key.
    pub(super) fn seal_document(
        &self,
        id: i64,
        epoch: i64,
        text: String,
    ) -> Result<(Option<String>, Option<String>), StoreError> {
        let place = place(RenderId::new(id), Epoch::new(epoch));
        Ok(match self.render_keys().seal(&place, &text)? {
            Some(sealed) => (Some(sealed.text()), Some(sealed.key_id().to_owned())),
            None => (Some(storable(&text)), None),
        })
    }
}

/// What a document belongs to.
pub(super) fn place(id: RenderId, epoch: Epoch) -> String {
    format!("{}/{epoch}", object(id))
}
