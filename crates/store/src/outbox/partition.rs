//! Partitions of the outbox are made before events need them. SQLite has none.

use crate::error::StoreError;
use crate::statement::{Columns, stored};
use crate::store::Store;
use crate::tx::Outbox;
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::partition::{Range, missing};

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Partition in ("outbox_event", "name") |row| {
        pub name: String,
        /// The ids in it; none of the default partition, which takes whatever no other one takes.
        pub range: Option<Range> => range(row)?,
        /// How many events it has, about; none when nobody has estimated that yet.
        pub rows: Option<u64> => row.get::<Option<i64>>("rows")?.and_then(|rows| rows.try_into().ok()),
        /// How large it is, with its indexes.
        pub bytes: u64 => u64::try_from(row.get::<i64>("bytes")?).unwrap_or(0),
    }
}

impl Partition {
    /// Whether we made it. One that somebody else has made is left alone.
    pub(crate) fn is_ours(&self) -> bool {
        self.range.is_some_and(|range| self.name == format!("outbox_event_p{}", range.from))
    }
}

fn range(row: &Columns<'_>) -> Result<Option<Range>, sqlx::Error> {
    let (from, to): (Option<i64>, Option<i64>) = (row.get("from_id")?, row.get("to_id")?);
    Ok(from.zip(to).map(|(from, to)| Range { from, to }))
}

/// What became of the partitions that were to be made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Extended {
    pub made: Vec<Range>,
    /// Whether there are still too few, because somebody was in the way. The next round tries again.
    pub is_short: bool,
}

impl Store {
    /// Makes partitions of so many `rows`, until `ahead` of them lie beyond the last id. Nobody who writes is kept from
    /// it for longer than half a second; of two that do this at once, one does nothing.
    #[crate::boxed]
    pub async fn extend_outbox(&self, rows: i64, ahead: usize) -> Result<Extended, StoreError> {
        let mut extended = Extended::default();
        // Each in a transaction of its own, so that what was made stays.
        for _ in 0..ahead {
            let mut tx = self.begin().await?;
            let Some(range) = tx.outbox().next_partition(rows, ahead).await? else { break };
            match tx.outbox().make_partition(range).await {
                Ok(()) => {
                    tx.commit().await?;
                    extended.made.push(range);
                }
                Err(error) if is_in_the_way(&error) => {
                    tracing::debug!(%error, "a partition of the outbox was not made; will try again");
                    extended.is_short = true;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(extended)
    }
}

impl Outbox<'_> {
    /// The partitions, in the order of their ids; the default one is the last. None on SQLite.
    pub async fn partitions(&mut self) -> Result<Vec<Partition>, StoreError> {
        Ok(self.outbox_partition_list().await?)
    }

    /// The number that was given out last, also if its event was rolled back or is forgotten; zero when none was.
    pub async fn last_event_id(&mut self) -> Result<EventId, StoreError> {
        Ok(EventId::new(self.outbox_last_id().await?))
    }

    async fn next_partition(&mut self, rows: i64, ahead: usize) -> Result<Option<Range>, StoreError> {
        let partitions = self.partitions().await?;
        if partitions.is_empty() || !self.outbox_keeper_lock().await? {
            return Ok(None);
        }
        // Looked at again under the lock.
        let partitions = self.partitions().await?;
        let ranges: Vec<Range> = partitions.iter().filter_map(|partition| partition.range).collect();
        let last = EventId::new(self.outbox_last_id().await?);
        let stray = self.outbox_highest_in_default().await?.map(EventId::new);
        Ok(missing(&ranges, last, stray, rows, ahead).first().copied())
    }

    async fn make_partition(&mut self, range: Range) -> Result<(), StoreError> {
        self.outbox_hurry().await?;
        Ok(self.outbox_partition_create(range).await?)
    }
}

/// Somebody holds the table, or has just put into the default partition what was to go here.
fn is_in_the_way(error: &StoreError) -> bool {
    const CHECK_VIOLATION: &str = "23514";
    match error {
        StoreError::Busy(_) => true,
        StoreError::Failed(sqlx::Error::Database(answer)) => {
            answer.code().as_deref() == Some(CHECK_VIOLATION)
        }
        _ => false,
    }
}
