//! What people see of renders. Pages go from the newest to the oldest, each from the last id of the one before.

use super::record::RenderRecord;
use super::row::RenderRow;
use crate::error::{StoreError, damaged};
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

/// What to list of the renders; an absent condition is always met.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RenderFilter {
    pub status: Option<Status>,
    pub composition: Option<String>,
    pub worker: Option<String>,
    pub date: Option<BroadcastDate>,
}

/// So many renders are searched at once.
pub const SEARCHED_MAX: u32 = 10_000;

#[derive(Clone, PartialEq, Debug)]
pub struct FoundRenders {
    /// The newest first.
    pub records: Vec<RenderRecord>,
    /// The oldest that was looked at, if there may be older ones.
    pub searched_to: Option<RenderId>,
}

/// As far as renders of one status are counted: what is this many may be more. To count all of a long history would take
/// longer than to show it.
pub const COUNTED_MAX: u32 = 10_000;

/// How many renders there are in each status, at most [`COUNTED_MAX`] of each, and since when the oldest one waits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RenderCounts {
    /// By status; those without any are left out.
    pub by_status: BTreeMap<Status, u64>,
    /// When the oldest that waits was ordered.
    pub oldest_pending: Option<Timestamp>,
    /// Jobs that nobody has taken out of nexrender yet.
    pub leftovers: u64,
}

/// A change of status, as the trigger has written it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransitionRecord {
    pub id: i64,
    /// From which status; none for the insert, and for one that nobody knows.
    pub from: Option<Status>,
    pub to: Status,
    /// The phase then; none of what another program has written before.
    pub phase: Option<Phase>,
    pub worker: Option<ProcessId>,
    pub epoch: Epoch,
    /// Why, where there is a reason.
    pub code: Option<Code>,
    pub at: Timestamp,
    /// By whom: a worker, an operator, or the database user who wrote SQL.
    pub by: String,
}

/// None when it is to a status that nobody knows, or of no instant. An audit that was there before may hold whatever
/// another program has written, and that is no reason to show nothing of the render.
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

/// Of so many completed renders the average is taken.
const PACED: u32 = 20;

fn records(rows: &[RenderRow]) -> Result<Vec<RenderRecord>, StoreError> {
    rows.iter().map(RenderRow::record).collect()
}

impl Renders<'_> {
    /// One render; none when there is no such one.
    pub async fn find(&mut self, id: RenderId) -> Result<Option<RenderRecord>, StoreError> {
        self.render_find(id.get()).await?.as_ref().map(RenderRow::record).transpose()
    }

    /// At most `limit` renders older than `before`.
    pub async fn list(
        &mut self,
        filter: &RenderFilter,
        before: Option<RenderId>,
        limit: u32,
    ) -> Result<Vec<RenderRecord>, StoreError> {
        let before = before.map_or(i64::MAX, RenderId::get);
        records(&self.render_list(filter, None, i64::MIN, before, limit.into()).await?)
    }

    /// The same among the newest [`SEARCHED_MAX`], also by a text in the composition, the cue item or the error: so a
    /// condition that hardly any render meets does not read all of a long history.
    #[crate::boxed]
    pub async fn search(
        &mut self,
        filter: &RenderFilter,
        text: Option<&str>,
        before: Option<RenderId>,
        limit: u32,
    ) -> Result<FoundRenders, StoreError> {
        let status = filter.status.map(Status::as_str);
        let before = before.map_or(i64::MAX, RenderId::get);
        let skipped = i64::from(SEARCHED_MAX) - 1;
        let floor = match status {
            Some(status) => self.render_floor_in_status(status, before, skipped).await?,
            None => self.render_floor(before, skipped).await?,
        };
        let from = floor.unwrap_or(i64::MIN);
        let rows = self.render_list(filter, text, from, before, limit.into()).await?;
        Ok(FoundRenders { records: records(&rows)?, searched_to: floor.map(RenderId::new) })
    }

    #[crate::boxed]
    pub async fn counts(&mut self) -> Result<RenderCounts, StoreError> {
        let mut counts = RenderCounts::default();
        for (status, count, oldest) in self.render_count(COUNTED_MAX.into()).await? {
            let status: Status = status.parse().map_err(|_| damaged("render_queue", "status", "a row"))?;
            if count > 0 {
                counts.by_status.insert(status, u64::try_from(count).unwrap_or_default());
            }
            counts.oldest_pending = oldest.map(Into::into).or(counts.oldest_pending);
        }
        counts.leftovers = u64::try_from(self.render_leftover_count().await?).unwrap_or_default();
        Ok(counts)
    }

    /// At most `limit` that a worker has, the newest first.
    pub async fn at_work(&mut self, limit: u32) -> Result<Vec<RenderRecord>, StoreError> {
        records(&self.render_list_at_work(limit.into()).await?)
    }

    /// At most `limit` that wait, in the order of claims, also when their time has not come.
    pub async fn waiting(&mut self, limit: u32) -> Result<Vec<RenderRecord>, StoreError> {
        records(&self.render_list_waiting(limit.into()).await?)
    }

    /// At most `limit` that have ended last.
    pub async fn ended(&mut self, limit: u32) -> Result<Vec<RenderRecord>, StoreError> {
        records(&self.render_list_ended(limit.into()).await?)
    }

    /// How many renders are claimed before one that waits, at most `most`.
    pub async fn ahead(&mut self, record: &RenderRecord, most: u32) -> Result<u64, StoreError> {
        let now = self.now().await?.into();
        Ok(u64::try_from(self.render_count_ahead(record, now, most.into()).await?).unwrap_or_default())
    }

    /// How long a render takes about: the average of the last ones that were completed.
    pub async fn pace(&mut self) -> Result<Option<Duration>, StoreError> {
        let seconds = self.render_average(PACED.into()).await?;
        Ok(seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()))
    }

    /// The changes of status of one render, the oldest first. What another program has noted in words that nobody knows is
    /// left out.
    pub async fn transitions(&mut self, id: RenderId) -> Result<Vec<TransitionRecord>, StoreError> {
        Ok(self.render_transitions_of(id.get()).await?.into_iter().flatten().collect())
    }
}
