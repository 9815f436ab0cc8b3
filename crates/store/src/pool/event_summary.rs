//! Recent events as sentences: from the log, and from the usage of pools.

use crate::error::Result;
use crate::tx::Pools;
use std::time::Duration;
use tidemill_domain::pool::event::Event;
use tidemill_domain::pool::event_summary::{peak, story};
use tidemill_domain::pool::usage::STEP;
use tidemill_domain::pool::{Holder, PoolName, TicketId};
use tidemill_domain::time::Timestamp;

/// Records to read per sentence: most have none.
const READ_PER_STORY: u32 = 8;

/// Upper bound of records to read.
const READ_MOST: u32 = 4_000;

/// Period for peaks.
const PEAKS_OF: Duration = Duration::from_secs(24 * 3600);

/// Pools to read for peaks.
const POOLS_MOST: u32 = 1_000;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolEventSummary {
    pub at: Timestamp,
    pub pool: PoolName,
    pub ticket: Option<TicketId>,
    /// `None` once the ticket is deleted.
    pub holder: Option<Holder>,
    pub text: String,
}

impl Pools<'_> {
    /// Newest first.
    #[crate::boxed]
    pub async fn events(&mut self, pool: Option<&PoolName>, limit: u32) -> Result<Vec<PoolEventSummary>> {
        let read = i64::from(limit.saturating_mul(READ_PER_STORY).min(READ_MOST));
        let rows = match pool {
            Some(pool) => self.pool_log_latest_of(pool.as_str(), read).await?,
            None => self.pool_log_latest(read).await?,
        };
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut stories = self.peak_stories(pool).await?;
        let mut count = 0;
        for row in rows {
            if count == wanted {
                break;
            }
            let Ok(pool) = row.pool.parse() else { continue };
            let record = row.record;
            let ticket = match record.event.ticket() {
                Some(id) if may_have_sentence(&record.event) => self.ticket(id).await?,
                _ => None,
            };
            let ticket = ticket.map(|known| known.ticket);
            if let Some(text) = story(record.at, &record.event, ticket.as_ref()) {
                let holder = ticket.map(|ticket| ticket.holder);
                stories.push(PoolEventSummary {
                    at: record.at,
                    pool,
                    ticket: record.event.ticket(),
                    holder,
                    text,
                });
                count += 1;
            }
        }
        // Stable sort: records of one instant stay in order.
        stories.sort_by_key(|story| std::cmp::Reverse(story.at));
        stories.truncate(wanted);
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

/// Whether the event's sentence, if it has one, needs the ticket.
const fn may_have_sentence(event: &Event) -> bool {
    matches!(
        event,
        Event::Granted { .. } | Event::Doubted { .. } | Event::Confirmed { .. } | Event::Ended { .. }
    )
}
