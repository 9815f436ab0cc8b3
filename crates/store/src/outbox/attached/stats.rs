//! Metrics of attached tables. Values that cannot be read are `None`.

use super::AttachedRecord;
use crate::error::Result;
use crate::outbox::attached::row::CountRow;
use crate::statements::outbox::attached::{prepare, stats as statement};
use crate::tx::Outbox;
use std::time::Duration;
use tidemill_domain::outbox::Count;
use tidemill_domain::outbox::attached::{AttachedTable, TableName};
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
        let mut all = Vec::new();
        for AttachedRecord { table, .. } in self.attached_tables().await? {
            self.savepoint().await?;
            let counted = self.attached_counts(&table, count_max).await;
            let counts = self.known_since_savepoint(counted).await?;
            all.push(AttachedStats { name: table.name, counts });
        }
        Ok(all)
    }

    /// How long the oldest due row of each attached table has waited: zero if none is due, `None` if unknown. Rows
    /// blocked by a FAILED row, or waiting for a retry, are not due.
    #[crate::boxed]
    pub async fn attached_waits(&mut self) -> Result<Vec<(TableName, Option<Duration>)>> {
        let now = self.now().await?;
        let mut waits = Vec::new();
        for AttachedRecord { table, .. } in self.attached_tables().await? {
            self.savepoint().await?;
            let found = self.attached_due_since(&table, now).await;
            let since = self.known_since_savepoint(found).await?;
            let wait = since.map(|since| since.map_or(Duration::ZERO, |since| now.since(since)));
            waits.push((table.name, wait));
        }
        Ok(waits)
    }

    /// FAILED rows that were not skipped, per attached table, counted up to `count_max`; `None` if unknown.
    #[crate::boxed]
    pub async fn attached_parked(&mut self, count_max: u32) -> Result<Vec<(TableName, Option<Count>)>> {
        let mut parked = Vec::new();
        for AttachedRecord { table, .. } in self.attached_tables().await? {
            self.savepoint().await?;
            let counted = self.attached_parked_of(&table, count_max).await;
            let rows = self.known_since_savepoint(counted).await?;
            parked.push((table.name, rows));
        }
        Ok(parked)
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

    async fn attached_due_since(
        &mut self,
        table: &AttachedTable,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, sqlx::Error> {
        let Some(connection) = self.postgres() else { return Err(sqlx::Error::RowNotFound) };
        prepare(&mut *connection, &table.time_zone, Some(WATCH_MAX)).await?;
        let since = statement::due_since(connection, &table.name, now).await?;
        Ok(since.map(Into::into))
    }

    async fn attached_parked_of(
        &mut self,
        table: &AttachedTable,
        count_max: u32,
    ) -> Result<Count, sqlx::Error> {
        let Some(connection) = self.postgres() else { return Err(sqlx::Error::RowNotFound) };
        prepare(&mut *connection, &table.time_zone, Some(WATCH_MAX)).await?;
        let rows = statement::count_parked(connection, &table.name, i64::from(count_max) + 1).await?;
        Ok(Count::up_to(count_max.into(), u64::try_from(rows).unwrap_or(0)))
    }

    async fn attached_counts(
        &mut self,
        table: &AttachedTable,
        count_max: u32,
    ) -> Result<AttachedCounts, sqlx::Error> {
        let Some(connection) = self.postgres() else { return Err(sqlx::Error::RowNotFound) };
        prepare(&mut *connection, &table.time_zone, None).await?;
        let mut found = Vec::with_capacity(3);
        for status in ["PENDING", "SENDING", "FAILED"] {
            let limit = i64::from(count_max) + 1;
            found.push(statement::count(&mut *connection, &table.name, status, limit).await?);
        }
        let of = |n: usize| found.get(n).copied().unwrap_or((0, None));
        let count = |(rows, _): CountRow| Count::up_to(count_max.into(), u64::try_from(rows).unwrap_or(0));
        Ok(AttachedCounts {
            pending: count(of(0)),
            sending: count(of(1)),
            failed: count(of(2)),
            oldest: of(0).1.map(Into::into),
        })
    }
}
