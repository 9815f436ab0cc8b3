//! What people see of renders. Pages go from the newest to the oldest, each from the last id of the one before.

use super::record::RenderRecord;
use crate::error::StoreError;
use crate::row::damaged;
use crate::row::render::RenderRow;
use crate::tx::{RenderFilterRow, Tx};
use std::collections::BTreeMap;
use tidemill_domain::code::Code;
use tidemill_domain::lease::Epoch;
use tidemill_domain::process::ProcessId;
use tidemill_domain::render::{BroadcastDate, Phase, RenderId, Status};
use tidemill_domain::time::Timestamp;

/// What to list of the renders; an absent condition is always met.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RenderFilter {
    /// Only those in this status.
    pub status: Option<Status>,
    /// Only those of this composition.
    pub composition: Option<String>,
    /// Only those of the worker of this name.
    pub worker: Option<String>,
    /// Only those of this day.
    pub date: Option<BroadcastDate>,
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
    /// Its number.
    pub id: i64,
    /// From which status; none for the insert.
    pub from: Option<Status>,
    /// To which.
    pub to: Status,
    /// The phase then; none of what another program has written before.
    pub phase: Option<Phase>,
    /// The process that had it or has it now.
    pub worker: Option<ProcessId>,
    /// The epoch then.
    pub epoch: Epoch,
    /// Why, where there is a reason.
    pub code: Option<Code>,
    /// When.
    pub at: Timestamp,
    /// By whom: a worker, an operator, or the database user who wrote SQL.
    pub by: String,
}

impl Tx {
    /// One render; none when there is no such one.
    pub async fn render(&mut self, id: RenderId) -> Result<Option<RenderRecord>, StoreError> {
        self.render_find(id.get()).await?.as_ref().map(RenderRow::record).transpose()
    }

    /// At most `limit` renders older than `before`.
    pub async fn renders(
        &mut self,
        filter: &RenderFilter,
        before: Option<RenderId>,
        limit: u32,
    ) -> Result<Vec<RenderRecord>, StoreError> {
        let date = filter.date.map(|date| date.to_string());
        let wanted = RenderFilterRow {
            status: filter.status.map(Status::as_str),
            composition: filter.composition.as_deref(),
            worker: filter.worker.as_deref(),
            date: date.as_deref(),
        };
        let before = before.map_or(i64::MAX, RenderId::get);
        self.render_list(&wanted, before, limit.into()).await?.iter().map(RenderRow::record).collect()
    }

    /// How many there are.
    pub async fn render_counts(&mut self) -> Result<RenderCounts, StoreError> {
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

    /// The changes of status of one render, the oldest first.
    pub async fn render_transitions(&mut self, id: RenderId) -> Result<Vec<TransitionRecord>, StoreError> {
        self.render_transitions_of(id.get()).await?.into_iter().map(TryInto::try_into).collect()
    }
}
