//! Batches: renders that were ordered together from a table. A batch has the id of its first render.

use super::{NewRender, RenderFilter, RenderRecord, Submitted};
use crate::codec::DbTime;
use crate::error::{Result, damaged};
use crate::statement::{One, statements};
use crate::tx::Renders;
use std::collections::BTreeMap;
use tidemill_domain::audit::Actor;
use tidemill_domain::render::sheet::SheetProblem;
use tidemill_domain::render::{RenderId, Status};
use tidemill_domain::time::Timestamp;

/// A row of a table of renders: what would be ordered, or what is wrong.
#[derive(Clone, PartialEq, Debug)]
pub struct PlannedRender {
    /// From 1, in the table.
    pub line: usize,
    /// `None` if there are problems.
    pub order: Option<NewRender>,
    /// What of the template stays empty.
    pub warnings: Vec<String>,
    pub problems: Vec<SheetProblem>,
    /// `None` before it is ordered.
    pub submitted: Option<Submitted>,
}

impl PlannedRender {
    /// A row about which nothing is known yet.
    pub const fn at(line: usize) -> Self {
        Self { line, order: None, warnings: Vec::new(), problems: Vec::new(), submitted: None }
    }
}

/// How far a batch is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchRecord {
    pub id: RenderId,
    /// Statuses without renders are left out.
    pub by_status: BTreeMap<Status, u64>,
    pub created_at: Timestamp,
    /// When its last render ended; `None` while one has not.
    pub ended_at: Option<Timestamp>,
}

impl BatchRecord {
    pub fn count(&self, is_it: impl Fn(Status) -> bool) -> u64 {
        self.by_status.iter().filter(|(status, _)| is_it(**status)).map(|(_, count)| count).sum()
    }
}

impl Renders<'_> {
    /// Orders the rows that have an order as one batch. Returns `None` if all were ordered before and have not ended.
    /// Needs a transaction.
    #[crate::boxed]
    pub async fn submit_batch(
        &mut self,
        rows: &mut [PlannedRender],
        actor: &Actor,
    ) -> Result<Option<RenderId>> {
        let mut new: Vec<RenderId> = Vec::with_capacity(rows.len());
        for row in rows {
            let Some(order) = &row.order else { continue };
            let submitted = self.submit(order, actor).await?;
            row.submitted = Some(submitted);
            if let Submitted::New(id) = submitted {
                new.push(id);
            }
        }
        let Some(batch) = new.iter().copied().min() else { return Ok(None) };
        let ids: Vec<i64> = new.into_iter().map(RenderId::get).collect();
        self.render_batch_save(batch, &ids).await?;
        Ok(Some(batch))
    }

    /// `None` if there is no such batch.
    pub async fn batch(&mut self, id: RenderId) -> Result<Option<BatchRecord>> {
        let mut batch: Option<BatchRecord> = None;
        for (status, count, created_at, ended_at) in self.render_batch_count(id).await? {
            let status: Status =
                status.parse().map_err(|_| damaged("render_queue", "status", format!("batch {id}")))?;
            let (created_at, ended_at) = (created_at.into(), ended_at.map(Into::into));
            let batch = batch.get_or_insert_with(|| BatchRecord {
                id,
                by_status: BTreeMap::new(),
                created_at,
                ended_at,
            });
            batch.by_status.insert(status, u64::try_from(count).unwrap_or_default());
            batch.created_at = batch.created_at.min(created_at);
            batch.ended_at = batch.ended_at.max(ended_at);
        }
        if let Some(batch) = &mut batch
            && batch.count(|status| !status.is_terminal()) > 0
        {
            batch.ended_at = None;
        }
        Ok(batch)
    }

    /// The failed renders of a batch, the first one first.
    pub async fn failed_in_batch(&mut self, id: RenderId) -> Result<Vec<RenderRecord>> {
        let filter =
            RenderFilter { status: Some(Status::Failed), batch: Some(id), ..RenderFilter::default() };
        let mut failed = self.list(&filter, None, u32::MAX).await?;
        failed.reverse();
        Ok(failed)
    }
}

statements! {
    fn render_batch_save(batch: RenderId, renders: &[i64]) -> u64 {
        "update render_queue set batch_id = $1 where id {in $2}"
    }

    /// Each status with its number of renders, the first that was ordered and the last that ended. Needs
    /// `render_queue_batch`.
    fn render_batch_count(batch: RenderId) -> Vec<(String, i64, DbTime, Option<DbTime>)> {
        "select status, count(*), min(created_at), max(ended_at) from render_queue where batch_id = $1 group by status"
    }

    /// The last render of a batch. Needs `render_queue_batch`.
    fn render_batch_last(batch: RenderId) -> One<Option<i64>> {
        "select max(id){::bigint} from render_queue where batch_id = $1"
    }
}
