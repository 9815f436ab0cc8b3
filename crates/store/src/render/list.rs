//! Lists of renders for people. Pages go from the newest to the oldest, each from the last id of the previous one.

use super::record::RenderRecord;
use crate::error::{Result, damaged};
use crate::statement::{Columns, Stored};
use crate::tx::Renders;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::lease::Epoch;
use tidemill_domain::process::ProcessId;
use tidemill_domain::render::{BroadcastDate, Phase, RenderId, Status};
use tidemill_domain::time::Timestamp;

/// Absent conditions match everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RenderFilter {
    pub status: Option<Status>,
    pub composition: Option<String>,
    pub worker: Option<String>,
    pub date: Option<BroadcastDate>,
}

/// Renders per search.
pub const SEARCHED_MAX: u32 = 10_000;

#[derive(Clone, PartialEq, Debug)]
pub struct RenderSearch {
    /// Newest first.
    pub records: Vec<RenderRecord>,
    /// The oldest render searched, if there may be older ones.
    pub searched_to: Option<RenderId>,
}

/// Counts per status stop here, because counting a long history takes too long.
pub const COUNTED_MAX: u32 = 10_000;

/// At most [`COUNTED_MAX`] per status.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RenderCounts {
    /// Statuses without renders are left out.
    pub by_status: BTreeMap<Status, u64>,
    pub oldest_pending: Option<Timestamp>,
    /// Jobs not yet removed from nexrender.
    pub leftovers: u64,
}

/// A change of status, as the trigger has written it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransitionRecord {
    pub id: i64,
    /// `None` for the insert, and for unknown statuses.
    pub from: Option<Status>,
    pub to: Status,
    /// `None` in rows of other programs.
    pub phase: Option<Phase>,
    pub worker: Option<ProcessId>,
    pub epoch: Epoch,
    pub code: Option<Code>,
    pub at: Timestamp,
    /// A worker, an operator, or the database user who wrote SQL.
    pub by: String,
}

/// `None` if the status is unknown or the instant missing: rows of other programs must not hide the rest of the
/// render's history.
impl Stored for Option<TransitionRecord> {
    const PLACE: (&'static str, &'static str) = ("render_queue_audit", "id");

    fn from_columns(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        fn known<T: FromStr>(row: &Columns<'_>, column: &'static str) -> Result<Option<T>, sqlx::Error> {
            Ok(row.get::<Option<String>>(column)?.and_then(|word| word.parse().ok()))
        }
        let (to, at) = (known(row, "status_to")?, row.get("changed_at")?);
        let (Some(to), Some(at)) = (to, at) else { return Ok(None) };
        Ok(Some(TransitionRecord {
            id: row.get("id")?,
            from: known(row, "status_from")?,
            to,
            phase: known(row, "phase")?,
            worker: row.get("worker_id")?,
            epoch: row.get::<Option<Epoch>>("epoch")?.unwrap_or(Epoch::ZERO),
            code: known(row, "error_code")?,
            at,
            by: row.get::<Option<String>>("changed_by")?.unwrap_or_default(),
        }))
    }
}

/// Completed renders to average.
const PACED: u32 = 20;

impl Renders<'_> {
    /// At most `limit` renders older than `before`.
    pub async fn list(
        &mut self,
        filter: &RenderFilter,
        before: Option<RenderId>,
        limit: u32,
    ) -> Result<Vec<RenderRecord>> {
        let before = before.map_or(i64::MAX, RenderId::get);
        Ok(self.render_list(filter, None, i64::MIN, before, limit).await?)
    }

    /// The same among the newest [`SEARCHED_MAX`], also by a text in the composition, the cue item or the error. The
    /// limit keeps a rare condition from reading all of a long history.
    #[crate::boxed]
    pub async fn search(
        &mut self,
        filter: &RenderFilter,
        text: Option<&str>,
        before: Option<RenderId>,
        limit: u32,
    ) -> Result<RenderSearch> {
        let status = filter.status.map(Status::as_str);
        let before = before.map_or(i64::MAX, RenderId::get);
        let skipped = i64::from(SEARCHED_MAX) - 1;
        let floor = match status {
            Some(status) => self.render_floor_in_status(status, before, skipped).await?,
            None => self.render_floor(before, skipped).await?,
        };
        let from = floor.unwrap_or(i64::MIN);
        let records = self.render_list(filter, text, from, before, limit).await?;
        Ok(RenderSearch { records, searched_to: floor.map(RenderId::new) })
    }

    #[crate::boxed]
    pub async fn counts(&mut self) -> Result<RenderCounts> {
        let mut counts = RenderCounts::default();
        for (status, count, oldest) in self.render_count(COUNTED_MAX).await? {
            let status: Status = status.parse().map_err(|_| damaged("render_queue", "status", "a row"))?;
            if count > 0 {
                counts.by_status.insert(status, u64::try_from(count).unwrap_or_default());
            }
            counts.oldest_pending = oldest.map(Into::into).or(counts.oldest_pending);
        }
        counts.leftovers = u64::try_from(self.render_leftover_count().await?).unwrap_or_default();
        Ok(counts)
    }

    /// How many renders are claimed before a waiting one, at most `most`.
    pub async fn ahead(&mut self, record: &RenderRecord, most: u32) -> Result<u64> {
        let now = self.now().await?;
        Ok(u64::try_from(self.render_count_ahead(record, now, most).await?).unwrap_or_default())
    }

    /// The average duration of the last completed renders.
    pub async fn pace(&mut self) -> Result<Option<Duration>> {
        let seconds = self.render_average(PACED).await?;
        Ok(seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()))
    }

    /// The changes of status of one render, the oldest first. Unknown words of other programs are left out.
    pub async fn transitions(&mut self, id: RenderId) -> Result<Vec<TransitionRecord>> {
        Ok(self.render_transitions_of(id).await?.into_iter().flatten().collect())
    }
}
