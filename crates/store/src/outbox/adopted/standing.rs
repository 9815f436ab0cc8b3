//! What is measured about adopted tables. What is not known is told as not known.

use super::AdoptedRecord;
use crate::error::StoreError;
use crate::outbox::adopted::row::CountRow;
use crate::statements::outbox::adopted as statement;
use crate::tx::Outbox;
use std::time::Duration;
use tidemill_domain::outbox::Count;
use tidemill_domain::outbox::adopted::{AdoptedTable, TableName};
use tidemill_domain::time::Timestamp;

/// Longest look of those who watch a table. They come back every few seconds, and others wait for the connection.
const WATCH_MAX: Duration = Duration::from_secs(3);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdoptedStanding {
    pub name: TableName,
    /// What was counted; none when the table cannot be read.
    pub counts: Option<AdoptedCounts>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdoptedCounts {
    pub pending: Count,
    /// In the hands of a relay.
    pub sending: Count,
    /// Tried in vain.
    pub failed: Count,
    /// When the oldest row that is to be sent was last changed, of those that were counted.
    pub oldest: Option<Timestamp>,
}

impl Outbox<'_> {
    /// How adopted tables stand, each status counted up to `count_max`.
    pub async fn adopted_standings(&mut self, count_max: u32) -> Result<Vec<AdoptedStanding>, StoreError> {
        let mut standings = Vec::new();
        for AdoptedRecord { table, .. } in self.adopted_tables().await? {
            self.savepoint().await?;
            let counted = self.adopted_counts(&table, count_max).await;
            let counts = self.known_since_savepoint(counted).await?;
            standings.push(AdoptedStanding { name: table.name, counts });
        }
        Ok(standings)
    }

    /// How long the row of each adopted table has been due that relays have left for longest: zero when none is, and none when
    /// nobody knows. Rows that wait behind one that has FAILED, or that is tried again later, are not due.
    pub async fn adopted_waits(&mut self) -> Result<Vec<(TableName, Option<Duration>)>, StoreError> {
        let now = self.now().await?;
        let mut waits = Vec::new();
        for AdoptedRecord { table, .. } in self.adopted_tables().await? {
            self.savepoint().await?;
            let found = self.adopted_due_since(&table, now).await;
            let since = self.known_since_savepoint(found).await?;
            let wait = since.map(|since| since.map_or(Duration::ZERO, |since| now.since(since)));
            waits.push((table.name, wait));
        }
        Ok(waits)
    }

    /// How many rows of each adopted table have FAILED and were not skipped, counted up to `count_max`; none when nobody knows.
    pub async fn adopted_parked(
        &mut self,
        count_max: u32,
    ) -> Result<Vec<(TableName, Option<Count>)>, StoreError> {
        let mut parked = Vec::new();
        for AdoptedRecord { table, .. } in self.adopted_tables().await? {
            self.savepoint().await?;
            let counted = self.adopted_parked_of(&table, count_max).await;
            let rows = self.known_since_savepoint(counted).await?;
            parked.push((table.name, rows));
        }
        Ok(parked)
    }

    /// What was found since the savepoint, which ends here. None when the table is gone, locked, not for us to see, or takes
    /// too long.
    pub(in crate::outbox) async fn known_since_savepoint<T>(
        &mut self,
        found: Result<T, sqlx::Error>,
    ) -> Result<Option<T>, StoreError> {
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

    async fn adopted_due_since(
        &mut self,
        table: &AdoptedTable,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, sqlx::Error> {
        let Some(connection) = self.postgres() else { return Err(sqlx::Error::RowNotFound) };
        statement::prepare(&mut *connection, &table.time_zone, Some(WATCH_MAX)).await?;
        let since = statement::due_since(connection, &table.name, now.into()).await?;
        Ok(since.map(Into::into))
    }

    async fn adopted_parked_of(
        &mut self,
        table: &AdoptedTable,
        count_max: u32,
    ) -> Result<Count, sqlx::Error> {
        let Some(connection) = self.postgres() else { return Err(sqlx::Error::RowNotFound) };
        statement::prepare(&mut *connection, &table.time_zone, Some(WATCH_MAX)).await?;
        let rows = statement::count_parked(connection, &table.name, i64::from(count_max) + 1).await?;
        Ok(Count::up_to(count_max.into(), u64::try_from(rows).unwrap_or(0)))
    }

    async fn adopted_counts(
        &mut self,
        table: &AdoptedTable,
        count_max: u32,
    ) -> Result<AdoptedCounts, sqlx::Error> {
        let Some(connection) = self.postgres() else { return Err(sqlx::Error::RowNotFound) };
        statement::prepare(&mut *connection, &table.time_zone, None).await?;
        let mut found = Vec::with_capacity(3);
        for status in ["PENDING", "SENDING", "FAILED"] {
            let limit = i64::from(count_max) + 1;
            found.push(statement::count(&mut *connection, &table.name, status, limit).await?);
        }
        let of = |n: usize| found.get(n).copied().unwrap_or((0, None));
        let count = |(rows, _): CountRow| Count::up_to(count_max.into(), u64::try_from(rows).unwrap_or(0));
        Ok(AdoptedCounts {
            pending: count(of(0)),
            sending: count(of(1)),
            failed: count(of(2)),
            oldest: of(0).1.map(Into::into),
        })
    }
}
