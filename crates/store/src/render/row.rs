//! A row of `render_queue`, for reading and writing.

use super::RenderRecord;
use crate::codec::{DbId, DbTime};
use crate::error::{Result, StoreError, damaged};
use tidemill_domain::code::Code;
use tidemill_domain::lease::{Epoch, Fence, Lease};
use tidemill_domain::render::lifecycle::{Counts, Reason};
use tidemill_domain::render::{BroadcastDate, Progress, Render, RenderId};

const TABLE: &str = "render_queue";

crate::statement::row! {
    #[derive(Clone, Debug)]
    pub(crate) struct RenderRow {
        pub(crate) id: i64,
        pub(crate) composition_id: Option<String>,
        pub(crate) cue_item_id: Option<String>,
        pub(crate) status: String,
        pub(crate) phase: String,
        pub(crate) progress: i64,
        pub(crate) worker_id: Option<DbId>,
        pub(crate) worker_name: Option<String>,
        pub(crate) lock_expires_at: Option<DbTime>,
        pub(crate) epoch: i64,
        pub(crate) job_epoch: Option<i64>,
        pub(crate) nexrender_job_id: Option<String>,
        pub(crate) attempts: i64,
        pub(crate) recovery_count: i64,
        pub(crate) submit_failures: i64,
        pub(crate) render_failures: i64,
        pub(crate) upload_failures: i64,
        pub(crate) run_after: DbTime,
        pub(crate) priority: i64,
        pub(crate) deadline: Option<DbTime>,
        pub(crate) broadcast_date: Option<String>,
        pub(crate) cancel_requested_at: Option<DbTime>,
        pub(crate) error_code: Option<String>,
        pub(crate) error_message: Option<String>,
        pub(crate) submitted_at: Option<DbTime>,
        pub(crate) node_started_at: Option<DbTime>,
        pub(crate) changed_at: Option<DbTime>,
        pub(crate) remote_mark: Option<String>,
        pub(crate) staged_path: Option<String>,
        pub(crate) output_file_path: Option<String>,
        pub(crate) output_bytes: Option<i64>,
        pub(crate) output_sha256: Option<String>,
        pub(crate) poster_path: Option<String>,
        pub(crate) gfx_key_id: Option<String>,
        pub(crate) gfx_hash: Option<String>,
        pub(crate) created_at: DbTime,
        pub(crate) updated_at: DbTime,
        pub(crate) started_at: Option<DbTime>,
        pub(crate) completed_at: Option<DbTime>,
        pub(crate) ended_at: Option<DbTime>,
        pub(crate) duration_seconds: Option<f64>,
        pub(crate) revision: i64,
    }
}

impl RenderRow {
    fn damaged(&self, column: &'static str) -> StoreError {
        damaged(TABLE, column, self.id)
    }

    fn count(&self, column: &'static str, count: i64) -> Result<u32> {
        u32::try_from(count).map_err(|_| self.damaged(column))
    }

    pub(crate) fn render(&self) -> Result<Render> {
        Ok(Render {
            id: RenderId::new(self.id),
            status: self.status.parse().map_err(|_| self.damaged("status"))?,
            phase: self.phase.parse().map_err(|_| self.damaged("phase"))?,
            progress: Progress::stored(self.progress),
            lease: self.lease(),
            job: self.job_epoch.map(Epoch::new),
            counts: Counts {
                attempts: self.count("attempts", self.attempts)?,
                recoveries: self.count("recovery_count", self.recovery_count)?,
                submit: self.count("submit_failures", self.submit_failures)?,
                render: self.count("render_failures", self.render_failures)?,
                upload: self.count("upload_failures", self.upload_failures)?,
            },
            run_after: self.run_after.into(),
            deadline: self.deadline.map(Into::into),
            cancel_requested_at: self.cancel_requested_at.map(Into::into),
            reason: reason(self.error_code.clone(), self.error_message.clone()),
        })
    }

    pub(crate) fn lease(&self) -> Lease {
        let epoch = Epoch::new(self.epoch);
        match self.worker_id {
            None => Lease::Free { epoch },
            Some(owner) => Lease::Held {
                fence: Fence { owner: owner.into(), epoch },
                until: self.lock_expires_at.map(Into::into),
            },
        }
    }

    pub(crate) fn set(&mut self, render: &Render) {
        render.status.as_str().clone_into(&mut self.status);
        render.phase.as_str().clone_into(&mut self.phase);
        self.progress = render.progress.get().into();
        self.epoch = render.lease.epoch().get();
        (self.worker_id, self.lock_expires_at) = match render.lease {
            Lease::Free { .. } => (None, None),
            Lease::Held { fence, until } => (Some(fence.owner.into()), until.map(Into::into)),
        };
        self.job_epoch = render.job.map(Epoch::get);
        self.attempts = render.counts.attempts.into();
        self.recovery_count = render.counts.recoveries.into();
        self.submit_failures = render.counts.submit.into();
        self.render_failures = render.counts.render.into();
        self.upload_failures = render.counts.upload.into();
        self.run_after = render.run_after.into();
        self.deadline = render.deadline.map(Into::into);
        self.cancel_requested_at = render.cancel_requested_at.map(Into::into);
        self.error_code = render.reason.as_ref().map(|reason| reason.code.to_string());
        self.error_message = render.reason.as_ref().map(|reason| storable(&reason.message));
    }

    pub(crate) fn record(&self) -> Result<RenderRecord> {
        let date = self.broadcast_date.as_deref().map(str::parse::<BroadcastDate>).transpose();
        let bytes = self.output_bytes.map(u64::try_from).transpose();
        Ok(RenderRecord {
            render: self.render()?,
            composition: self.composition_id.clone(),
            cue_item: self.cue_item_id.clone(),
            priority: self.priority,
            broadcast_date: date.map_err(|_| self.damaged("broadcast_date"))?,
            worker_name: self.worker_name.clone(),
            remote_job: self.nexrender_job_id.clone(),
            submitted_at: self.submitted_at.map(Into::into),
            node_started_at: self.node_started_at.map(Into::into),
            changed_at: self.changed_at.map(Into::into),
            staged_path: self.staged_path.clone(),
            output_path: self.output_file_path.clone(),
            output_bytes: bytes.map_err(|_| self.damaged("output_bytes"))?,
            output_sha256: self.output_sha256.clone(),
            poster_path: self.poster_path.clone(),
            key_id: self.gfx_key_id.clone(),
            created_at: self.created_at.into(),
            updated_at: self.updated_at.into(),
            started_at: self.started_at.map(Into::into),
            completed_at: self.completed_at.map(Into::into),
            ended_at: self.ended_at.map(Into::into),
            duration_seconds: self.duration_seconds,
            revision: self.revision,
        })
    }
}

/// Rows of other programs have no code.
pub(crate) fn reason(code: Option<String>, message: Option<String>) -> Option<Reason> {
    let known = code.and_then(|code| code.parse().ok());
    match (known, message) {
        (None, None) => None,
        (code, message) => {
            Some(Reason { code: code.unwrap_or(Code::Unexpected), message: message.unwrap_or_default() })
        }
    }
}

/// PostgreSQL cannot store NUL in a text.
pub(crate) fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
