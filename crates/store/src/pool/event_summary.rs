//! Recent events as sentences: from the log, and from the usage of pools.

use super::row::LOG;
use crate::error::Result;
use crate::statement::{Columns, statements, stored};
use crate::tx::Pools;
use std::time::Duration;
use tidemill_domain::pool::event_summary::peak;
use tidemill_domain::pool::usage::STEP;
use tidemill_domain::pool::{Holder, PoolName, TicketId};
use tidemill_domain::time::Timestamp;

/// Period for peaks.
const PEAKS_OF: Duration = Duration::from_secs(24 * 3600);

/// Pools to read for peaks.
const POOLS_MOST: u32 = 1_000;

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct PoolEventSummary in LOG |row| {
        pub at: Timestamp,
        pub pool: PoolName,
        pub ticket: Option<TicketId> = "ticket_id",
        /// `None` once the ticket is deleted.
        pub holder: Option<Holder> => holder(row)?,
        pub text: String = "summary",
    }
}

fn holder(row: &Columns<'_>) -> Result<Option<Holder>, sqlx::Error> {
    let Some(dag_id) = row.get::<Option<String>>("dag_id")? else { return Ok(None) };
    let (run_id, task): (String, String) = (row.get("run_id")?, row.get("task")?);
    let holder = Holder::new(&dag_id, &run_id, &task, row.get("map_index")?);
    row.checked("dag_id", holder.ok()).map(Some)
}

impl Pools<'_> {
    /// Newest first.
    #[crate::boxed]
    pub async fn events(&mut self, pool: Option<&PoolName>, limit: u32) -> Result<Vec<PoolEventSummary>> {
        let mut stories = self.peak_stories(pool).await?;
        stories.extend(match pool {
            Some(pool) => self.pool_summaries_of(pool.as_str(), limit).await?,
            None => self.pool_summaries(limit).await?,
        });
        // Stable sort: records of one instant stay in order.
        stories.sort_by_key(|story| std::cmp::Reverse(story.at));
        stories.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(stories)
    }

    async fn peak_stories(&mut self, pool: Option<&PoolName>) -> Result<Vec<PoolEventSummary>> {
        let since = self.now().await?.minus(PEAKS_OF);
        let pools = match pool {
            Some(pool) => vec![pool.clone()],
            None => self.list(POOLS_MOST).await?.into_iter().map(|known| known.settings.name).collect(),
        };
        let mut stories = Vec::new();
        for pool in pools {
            for step in self.peaks(&pool, since).await? {
                let text = peak(pool.as_str(), step.most);
                let at = step.at.plus(STEP);
                stories.push(PoolEventSummary { at, pool: pool.clone(), ticket: None, holder: None, text });
            }
        }
        Ok(stories)
    }
}

statements! {
    /// Newest first, of all pools. By `tidemill_pool_log_summary_at`, which has only records with a summary.
    fn pool_summaries(limit: u32) -> Vec<PoolEventSummary> {
        "select l.pool, l.version, l.seq, l.at, l.ticket_id, l.summary, t.dag_id, t.run_id, t.task, t.map_index
         from tidemill_pool_log l {indexed by tidemill_pool_log_summary_at}
         left join tidemill_pool_ticket t on t.id = l.ticket_id
         where l.summary is not null
         order by l.at desc, l.version desc, l.seq desc limit $1"
    }

    /// Newest first. By `tidemill_pool_log_summary`, which has only records with a summary.
    fn pool_summaries_of(pool: &str, limit: u32) -> Vec<PoolEventSummary> {
        "select l.pool, l.version, l.seq, l.at, l.ticket_id, l.summary, t.dag_id, t.run_id, t.task, t.map_index
         from tidemill_pool_log l {indexed by tidemill_pool_log_summary}
         left join tidemill_pool_ticket t on t.id = l.ticket_id
         where l.pool = $1 and l.summary is not null
         order by l.version desc, l.seq desc limit $2"
    }
}
