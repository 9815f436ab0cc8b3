//! What is measured about adopted tables. What is not known is told as not known.

use super::AdoptedRecord;
use crate::error::StoreError;
use crate::postgres::outbox::adopted as statement;
use crate::row::outbox::adopted::CountRow;
use crate::tx::Tx;
use tidemill_domain::outbox::Count;
use tidemill_domain::outbox::adopted::{AdoptedTable, TableName};
use tidemill_domain::time::Timestamp;

/// How an adopted table stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdoptedStanding {
    /// Which.
    pub name: TableName,
    /// What was counted; none when the table cannot be read.
    pub counts: Option<AdoptedCounts>,
}

/// Rows of an adopted table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdoptedCounts {
    /// To be sent.
    pub pending: Count,
    /// In the hands of a relay.
    pub sending: Count,
    /// Tried in vain.
    pub failed: Count,
    /// When the oldest row that is to be sent was last changed, of those that were counted.
    pub oldest: Option<Timestamp>,
}

impl Tx {
    /// How adopted tables stand, each status counted up to `count_max`.
    pub async fn adopted_standings(&mut self, count_max: u32) -> Result<Vec<AdoptedStanding>, StoreError> {
        let mut standings = Vec::new();
        for AdoptedRecord { table, .. } in self.adopted_tables().await? {
            self.savepoint().await?;
            let counts = match self.adopted_counts(&table, count_max).await {
                Ok(counts) => {
                    self.release_savepoint().await?;
                    Some(counts)
                }
                // It is gone, locked, or not for us to see.
                Err(sqlx::Error::Database(_)) => {
                    self.rollback_to_savepoint().await?;
                    None
                }
                Err(error) => return Err(error.into()),
            };
            standings.push(AdoptedStanding { name: table.name, counts });
        }
        Ok(standings)
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
