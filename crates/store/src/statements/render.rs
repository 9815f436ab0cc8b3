//! Statements on renders. Columns that an adopted table may have in another type are cast.

pub(crate) mod attempt;
pub(crate) mod composition;
pub(crate) mod metrics;
pub(crate) mod orphan_job;
pub(crate) mod queue;
pub(crate) mod save;

use crate::codec::{DbId, DbTime};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRenderRow<'a> {
    pub(crate) composition: Option<&'a str>,
    pub(crate) cue_item: Option<&'a str>,
    /// JSON.
    pub(crate) data: &'a str,
    pub(crate) hash: Option<&'a str>,
    pub(crate) priority: i64,
    pub(crate) deadline: Option<DbTime>,
    pub(crate) broadcast_date: Option<&'a str>,
    pub(crate) now: DbTime,
    pub(crate) by: &'a str,
}

impl NewRenderRow<'_> {
    /// The columns whose types an adopted table may have chosen.
    pub(crate) fn as_json(&self) -> Result<String, sqlx::Error> {
        let data: Value =
            serde_json::from_str(self.data).map_err(|error| sqlx::Error::Encode(error.into()))?;
        let columns =
            json!({ "composition_id": self.composition, "cue_item_id": self.cue_item, "gfx_data": data });
        Ok(columns.to_string())
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Takeover<'a> {
    pub(crate) worker: DbId,
    pub(crate) name: &'a str,
    pub(crate) until: DbTime,
    pub(crate) now: DbTime,
}

/// Absent values stay unchanged.
pub(crate) struct AttemptNote<'a> {
    pub(crate) render_id: i64,
    pub(crate) epoch: i64,
    pub(crate) nexrender_job_id: Option<&'a str>,
    pub(crate) document: Option<&'a str>,
    pub(crate) document_sha256: Option<&'a str>,
    pub(crate) document_key_id: Option<&'a str>,
    pub(crate) report: Option<&'a str>,
}

pub(crate) struct NewLeftover<'a> {
    pub(crate) render_id: i64,
    pub(crate) epoch: i64,
    pub(crate) nexrender_job_id: &'a str,
    pub(crate) staged_path: Option<&'a str>,
    pub(crate) slot: &'a str,
    pub(crate) file: &'a str,
    pub(crate) since: DbTime,
    pub(crate) look_after: DbTime,
}
