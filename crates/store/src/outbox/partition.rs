//! Creates partitions of the outbox before events need them. SQLite has none. Their names cannot be bound; they are a
//! word of ours and a number.

use crate::error::{Result, StoreError};
use crate::statement::{Columns, One, statements, stored};
use crate::store::Store;
use crate::tx::Outbox;
use sqlx::AssertSqlSafe;
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::partition::{Range, missing};

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Partition in ("outbox_event", "name") |row| {
        pub name: String,
        /// The ids in it; `None` for the default partition.
        pub range: Option<Range> => range(row)?,
        /// Estimate; `None` before the first one.
        pub rows: Option<u64> => row.get::<Option<i64>>("rows")?.and_then(|rows| rows.try_into().ok()),
        /// With its indexes.
        pub bytes: u64 => u64::try_from(row.get::<i64>("bytes")?).unwrap_or(0),
    }
}

impl Partition {
    /// Partitions of others are left alone.
    pub(crate) fn is_ours(&self) -> bool {
        self.range.is_some_and(|range| self.name == format!("outbox_event_p{}", range.from))
    }
}

fn range(row: &Columns<'_>) -> Result<Option<Range>, sqlx::Error> {
    let (from, to): (Option<i64>, Option<i64>) = (row.get("from_id")?, row.get("to_id")?);
    Ok(from.zip(to).map(|(from, to)| Range { from, to }))
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Extended {
    pub made: Vec<Range>,
    /// Still too few, because of locks or rows in the default partition. The next round tries again.
    pub is_short: bool,
}

impl Store {
    /// Creates partitions of `rows` ids until `ahead` are unused. Blocks writers for half a second at most.
    #[crate::boxed]
    pub async fn extend_outbox(&self, rows: i64, ahead: usize) -> Result<Extended> {
        let mut extended = Extended::default();
        // Each in its own transaction, so that finished ones stay.
        for _ in 0..ahead {
            let mut tx = self.begin().await?;
            let Some(range) = tx.outbox().next_partition(rows, ahead).await? else {
                // At once, because others do not wait for the lock.
                tx.rollback().await?;
                break;
            };
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
    /// The last id given out, also if its event was rolled back or deleted; zero if none was.
    pub async fn last_event_id(&mut self) -> Result<EventId> {
        Ok(EventId::new(self.outbox_last_id().await?))
    }

    async fn next_partition(&mut self, rows: i64, ahead: usize) -> Result<Option<Range>> {
        let partitions = self.partitions().await?;
        if partitions.is_empty() || !self.outbox_keeper_lock().await? {
            return Ok(None);
        }
        // Check again under the lock.
        let partitions = self.partitions().await?;
        let ranges: Vec<Range> = partitions.iter().filter_map(|partition| partition.range).collect();
        let last = EventId::new(self.outbox_last_id().await?);
        let stray = self.outbox_highest_in_default().await?.map(EventId::new);
        Ok(missing(&ranges, last, stray, rows, ahead).first().copied())
    }

    async fn make_partition(&mut self, range: Range) -> Result<()> {
        self.outbox_hurry().await?;
        Ok(self.outbox_partition_create(range).await?)
    }
}

/// The table is locked, or the default partition has just received a row of this range.
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

/// The advisory lock for making and dropping partitions: `tide` and `outb`, as numbers.
const KEEPER: i64 = 0x7469_6465_6f75_7462;

statements! {
    /// Until the transaction ends; false if another process has it.
    fn outbox_keeper_lock() -> One<bool> {
        postgres {
            bind(KEEPER)
            "select pg_try_advisory_xact_lock($1)"
        }
        sqlite |_connection| {
            // The one writer excludes all others.
            Ok(true)
        }
    }

    /// Who waits for a table lock blocks all that come later, so wait for less than PostgreSQL's deadlock timeout.
    fn outbox_hurry() -> () {
        postgres { "set local lock_timeout = '500ms'" }
        // There is no lock to wait for.
        sqlite { nothing }
    }

    /// By range; the default partition is last. Empty on SQLite.
    pub fn Outbox::partitions() -> Vec<Partition> {
        postgres {
            r"select c.relname::text as name, bound.ids[1]::bigint as from_id, bound.ids[2]::bigint as to_id,
                     nullif(c.reltuples, -1)::bigint as rows, pg_total_relation_size(c.oid) as bytes
              from pg_inherits i
              join pg_class c on c.oid = i.inhrelid
              cross join lateral (
                  select regexp_match(
                      pg_get_expr(c.relpartbound, c.oid), '^FOR VALUES FROM \(''?(\d+)''?\) TO \(''?(\d+)''?\)$'
                  ) as ids
              ) as bound
              where i.inhparent = 'outbox_event'::regclass
              order by from_id nulls last, name"
        }
        sqlite { nothing }
    }

    fn outbox_last_id() -> One<i64> {
        postgres {
            "select coalesce(pg_sequence_last_value(pg_get_serial_sequence('outbox_event', 'id')::regclass), 0)"
        }
        sqlite { "select coalesce(max(seq), 0) from sqlite_sequence where name = 'outbox_event'" }
    }

    fn outbox_highest_in_default() -> One<Option<i64>> {
        postgres { "select max(id) from outbox_event_default" }
        sqlite { nothing }
    }

    /// Created separately and then attached: `create table … partition of` would wait for all writers. Identity is not
    /// copied, because a partition uses that of its parent.
    fn outbox_partition_create(range: Range) -> () {
        postgres |connection| {
            let Range { from, to } = range;
            let texts = [
                format!(
                    "create table outbox_event_p{from} (
                         like outbox_event including defaults including constraints including generated including indexes
                         including storage
                     )"
                ),
                format!(
                    "alter table outbox_event attach partition outbox_event_p{from} for values from ({from}) to ({to})"
                ),
            ];
            for text in texts {
                sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *connection).await?;
            }
            Ok(())
        }
        sqlite { nothing }
    }

    /// Counted up to a limit.
    fn outbox_default_count(limit: i64) -> One<i64> {
        postgres { "select count(*) from (select from outbox_event_default limit $1) as counted" }
        sqlite { nothing }
    }
}
