//! Rows of relays as people see them.

use super::RELAY;
use super::relay::RelayRow;
use crate::codec::{DbId, DbTime};
use crate::error::StoreError;
use crate::outbox::detail::RelayDetail;
use crate::row::damaged;
use tidemill_domain::outbox::RelayId;

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
    pub(crate) slots: i64,
}

impl TryFrom<RelayDetailRow> for RelayDetail {
    type Error = StoreError;

    fn try_from(row: RelayDetailRow) -> Result<Self, StoreError> {
        let published =
            u64::try_from(row.published).map_err(|_| damaged(RELAY, "published", RelayId::from(row.id)))?;
        let relay = RelayRow {
            id: row.id,
            name: row.name,
            host: row.host,
            pid: row.pid,
            instance: row.instance,
            total: row.total,
            joined_at: row.joined_at,
            until: row.until,
            slots: row.slots,
        };
        Ok(Self {
            relay: relay.try_into()?,
            process: row.process.into(),
            sink: row.sink,
            published,
            until: row.until.into(),
        })
    }
}
