//! Rows that hang on a render: its changes of status, what was tried, what is left of it; and who works.

use crate::codec::{DbId, DbTime};
use crate::error::StoreError;
use crate::render::{AttemptRecord, Leftover, TransitionRecord, WorkerRecord, WorkerState};
use crate::row::damaged;
use std::str::FromStr;
use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::render::RenderId;
use tidemill_domain::render::attempt::AttemptOutcome;

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct TransitionRow {
    id: i64,
    status_from: Option<String>,
    status_to: Option<String>,
    worker_id: Option<DbId>,
    changed_at: Option<DbTime>,
    changed_by: Option<String>,
    phase: Option<String>,
    epoch: Option<i64>,
    error_code: Option<String>,
}

impl TransitionRow {
    /// What it says; none when it is to a status that nobody knows, or of no instant. An audit that was there before may
    /// hold whatever another program has written, and that is no reason to show nothing of the render.
    pub(crate) fn record(self) -> Option<TransitionRecord> {
        fn known<T: FromStr>(word: Option<&str>) -> Option<T> {
            word.and_then(|word| word.parse().ok())
        }
        Some(TransitionRecord {
            id: self.id,
            from: known(self.status_from.as_deref()),
            to: known(self.status_to.as_deref())?,
            phase: known(self.phase.as_deref()),
            worker: self.worker_id.map(Into::into),
            epoch: Epoch::new(self.epoch.unwrap_or_default()),
            code: known(self.error_code.as_deref()),
            at: self.changed_at?.into(),
            by: self.changed_by.unwrap_or_default(),
        })
    }
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct AttemptRow {
    render_id: i64,
    epoch: i64,
    worker_id: DbId,
    worker_name: String,
    nexrender_job_id: Option<String>,
    document_sha256: Option<String>,
    started_at: DbTime,
    ended_at: Option<DbTime>,
    outcome: Option<String>,
    error_code: Option<String>,
    error_message: Option<String>,
    report: Option<String>,
}

impl TryFrom<AttemptRow> for AttemptRecord {
    type Error = StoreError;

    fn try_from(row: AttemptRow) -> Result<Self, StoreError> {
        let broken = |column| damaged("render_attempt", column, format!("{} {}", row.render_id, row.epoch));
        let outcome = row.outcome.as_deref().map(str::parse::<AttemptOutcome>).transpose();
        let report = row.report.as_deref().map(serde_json::from_str).transpose();
        Ok(Self {
            epoch: Epoch::new(row.epoch),
            worker: row.worker_id.into(),
            outcome: outcome.map_err(|_| broken("outcome"))?,
            report: report.map_err(|_| broken("report"))?,
            reason: super::reason(row.error_code.as_deref(), row.error_message.as_deref()),
            worker_name: row.worker_name,
            remote_job: row.nexrender_job_id,
            document_sha256: row.document_sha256,
            started_at: row.started_at.into(),
            ended_at: row.ended_at.map(Into::into),
        })
    }
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct LeftoverRow {
    pub(crate) render_id: i64,
    pub(crate) epoch: i64,
    pub(crate) nexrender_job_id: String,
    pub(crate) staged_path: Option<String>,
    pub(crate) slot: String,
    pub(crate) file: String,
    pub(crate) since: DbTime,
}

impl TryFrom<LeftoverRow> for Leftover {
    type Error = StoreError;

    fn try_from(row: LeftoverRow) -> Result<Self, StoreError> {
        let broken = |column| damaged("render_leftover", column, format!("{} {}", row.render_id, row.epoch));
        Ok(Self {
            render: RenderId::new(row.render_id),
            epoch: Epoch::new(row.epoch),
            slot: row.slot.parse().map_err(|_| broken("slot"))?,
            file: row.file.parse().map_err(|_| broken("file"))?,
            remote_job: row.nexrender_job_id,
            staged_path: row.staged_path,
            since: row.since.into(),
        })
    }
}

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct WorkerRow {
    pub(crate) process: DbId,
    pub(crate) name: String,
    pub(crate) capacity: i64,
    pub(crate) in_flight: i64,
    pub(crate) state: String,
    pub(crate) seen_at: DbTime,
    pub(crate) farm_micros: Option<i64>,
    pub(crate) copy_micros: Option<i64>,
}

impl TryFrom<WorkerRow> for WorkerRecord {
    type Error = StoreError;

    fn try_from(row: WorkerRow) -> Result<Self, StoreError> {
        let broken = |column| damaged("render_worker", column, row.process.0);
        let state: WorkerState = row.state.parse().map_err(|_| broken("state"))?;
        let took =
            |micros: Option<i64>| micros.map(|micros| Duration::from_micros(micros.max(0).unsigned_abs()));
        Ok(Self {
            process: row.process.into(),
            capacity: u32::try_from(row.capacity).map_err(|_| broken("capacity"))?,
            in_flight: u32::try_from(row.in_flight).map_err(|_| broken("in_flight"))?,
            state,
            name: row.name,
            seen_at: row.seen_at.into(),
            farm: took(row.farm_micros),
            copy: took(row.copy_micros),
        })
    }
}

#[derive(Clone, Debug, serde::Serialize, sqlx::FromRow)]
pub(crate) struct FieldMappingRow {
    pub(crate) composition_id: String,
    pub(crate) field_name: String,
    pub(crate) layer_name: String,
    pub(crate) layer_composition: Option<String>,
    pub(crate) property: Option<String>,
    pub(crate) kind: String,
    pub(crate) source: Option<String>,
    pub(crate) optional: bool,
    pub(crate) unused: Option<String>,
}

/// A profile as it is stored: its composition, and a JSON object.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct ProfileRow {
    pub(crate) composition: String,
    pub(crate) definition: String,
}

/// What a render shows as it is stored, and the key that it is under.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct DataRow {
    pub(crate) id: i64,
    pub(crate) gfx_data: String,
    pub(crate) gfx_key_id: Option<String>,
}

/// What has ended lately, and what is wrong with the others.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct StandingRow {
    pub(crate) completed: i64,
    pub(crate) failed: i64,
    pub(crate) longest_seconds: Option<f64>,
    pub(crate) recovering: i64,
    pub(crate) late: i64,
    pub(crate) waiting_since: Option<DbTime>,
}
