//! Renders: the rows of `render_queue`, from the insert of a dashboard to the file on the NAS, and what is known of
//! compositions.
//!
//! Reading order: [`record`] (what a row says), [`submit`] (a render is ordered), [`claim`] (a worker gets some),
//! [`work`] (a worker says what it has done, under its fence), [`reap`] (workers that have vanished), [`operate`] (what
//! people may do), [`orphan_job`] (jobs that nexrender still has and nobody needs), [`list`] (what people see), [`attempt`]
//! (what was tried), [`worker`] (who is at work), [`standing`] (how it goes); [`mapping`] and [`profile`] (what is known of compositions, and what is not); [`data`],
//! [`key`] and [`cipher`] (what a render shows, and how it is kept from others).

pub mod record;

pub mod submit;

pub mod claim;
pub mod work;

pub mod reap;

pub mod operate;
pub mod orphan_job;

pub mod attempt;
pub mod list;
pub mod standing;
pub mod worker;

pub mod mapping;
pub mod profile;

pub mod cipher;
pub mod data;
pub mod key;

pub(crate) mod row;
mod save;

pub use attempt::AttemptRecord;
pub use claim::{ClaimRequest, Claimed, Claims};
pub use data::Resealed;
pub use key::{BadKey, Keys};
pub use list::{FoundRenders, RenderCounts, RenderFilter, TransitionRecord};
pub use mapping::Revisions;
pub use operate::Ordered;
pub use orphan_job::OrphanJob;
pub use profile::RenderGap;
pub use reap::Reaped;
pub use record::RenderRecord;
pub use standing::{RenderStanding, WorkerTally};
pub use submit::{NewRender, Submitted};
pub use work::{Notes, Worked};
pub use worker::{WorkerBeat, WorkerRecord, WorkerState};

use tidemill_domain::render::RenderId;

/// Topic of the wake-up that is sent when a render waits for a worker; the trigger of PostgreSQL knows it too.
pub const RENDER_WAITING: &str = "render_waiting";

/// Topic of the wake-up that is sent when somebody does not want a render any more that a worker has; the trigger of
/// PostgreSQL knows it too.
pub const RENDER_CANCELLED: &str = "render_cancelled";

/// Topic of the wake-up that is sent when there is a job to be taken out of nexrender.
pub const RENDER_LEFTOVER: &str = "render_leftover";

/// A render, as the audit log names it.
pub(crate) fn object(id: RenderId) -> String {
    format!("render/{id}")
}
