//! Rows of relays as people see them.

use super::RELAY;
use super::relay::RelayRow;
use crate::codec::{DbId, DbTime};
use crate::error::StoreError;
use crate::outbox::detail::RelayDetail;
use crate::row::damaged;
use tidemill_domain::outbox::{Effort, RelayId, Tally};
use tidemill_domain::time::Timestamp;

#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct RelayDetailRow {
    pub(crate) id: DbId,
    pub(crate) process: DbId,
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) pid: i64,
    pub(crate) sink: String,
    pub(crate) instance: Option<i64>,
    pub(crate) total: Option<i64>,
    pub(crate) joined_at: DbTime,
    pub(crate) until: DbTime,
    pub(crate) published: i64,
    pub(crate) polls: i64,
    pub(crate) empty_polls: i64,
    pub(crate) queries: i64,
    pub(crate) slots: i64,
}

impl RelayDetailRow {
    pub(crate) fn detail(self, now: Timestamp) -> Result<RelayDetail, StoreError> {
        let row = self;
        let count = |column: &'static str, count: i64| {
            u64::try_from(count).map_err(|_| damaged(RELAY, column, RelayId::from(row.id)))
        };
        let tally = Tally {
            published: count("published", row.published)?,
            effort: Effort {
                polls: count("polls", row.polls)?,
                empty_polls: count("empty_polls", row.empty_polls)?,
                queries: count("queries", row.queries)?,
            },
        };
        let relay = RelayRow {
            id: row.id,
            name: row.name,
            host: row.host,
            pid: row.pid,
            sink: row.sink.clone(),
            instance: row.instance,
            total: row.total,
            joined_at: row.joined_at,
            until: row.until,
            slots: row.slots,
        };
        Ok(RelayDetail {
            lived: now.since(row.joined_at.into()),
            relay: relay.try_into()?,
            process: row.process.into(),
            sink: row.sink,
            tally,
            until: row.until.into(),
        })
    }
}
