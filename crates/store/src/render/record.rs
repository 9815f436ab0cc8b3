//! A row of `render_queue`, as it is read and written.

use crate::codec::storable;
use crate::error::{Result, StoreError};
use crate::statement::columns::found_damage;
use crate::statement::{Columns, Stored, stored};
use tidemill_domain::code::Code;
use tidemill_domain::lease::{Fence, Lease};
use tidemill_domain::render::clock::Seen;
use tidemill_domain::render::lifecycle::{Counts, Reason};
use tidemill_domain::render::{BroadcastDate, Progress, Render, RenderId};
use tidemill_domain::time::Timestamp;

const RENDER: (&str, &str) = ("render_queue", "id");

stored! {
    /// Without the data of the render: see [`Renders::data`](crate::tx::Renders::data).
    #[derive(Clone, PartialEq, Debug)]
    pub struct RenderRecord in RENDER |row| {
        /// The part that the domain's rules use.
        pub render: Render => render(row)?,
        pub composition: Option<String> = "composition_id",
        /// The object it was ordered for.
        pub cue_item: Option<String> = "cue_item_id",
        pub priority: i64,
        /// Its batch, if it was ordered in one.
        pub batch: Option<RenderId> = "batch_id",
        /// Set at the first claim, at the latest.
        pub broadcast_date: Option<BroadcastDate>,
        /// If it waits or has ended: the last worker.
        pub worker_name: Option<String>,
        /// nexrender's id of its job.
        pub remote_job: Option<String> = "nexrender_job_id",
        /// When the job entered nexrender's queue.
        pub submitted_at: Option<Timestamp>,
        /// When a node first had it, since it was last in the queue.
        pub node_started_at: Option<Timestamp>,
        pub changed_at: Option<Timestamp>,
        /// Changes with the job at nexrender.
        pub(crate) remote_mark: Option<String>,
        /// Where the node leaves the file.
        pub staged_path: Option<String>,
        /// Grows when the render is wanted once more after its file was published.
        pub output_revision: u32,
        /// The file that was published before.
        pub previous_output_path: Option<String>,
        /// The final path, for people.
        pub output_path: Option<String> = "output_file_path",
        /// Where object stores have its last file, or will have it, one URL on each line.
        pub output_objects: Option<String>,
        pub output_bytes: Option<u64>,
        /// In hexadecimal digits.
        pub output_sha256: Option<String>,
        pub poster_path: Option<String>,
        /// The key that encrypts its data; `None` in clear.
        pub key_id: Option<String> = "gfx_key_id",
        /// Recognises the same order for the same cue item.
        pub(crate) gfx_hash: Option<String>,
        pub created_at: Timestamp,
        pub updated_at: Timestamp,
        /// First claim.
        pub started_at: Option<Timestamp>,
        /// When its file was published.
        pub completed_at: Option<Timestamp>,
        pub ended_at: Option<Timestamp>,
        /// From the first claim to the published file.
        pub duration_seconds: Option<f64>,
        /// Grows with each change that we make.
        pub revision: i64,
    }
}

impl RenderRecord {
    pub fn id(&self) -> RenderId {
        self.render.id
    }

    /// URLs of the published file in object stores.
    pub fn objects(&self) -> Vec<&str> {
        let objects = self.output_objects.as_deref().filter(|_| self.output_path.is_some());
        // After an empty line are those of earlier files.
        objects.unwrap_or_default().lines().take_while(|url| !url.is_empty()).collect()
    }

    /// For timeouts; `None` while nexrender has no job for it.
    pub fn seen(&self) -> Option<Seen> {
        let submitted_at = self.submitted_at?;
        Some(Seen {
            phase: self.render.phase,
            submitted_at,
            started_at: self.node_started_at,
            changed_at: self.changed_at.unwrap_or(submitted_at),
        })
    }

    /// Takes over a decision of the rules.
    pub(super) fn set(&mut self, after: &Render) {
        self.render = after.clone();
        if let Some(reason) = &mut self.render.reason {
            reason.message = storable(&reason.message);
        }
    }
}

/// A row that may be damaged; then its id and the error.
pub(crate) struct CheckedRender(pub(super) Result<RenderRecord, (RenderId, StoreError)>);

impl Stored for CheckedRender {
    const PLACE: (&'static str, &'static str) = RENDER;

    fn from_columns(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        Ok(Self(match RenderRecord::from_columns(row) {
            Ok(record) => Ok(record),
            Err(error) => Err((row.get("id")?, found_damage(error)?)),
        }))
    }
}

fn render(row: &Columns<'_>) -> Result<Render, sqlx::Error> {
    let epoch = row.get("epoch")?;
    Ok(Render {
        id: row.get("id")?,
        status: row.get("status")?,
        phase: row.get("phase")?,
        progress: Progress::stored(row.get("progress")?),
        lease: match row.get("worker_id")? {
            None => Lease::Free { epoch },
            Some(owner) => Lease::Held { fence: Fence { owner, epoch }, until: row.get("lock_expires_at")? },
        },
        job: row.get("job_epoch")?,
        counts: Counts {
            attempts: row.get("attempts")?,
            recoveries: row.get("recovery_count")?,
            submit: row.get("submit_failures")?,
            render: row.get("render_failures")?,
            upload: row.get("upload_failures")?,
        },
        run_after: row.get("run_after")?,
        deadline: row.get("deadline")?,
        approval: row.get("approval")?,
        cancel_requested_at: row.get("cancel_requested_at")?,
        reason: reason(row.get("error_code")?, row.get("error_message")?),
    })
}

/// Rows of other programs have no code.
pub(super) fn reason(code: Option<String>, message: Option<String>) -> Option<Reason> {
    let known = code.and_then(|code| code.parse().ok());
    match (known, message) {
        (None, None) => None,
        (code, message) => {
            Some(Reason { code: code.unwrap_or(Code::Unexpected), message: message.unwrap_or_default() })
        }
    }
}
