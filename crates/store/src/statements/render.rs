//! Statements on renders. Columns that an adopted table may have in another type are cast.

pub(crate) mod attempt;
pub(crate) mod composition;
pub(crate) mod metrics;
pub(crate) mod orphan_job;
pub(crate) mod queue;
pub(crate) mod save;

use tidemill_domain::lease::Epoch;
use tidemill_domain::process::ProcessId;
use tidemill_domain::render::RenderId;
use tidemill_domain::time::Timestamp;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Takeover<'a> {
    pub(crate) worker: ProcessId,
    pub(crate) name: &'a str,
    pub(crate) until: Timestamp,
    pub(crate) now: Timestamp,
}

/// Absent values stay unchanged.
pub(crate) struct AttemptNote<'a> {
    pub(crate) render_id: RenderId,
    pub(crate) epoch: Epoch,
    pub(crate) nexrender_job_id: Option<&'a str>,
    pub(crate) document: Option<&'a str>,
    pub(crate) document_sha256: Option<&'a str>,
    pub(crate) document_key_id: Option<&'a str>,
    pub(crate) report: Option<&'a str>,
}

pub(crate) struct NewLeftover<'a> {
    pub(crate) render_id: RenderId,
    pub(crate) epoch: Epoch,
    pub(crate) nexrender_job_id: &'a str,
    pub(crate) staged_path: Option<&'a str>,
    pub(crate) slot: &'a str,
    pub(crate) file: &'a str,
    pub(crate) since: Timestamp,
    pub(crate) look_after: Timestamp,
}
