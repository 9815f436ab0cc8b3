//! Rows about the partitions of the outbox.

use crate::outbox::Partition;
use tidemill_domain::outbox::partition::Range;

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct PartitionRow {
    name: String,
    from_id: Option<i64>,
    to_id: Option<i64>,
    rows: Option<i64>,
    bytes: i64,
}

impl From<PartitionRow> for Partition {
    fn from(row: PartitionRow) -> Self {
        let range = row.from_id.zip(row.to_id).map(|(from, to)| Range { from, to });
        let count = |number: i64| u64::try_from(number).ok();
        Self { name: row.name, range, rows: row.rows.and_then(count), bytes: count(row.bytes).unwrap_or(0) }
    }
}
