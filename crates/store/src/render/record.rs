//! A render as its row has it.

use tidemill_domain::render::clock::Seen;
use tidemill_domain::render::{BroadcastDate, Render, RenderId};
use tidemill_domain::time::Timestamp;

/// A render as its row has it, without what it shows: `Tx::render_data` reads that.
#[derive(Clone, PartialEq, Debug)]
pub struct RenderRecord {
    /// What the rules know of it.
    pub render: Render,
    /// The column `composition_id`.
    pub composition: Option<String>,
    /// What it was ordered for.
    pub cue_item: Option<String>,
    pub priority: i64,
    /// The day of its broadcast; decided when it is first claimed, at the latest.
    pub broadcast_date: Option<BroadcastDate>,
    /// What its worker calls itself; of one that waits or has ended, the last one's.
    pub worker_name: Option<String>,
    /// The name that nexrender has for its job.
    pub remote_job: Option<String>,
    /// Since when the job is in nexrender's queue.
    pub submitted_at: Option<Timestamp>,
    /// When a node was first seen with it, since it was last in the queue.
    pub node_started_at: Option<Timestamp>,
    /// When something about it last differed from before.
    pub changed_at: Option<Timestamp>,
    /// Where the node leaves the file.
    pub staged_path: Option<String>,
    /// The final place of the file, as people read it.
    pub output_path: Option<String>,
    pub output_bytes: Option<u64>,
    /// Its SHA-256, in hexadecimal digits.
    pub output_sha256: Option<String>,
    pub poster_path: Option<String>,
    /// The key with which its data is encrypted; none when it is stored in clear.
    pub key_id: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// When it was first claimed.
    pub started_at: Option<Timestamp>,
    /// When its file was published.
    pub completed_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// How long it took from the first claim to the published file.
    pub duration_seconds: Option<f64>,
    /// Grows with each change that we make.
    pub revision: i64,
}

impl RenderRecord {
    pub fn id(&self) -> RenderId {
        self.render.id
    }

    /// What the clocks need; none while nexrender has no job of it.
    pub fn seen(&self) -> Option<Seen> {
        let submitted_at = self.submitted_at?;
        Some(Seen {
            phase: self.render.phase,
            submitted_at,
            started_at: self.node_started_at,
            changed_at: self.changed_at.unwrap_or(submitted_at),
        })
    }
}
