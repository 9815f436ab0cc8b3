//! A render as stored.

use tidemill_domain::render::clock::Seen;
use tidemill_domain::render::{BroadcastDate, Render, RenderId};
use tidemill_domain::time::Timestamp;

/// A row of `render_queue`, without the data of the render: `Tx::render_data` reads that.
#[derive(Clone, PartialEq, Debug)]
pub struct RenderRecord {
    /// The part that the domain's rules use.
    pub render: Render,
    /// The column `composition_id`.
    pub composition: Option<String>,
    /// The object it was ordered for.
    pub cue_item: Option<String>,
    pub priority: i64,
    /// Set at the first claim, at the latest.
    pub broadcast_date: Option<BroadcastDate>,
    /// If it waits or has ended: the last worker.
    pub worker_name: Option<String>,
    /// nexrender's id of its job.
    pub remote_job: Option<String>,
    /// When the job entered nexrender's queue.
    pub submitted_at: Option<Timestamp>,
    /// When a node first had it, since it was last in the queue.
    pub node_started_at: Option<Timestamp>,
    pub changed_at: Option<Timestamp>,
    /// Where the node leaves the file.
    pub staged_path: Option<String>,
    /// The final path, for people.
    pub output_path: Option<String>,
    pub output_bytes: Option<u64>,
    /// In hexadecimal digits.
    pub output_sha256: Option<String>,
    pub poster_path: Option<String>,
    /// The key that encrypts its data; `None` in clear.
    pub key_id: Option<String>,
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

impl RenderRecord {
    pub fn id(&self) -> RenderId {
        self.render.id
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
}
