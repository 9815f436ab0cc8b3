//! Past decisions about a pool, and its past settings. The log goes back as far as it is kept.

use super::row::LogRow;
use crate::error::StoreError;
use crate::tx::Pools;
use tidemill_domain::pool::event::Event;
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

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    pub place: DecisionPlace,
    pub at: Timestamp,
    pub event: Event,
    pub ticket: Option<TicketId>,
    /// The ticket's DAG or job, and its run.
    pub run: Option<(String, String)>,
}

impl Pools<'_> {
    /// Newest first, from before a position; snapshots are left out.
    #[crate::boxed]
    pub async fn decisions(
        &mut self,
        name: &PoolName,
        before: Option<DecisionPlace>,
        limit: u32,
    ) -> Result<Vec<Decision>, StoreError> {
        let before = before.map_or((i64::MAX, i32::MAX), |place| (place.version, place.seq));
        let rows = self.pool_decision_before(name.as_str(), before, limit.into()).await?;
        rows.into_iter()
            .map(|row| {
                let record = row.log.record()?;
                Ok(Decision {
                    place: DecisionPlace { version: record.version, seq: record.seq },
                    at: record.at,
                    event: record.event,
                    ticket: row.ticket_id.map(|id| TicketId::new(id.0)),
                    run: row.dag_id.zip(row.run_id),
                })
            })
            .collect()
    }

    /// Oldest first: the settings in force at an instant, as far as known, and each change since.
    #[crate::boxed]
    pub async fn settings_since(
        &mut self,
        name: &PoolName,
        since: Timestamp,
    ) -> Result<Vec<(Timestamp, Settings)>, StoreError> {
        let rows = self.pool_configured_since(name.as_str(), since.into(), CHANGES_MAX).await?;
        let is_cut = i64::try_from(rows.len()).is_ok_and(|count| count == CHANGES_MAX);
        let before = match is_cut {
            true => None,
            false => self.pool_configured_before(name.as_str(), since.into()).await?,
        };
        let mut known = Vec::with_capacity(rows.len() + 1);
        match (before, rows.is_empty()) {
            (Some(row), _) => known.extend(settings(&row)?),
            (None, _) if is_cut => {}
            // Unchanged since the log begins, so the current settings applied then.
            (None, true) => {
                let begins = self.pool_first_snapshot_at(name.as_str()).await?;
                let now = self.find(name).await?;
                known.extend(begins.zip(now).map(|(at, pool)| (at.into(), pool.settings)));
            }
            (None, false) => {
                let first = self.pool_first_snapshot(name.as_str()).await?;
                known.extend(first.as_ref().map(settings).transpose()?.flatten());
            }
        }
        for row in rows.iter().rev() {
            known.extend(settings(row)?);
        }
        known.sort_by_key(|(at, _)| *at);
        Ok(known)
    }
}

fn settings(row: &LogRow) -> Result<Option<(Timestamp, Settings)>, StoreError> {
    let record = row.record()?;
    Ok(match record.event {
        Event::Configured { settings } | Event::Snapshot { settings, .. } => Some((record.at, *settings)),
        _ => None,
    })
}
