//! Metrics of pools, read from the rows, so that every process sees the same; and usage in steps of five minutes.

use crate::codec::DbTime;
use crate::error::Result;
use crate::pool::LastAudit;
use crate::pool::row::LevelRow;
use crate::statement::statements;
use crate::tx::Pools;
use std::collections::BTreeMap;
use std::time::Duration;
use tidemill_domain::pool::command::Level;
use tidemill_domain::pool::estimate::{Accuracy, accuracy};
use tidemill_domain::pool::ticket::Eta;
use tidemill_domain::pool::usage::{PEAK_OF, UsageStep, peaks};
use tidemill_domain::pool::{Breaker, PoolName, Settings};
use tidemill_domain::time::Timestamp;

#[derive(Clone, PartialEq, Debug)]
pub struct PoolLevel {
    pub settings: Settings,
    pub breaker: Breaker,
    pub level: Level,
    pub active: u64,
    pub waiting: u64,
    /// How many of the active ones are suspect.
    pub suspect: u64,
    /// The age of the oldest queued ticket.
    pub oldest_wait: Duration,
    /// None before the first one.
    pub audit: Option<LastAudit>,
}

impl PoolLevel {
    /// What the last audit found; 0 before the first one.
    pub fn violations(&self) -> u64 {
        self.audit.as_ref().map_or(0, |audit| audit.violations)
    }
}

impl Pools<'_> {
    /// By name.
    pub async fn levels(&mut self, limit: u32) -> Result<Vec<PoolLevel>> {
        let now = self.now().await?;
        let rows = self.pool_level_list(limit).await?;
        Ok(rows.into_iter().map(|row| row.level(now)).collect())
    }

    /// The average wait of tickets that were queued and got units within this time; only of pools with any.
    pub async fn waits(&mut self, within: Duration) -> Result<BTreeMap<PoolName, Duration>> {
        let since = self.now().await?.minus(within);
        let rows = self.pool_wait_list(since).await?;
        let wait = |micros: i64| Duration::from_micros(u64::try_from(micros).unwrap_or(0));
        Ok(rows.into_iter().filter_map(|(pool, micros)| Some((pool.parse().ok()?, wait(micros)))).collect())
    }

    /// Tickets that gave up or stopped asking in the queue within this time; only of pools with any.
    pub async fn timeouts(&mut self, within: Duration) -> Result<BTreeMap<PoolName, u64>> {
        let since = self.now().await?.minus(within);
        let rows = self.pool_timeout_list(since).await?;
        let count = |count: i64| u64::try_from(count).unwrap_or(0);
        Ok(rows.into_iter().filter_map(|(pool, number)| Some((pool.parse().ok()?, count(number)))).collect())
    }

    /// How good the estimates of the last starts were.
    pub async fn estimate_accuracy(&mut self, name: &PoolName) -> Result<Accuracy> {
        let rows = self.pool_estimate_list(name.as_str(), SCORED_MOST).await?;
        let started = rows
            .into_iter()
            .map(|(started_at, p50, p90)| (started_at.into(), Eta { p50: p50.into(), p90: p90.into() }));
        Ok(accuracy(started))
    }

    /// Steps in which a pool was fuller than in the day before, the oldest first.
    pub async fn peaks(&mut self, name: &PoolName, since: Timestamp) -> Result<Vec<UsageStep>> {
        let now = self.now().await?;
        let steps = self.usage(name, since.minus(PEAK_OF)).await?;
        Ok(peaks(&steps, now).into_iter().filter(|peak| peak.at >= since).collect())
    }
}

/// Starts that count for the score of the estimates.
const SCORED_MOST: u32 = 500;

statements! {
    /// The last starts after a wait, with what was expected. By `tidemill_pool_ticket_estimated`.
    fn pool_estimate_list(pool: &str, limit: u32) -> Vec<(DbTime, DbTime, DbTime)> {
        "select started_at, eta_p50, eta_p90 from tidemill_pool_ticket
         where pool = $1 and eta_p50 is not null and started_at is not null
         order by started_at desc limit $2"
    }

    /// By name. Reads only the tickets of pools with a queue.
    fn pool_level_list(limit: u32) -> Vec<LevelRow> {
        "select name, settings, breaker, usage, active, waiting, suspect, audit,
                case when waiting > 0 then (
                    select min(t.enqueued_at)
                    from tidemill_pool_ticket t
                    where t.pool = p.name
                      and t.ended_at is null
                      and t.state = 'waiting'
                ) end as waiting_since
         from tidemill_pool p order by name limit $1"
    }

    /// Per pool, the mean wait in microseconds of tickets that were queued and got their units since then. They are
    /// live, or have ended since then too; so each half has its index.
    fn pool_wait_list(since: Timestamp) -> Vec<(String, i64)> {
        "select granted.pool, cast(avg({as micros granted.started_at - granted.enqueued_at}) as bigint)
         from (
             select t.pool, t.enqueued_at, t.started_at
             from tidemill_pool p
             join tidemill_pool_ticket t on t.pool = p.name
             where t.ended_at is null
               and t.started_at >= $1
             union all
             select t.pool, t.enqueued_at, t.started_at
             from tidemill_pool p
             join tidemill_pool_ticket t on t.pool = p.name
             where t.ended_at >= $1
               and t.started_at >= $1
         ) as granted
         where granted.started_at > granted.enqueued_at
         group by granted.pool"
    }

    /// Per pool, the tickets that left the queue by themselves since then.
    fn pool_timeout_list(since: Timestamp) -> Vec<(String, i64)> {
        "select t.pool, count(*) from tidemill_pool p
         join tidemill_pool_ticket t on t.pool = p.name
         where t.ended_at >= $1
           and t.started_at is null
           and t.ending in ('stopped_asking', 'gave_up', 'released', 'released_failed', 'released_refused')
         group by t.pool"
    }
}
