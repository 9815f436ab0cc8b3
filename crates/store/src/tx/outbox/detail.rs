//! Statements on what people see of relays.

use crate::codec::DbTime;
use crate::row::outbox::detail::RelayDetailRow;
use crate::tx::{Answer, Connection, Tx};
use crate::{postgres, sqlite};

impl Tx {
    pub(crate) async fn outbox_relay_details(&mut self, now: DbTime) -> Answer<Vec<RelayDetailRow>> {
        on_either!(self, outbox::detail::relays(now))
    }
}
