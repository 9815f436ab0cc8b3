//! Past decisions about a pool, and its past settings. The log goes back as far as it is kept.

use super::row::LOG;
use crate::error::Result;
use crate::statement::stored;
use crate::tx::Pools;
use tidemill_domain::pool::event::{Event, Record};
use tidemill_domain::pool::{PoolName, Settings, TicketId};
use tidemill_domain::time::Timestamp;

/// Changes read at most; more would not be readable in a chart.
const CHANGES_MAX: i64 = 500;

/// The position of a record in the log of a pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DecisionPlace {
    pub version: i64,
    pub seq: i32,
}

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Decision in LOG |row| {
        pub place: DecisionPlace => DecisionPlace { version: row.get("version")?, seq: row.get("seq")? },
        pub at: Timestamp,
        pub event: Event => row.json("event")?,
        pub ticket: Option<TicketId> = "ticket_id",
        /// The ticket's DAG or job, and its run.
        pub run: Option<(String, String)> => row.get::<Option<_>>("dag_id")?.zip(row.get("run_id")?),
    }
}

impl Pools<'_> {
    /// Oldest first: the settings in force at an instant, as far as known, and each change since.
    #[crate::boxed]
    pub async fn settings_since(
        &mut self,
        name: &PoolName,
        since: Timestamp,
    ) -> Result<Vec<(Timestamp, Settings)>> {
        let rows = self.pool_configured_since(name.as_str(), since, CHANGES_MAX).await?;
        let is_cut = i64::try_from(rows.len()).is_ok_and(|count| count == CHANGES_MAX);
        let before = match is_cut {
            true => None,
            false => self.pool_configured_before(name.as_str(), since).await?,
        };
        let mut known = Vec::with_capacity(rows.len() + 1);
        match (before, rows.is_empty()) {
            (Some(record), _) => known.extend(settings(record)),
            (None, _) if is_cut => {}
            // Unchanged since the log begins, so the current settings applied then.
            (None, true) => {
                let begins = self.pool_first_snapshot_at(name.as_str()).await?;
                let now = self.find(name).await?;
                known.extend(begins.zip(now).map(|(at, pool)| (at.into(), pool.settings)));
            }
            (None, false) => {
                let first = self.pool_first_snapshot(name.as_str()).await?;
                known.extend(first.and_then(settings));
            }
        }
        known.extend(rows.into_iter().rev().filter_map(settings));
        known.sort_by_key(|(at, _)| *at);
        Ok(known)
    }
}

fn settings(record: Record) -> Option<(Timestamp, Settings)> {
    match record.event {
        Event::Configured { settings } | Event::Snapshot { settings, .. } => Some((record.at, *settings)),
        _ => None,
    }
}
