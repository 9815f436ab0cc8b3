//! Statements on the inbox.

use super::{Answer, Connection, Tx};
use crate::codec::DbTime;
use crate::{postgres, sqlite};
use tidemill_domain::inbox::Message;

impl Tx {
    pub(crate) async fn inbox_insert(&mut self, message: Message<'_>, now: Option<DbTime>) -> Answer<bool> {
        on_either!(self, inbox::insert(message, now))
    }

    pub(crate) async fn inbox_delete_old(&mut self, before: DbTime, limit: i64) -> Answer<u64> {
        on_either!(self, inbox::delete_old(before, limit))
    }
}
