//! Retention: finds renders that may go, a share at a time, and deletes them with their attempts. Their files are deleted
//! between the two, outside of any transaction, so a render that was changed meanwhile stays. The log of changes
//! (`render_queue_audit`) stays too.

use super::record::{CheckedRender, RenderRecord};
use crate::error::Result;
use crate::statement::{Total, rows, statements};
use crate::tx::Renders;
use serde_json::json;
use std::collections::{BTreeMap, HashSet};
use tidemill_domain::render::retention::{Films, Kept, RenderFacts, Retention};
use tidemill_domain::render::{RenderId, Status};
use tidemill_domain::time::Timestamp;

/// How far a purge has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RenderWalk {
    retention: Retention,
    now: Timestamp,
    after: (Timestamp, RenderId),
    /// Of all published files that are left.
    bytes: u64,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct RenderShare {
    /// Renders that may go, the one that ended first being the first.
    pub going: Vec<RenderRecord>,
    pub kept: BTreeMap<Kept, u64>,
    pub is_last: bool,
}

impl Renders<'_> {
    #[crate::boxed]
    pub async fn begin_purge(&mut self, retention: Retention) -> Result<RenderWalk> {
        let bytes = match retention.films {
            Films::Delete { bytes_max: Some(_) } => self.render_published_bytes().await?,
            _ => 0,
        };
        let after = (Timestamp::EPOCH, RenderId::new(0));
        Ok(RenderWalk { retention, now: self.now().await?, after, bytes })
    }

    /// The next `limit` renders that ended long enough ago. Rows that make no sense are passed over.
    #[crate::boxed]
    pub async fn purge_share(&mut self, walk: &mut RenderWalk, limit: u32) -> Result<RenderShare> {
        let cutoff = walk.retention.cutoff(walk.now);
        let found = self.render_list_ended_before(cutoff, walk.after, limit).await?;
        let is_full = found.len() >= limit as usize;
        let records: Vec<RenderRecord> =
            found.into_iter().filter_map(|CheckedRender(checked)| checked.ok()).collect();
        let ids: Vec<i64> = records.iter().map(|record| record.id().get()).collect();
        let with_job: HashSet<i64> = self.render_leftover_of(&ids).await?.into_iter().collect();
        let mut share = RenderShare { is_last: !is_full || records.is_empty(), ..RenderShare::default() };
        for record in records {
            walk.after = (record.ended_at.unwrap_or(walk.after.0), record.id());
            let facts = RenderFacts {
                render: &record.render,
                ended_at: record.ended_at,
                has_job: with_job.contains(&record.id().get()),
                bytes: walk.bytes,
            };
            match walk.retention.decide(&facts, walk.now) {
                Ok(()) => {
                    // What is not completed is not in the sum.
                    let bytes = record.output_bytes.filter(|_| record.render.status == Status::Completed);
                    walk.bytes = walk.bytes.saturating_sub(bytes.unwrap_or(0));
                    share.going.push(record);
                }
                Err(why) => *share.kept.entry(why).or_default() += 1,
            }
        }
        Ok(share)
    }

    /// Deletes those that are as they were read. Returns which. Needs a transaction.
    #[crate::boxed]
    pub async fn purge(&mut self, going: &[&RenderRecord]) -> Result<HashSet<RenderId>> {
        let ids: Vec<i64> = going.iter().map(|record| record.id().get()).collect();
        let gone = self.render_purge(&ids, going).await?;
        self.render_attempt_purge(&gone).await?;
        Ok(gone.into_iter().map(RenderId::new).collect())
    }
}

statements! {
    fn render_published_bytes() -> Total {
        "select coalesce(sum(output_bytes), 0){::bigint} from render_queue where status = 'completed'"
    }

    fn render_leftover_of(renders: &[i64]) -> Vec<i64> {
        "select render_id from render_leftover where render_id {in $1}"
    }

    /// By SQL the status may change without the revision.
    fn render_purge(ids: &[i64], going: &[&RenderRecord]) -> Vec<i64> {
        bind(
            ids,
            rows(going, |record| json!({ "id": record.id().get(), "revision": record.revision })),
        )
        "delete from render_queue
         where id {in $1}
           and status in ('completed', 'failed', 'cancelled')
           and worker_id is null
           and (id{::bigint}, revision) in (select id, revision from {rows going $2: id bigint, revision bigint})
         returning id{::bigint}"
    }

    fn render_attempt_purge(renders: &[i64]) -> () {
        "delete from render_attempt where render_id {in $1}"
    }
}
