//! Past decisions about a pool, and its past settings. The log goes back as far as it is kept.

use super::row::LOG;
use crate::codec::DbTime;
use crate::error::Result;
use crate::statement::{statements, stored};
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
        /// The sentence for the list of recent events, if it has one.
        pub summary: Option<String>,
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
        Event::Configured { settings, .. } | Event::Snapshot { settings, .. } => Some((record.at, *settings)),
        _ => None,
    }
}

statements! {
    /// After this position, in order of decision.
    fn pool_log_from(pool: &str, after: (i64, i32), limit: i64) -> Vec<Record> {
        bind(pool, after.0, after.1, limit)
        "select pool, version, seq, at, event from tidemill_pool_log
         where pool = $1 and (version, seq) > ($2, $3) order by version, seq limit $4"
    }

    /// All decisions about a ticket, in order.
    pub fn Pools::ticket_log(ticket: TicketId, limit: u32) -> Vec<Record> {
        "select pool, version, seq, at, event from tidemill_pool_log where ticket_id = $1
         order by version, seq limit $2"
    }

    /// How the live tickets of a pool got their units, the oldest first, as far back as the log goes. By the index of
    /// live tickets and that of the log by ticket.
    pub fn Pools::starts(name: &PoolName, limit: u32) -> Vec<Record> {
        bind(name.as_str(), limit)
        "select l.pool, l.version, l.seq, l.at, l.event
         from tidemill_pool_ticket t {indexed by tidemill_pool_ticket_holder}
         join tidemill_pool_log l on l.ticket_id = t.id and l.kind = 'granted'
         where t.pool = $1 and t.ended_at is null
         order by t.enqueued_at, t.id limit $2"
    }

    /// Version and instant of the newest snapshot before an instant.
    fn pool_log_snapshot_before(pool: &str, before: Timestamp) -> Option<(i64, DbTime)> {
        "select version, at from tidemill_pool_log where pool = $1 and kind = 'snapshot' and at < $2
         order by at desc limit 1"
    }

    /// Oldest first. Rows of the log are never moved, so `ctid` is stable.
    fn pool_log_delete_before(pool: &str, version: i64, limit: u32) -> u64 {
        postgres {
            "delete from tidemill_pool_log
             where ctid = any(array(
                 select ctid
                 from tidemill_pool_log
                 where pool = $1
                   and version < $2
                 order by version, seq
                 limit $3
             ))"
        }
        sqlite {
            "delete from tidemill_pool_log
             where pool = $1
               and (version, seq) in (
                   select version, seq
                   from tidemill_pool_log
                   where pool = $1
                     and version < $2
                   order by version, seq
                   limit $3
               )"
        }
    }

    /// Newest first, from before a position; snapshots are left out. By the primary key.
    pub fn Pools::decisions(name: &PoolName, before: Option<DecisionPlace>, limit: u32) -> Vec<Decision> {
        bind(
            name.as_str(), before.map_or(i64::MAX, |place| place.version), before.map_or(i32::MAX, |place| place.seq),
            limit,
        )
        "select pool, version, seq, at, ticket_id, dag_id, run_id, event, summary from tidemill_pool_log
         where pool = $1 and (version, seq) < ($2, $3) and kind <> 'snapshot'
         order by version desc, seq desc limit $4"
    }

    /// Newest first. By `tidemill_pool_log_configured`.
    fn pool_configured_since(pool: &str, since: Timestamp, limit: i64) -> Vec<Record> {
        "select pool, version, seq, at, event from tidemill_pool_log
         where pool = $1 and kind = 'configured' and at >= $2 order by at desc limit $3"
    }

    /// By `tidemill_pool_log_configured`.
    fn pool_configured_before(pool: &str, before: Timestamp) -> Option<Record> {
        "select pool, version, seq, at, event from tidemill_pool_log
         where pool = $1 and kind = 'configured' and at < $2 order by at desc limit 1"
    }

    /// The oldest snapshot, which has the settings when the log before it was deleted. By `tidemill_pool_log_snapshot`.
    fn pool_first_snapshot(pool: &str) -> Option<Record> {
        "select pool, version, seq, at, event from tidemill_pool_log where pool = $1 and kind = 'snapshot'
         order by at limit 1"
    }

    fn pool_first_snapshot_at(pool: &str) -> Option<DbTime> {
        "select at from tidemill_pool_log where pool = $1 and kind = 'snapshot' order by at limit 1"
    }
}
