//! Metrics of attached tables. Values that cannot be read are `None`. Slot by slot, as with `recover` in `text`.

use super::AttachedRecord;
use crate::codec::DbTime;
use crate::error::Result;
use crate::outbox::counted;
use crate::statement::{One, Running, postgres_statements};
use crate::statements::outbox::attached::prepare;
use crate::statements::outbox::attached::text::{is_skipped, slot};
use crate::tx::Outbox;
use sqlx::PgConnection;
use std::time::Duration;
use tidemill_domain::outbox::Count;
use tidemill_domain::outbox::attached::TableName;
use tidemill_domain::time::Timestamp;

/// Statement timeout of metrics. They run every few seconds, and others need the connection.
const WATCH_MAX: Duration = Duration::from_secs(3);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttachedStats {
    pub name: TableName,
    /// `None` if the table cannot be read.
    pub counts: Option<AttachedCounts>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttachedCounts {
    pub pending: Count,
    /// Claimed by a relay.
    pub sending: Count,
    pub failed: Count,
    /// Last change of the oldest counted row that is still to be sent.
    pub oldest: Option<Timestamp>,
}

impl Outbox<'_> {
    /// Each status is counted up to `count_max`.
    #[crate::boxed]
    pub async fn attached_stats(&mut self, count_max: u32) -> Result<Vec<AttachedStats>> {
        let found = self
            .of_attached(None, move |connection, name| Box::pin(counts(connection, name, count_max)))
            .await?;
        Ok(found.into_iter().map(|(name, counts)| AttachedStats { name, counts }).collect())
    }

    /// How long the oldest due row of each attached table has waited: zero if none is due, `None` if unknown. Rows
    /// blocked by a FAILED row, or waiting for a retry, are not due.
    #[crate::boxed]
    pub async fn attached_waits(&mut self) -> Result<Vec<(TableName, Option<Duration>)>> {
        let now = self.now().await?;
        let found = self
            .of_attached(Some(WATCH_MAX), move |connection, name| Box::pin(due_since(connection, name, now)))
            .await?;
        let wait = |since: Option<DbTime>| since.map_or(Duration::ZERO, |since| now.since(since.into()));
        Ok(found.into_iter().map(|(name, since)| (name, since.map(wait))).collect())
    }

    /// FAILED rows that were not skipped, per attached table, counted up to `count_max`; `None` if unknown.
    #[crate::boxed]
    pub async fn attached_parked(&mut self, count_max: u32) -> Result<Vec<(TableName, Option<Count>)>> {
        let limit = i64::from(count_max) + 1;
        let found = self
            .of_attached(Some(WATCH_MAX), move |connection, name| {
                Box::pin(count_parked(connection, name, limit))
            })
            .await?;
        Ok(found.into_iter().map(|(name, rows)| (name, rows.map(|rows| counted(rows, count_max)))).collect())
    }

    /// Reads a value of each attached table, with this statement timeout.
    async fn of_attached<T: Send>(
        &mut self,
        within: Option<Duration>,
        read: impl for<'c> Fn(&'c mut PgConnection, &'c TableName) -> Running<'c, T> + Send,
    ) -> Result<Vec<(TableName, Option<T>)>> {
        let mut all = Vec::new();
        for AttachedRecord { table, .. } in self.attached_tables().await? {
            self.savepoint().await?;
            let Some(connection) = self.postgres() else { return Err(sqlx::Error::RowNotFound.into()) };
            let found = match prepare(&mut *connection, &table.time_zone, within).await {
                Ok(()) => read(connection, &table.name).await,
                Err(error) => Err(error),
            };
            let found = self.known_since_savepoint(found).await?;
            all.push((table.name, found));
        }
        Ok(all)
    }

    /// Ends the savepoint. `None` if the table is gone, locked, not readable, or too slow.
    pub(in crate::outbox) async fn known_since_savepoint<T>(
        &mut self,
        found: Result<T, sqlx::Error>,
    ) -> Result<Option<T>> {
        match found {
            Ok(found) => {
                self.release_savepoint().await?;
                Ok(Some(found))
            }
            Err(sqlx::Error::Database(_)) => {
                self.rollback_to_savepoint().await?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

async fn counts(
    connection: &mut PgConnection,
    name: &TableName,
    count_max: u32,
) -> Result<AttachedCounts, sqlx::Error> {
    let limit = i64::from(count_max) + 1;
    let (pending, oldest) = count(&mut *connection, name, "PENDING", limit).await?;
    let (sending, _) = count(&mut *connection, name, "SENDING", limit).await?;
    let (failed, _) = count(connection, name, "FAILED", limit).await?;
    Ok(AttachedCounts {
        pending: counted(pending, count_max),
        sending: counted(sending, count_max),
        failed: counted(failed, count_max),
        oldest: oldest.map(Into::into),
    })
}

postgres_statements! {
    /// The number of rows in a status, up to a limit, and the instant of the oldest.
    fn count(name: &TableName, status: &'static str, limit: i64) -> One<(i64, Option<DbTime>)> {
        bind(limit)
        format!(
            "select count(*), min(updated_at)::timestamptz
             from (
                 select f.updated_at
                 from generate_series(0, 255) as s (slot)
                 cross join lateral (
                     select e.updated_at
                     from {table} e
                     where {slot} = s.slot and e.status = '{status}' and e.status <> 'PUBLISHED'
                     limit $1
                 ) as f
                 limit $1
             ) as counted",
            table = name.quoted(),
            slot = slot("e"),
        )
    }

    /// FAILED rows that were not skipped, counted up to a limit.
    fn count_parked(name: &TableName, limit: i64) -> One<i64> {
        bind(limit, name.schema(), name.table())
        format!(
            "select count(*)
             from (
                 select f.event_id
                 from generate_series(0, 255) as s (slot)
                 cross join lateral (
                     select e.event_id
                     from {table} e
                     where {slot} = s.slot and e.status = 'FAILED' and e.status <> 'PUBLISHED'
                       and not {skipped}
                     limit $1
                 ) as f
                 limit $1
             ) as parked",
            table = name.quoted(),
            slot = slot("e"),
            skipped = is_skipped("e", "$2", "$3"),
        )
    }

    /// Since when the longest-waiting row is due, of the first of each slot; `None` if nothing is due. SENDING rows
    /// count: their relay may be gone. Rows blocked by a FAILED one, or waiting for a retry, do not: no relay may take
    /// them. By `next_retry_at`, because `updated_at` changes with every claim.
    fn due_since(name: &TableName, now: Timestamp) -> One<Option<DbTime>> {
        bind(now, name.schema(), name.table())
        format!(
            "select min(longest.next_retry_at)::timestamptz from generate_series(0, 255) as s (slot)
             cross join lateral (
                 select e.next_retry_at
                 from {table} e
                 where {slot} = s.slot and e.status in ('PENDING', 'SENDING') and e.status <> 'PUBLISHED'
                   and e.next_retry_at <= $1
                   and not exists (
                       select
                       from {table} b
                       where b.aggregate_id = e.aggregate_id and b.event_id < e.event_id and b.status <> 'PUBLISHED'
                         and ((b.status = 'PENDING' and (b.next_retry_at <= $1) is not true)
                              or (b.status = 'FAILED' and not {skipped}))
                   )
                 order by e.event_id
                 limit 1
             ) as longest",
            table = name.quoted(),
            slot = slot("e"),
            skipped = is_skipped("b", "$2", "$3"),
        )
    }
}
