//! Renders: the rows of `render_queue`, from the insert to the file on the NAS, and the settings of compositions.
//!
//! Reading order: [`record`] (the row), [`submit`], [`batch`] (many at once), [`claim`] (a worker gets renders), [`work`] (a worker reports
//! progress, under its fence), [`reap`] (vanished workers), `outage` (waits that end), [`operate`] (operator actions), `notify` (notices of ends), [`orphan_job`] (nexrender
//! jobs that are no longer needed), [`list`], [`attempt`], [`worker`], [`metrics`] (metrics), [`purge`] (retention); [`composition`]
//! (mappings and profiles); [`data`], [`key`] and [`cipher`] (the data of a render and its encryption).

pub mod attempt;
pub mod batch;
pub mod cipher;
pub mod claim;
pub mod composition;
pub mod data;
pub mod key;
pub mod list;
pub mod metrics;
mod notify;
pub mod operate;
pub mod orphan_job;
mod outage;
pub mod purge;
pub mod reap;
pub mod record;
mod save;
pub mod submit;
pub mod work;
pub mod worker;

pub use attempt::AttemptRecord;
pub use batch::{BatchRecord, PlannedRender};
pub use claim::{ClaimRequest, Claimed, Claims};
pub use composition::{RenderGap, Revisions};
pub use data::Resealed;
pub use key::{BadKey, Keys};
pub use list::{RenderCounts, RenderFilter, RenderSearch, TransitionRecord};
pub use metrics::{RenderMetrics, WorkerTally};
pub use operate::RenderChanged;
pub use orphan_job::OrphanJob;
pub use purge::{RenderShare, RenderWalk};
pub use reap::Reaped;
pub use record::RenderRecord;
pub use submit::{NewRender, Submitted};
pub use work::{Notes, Worked};
pub use worker::{WorkerBeat, WorkerRecord, WorkerState};

use tidemill_domain::render::RenderId;

/// Wake-up topic: a render waits for a worker. PostgreSQL's trigger sends it too.
pub const RENDER_WAITING: &str = "render_waiting";

/// Wake-up topic: a render in work was cancelled. PostgreSQL's trigger sends it too.
pub const RENDER_CANCELLED: &str = "render_cancelled";

/// Wake-up topic: a job has to be removed from nexrender.
pub const RENDER_LEFTOVER: &str = "render_leftover";

/// The audited object.
pub(crate) fn object(id: RenderId) -> String {
    format!("render/{id}")
}
