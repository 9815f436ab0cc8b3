//! Statements that measure the outbox.

use crate::codec::DbTime;
use crate::row::outbox::lag::{ExceptedRow, UnreadRow};
use crate::row::outbox::place::PlaceColumns;
use crate::tx::{Answer, Connection, Tx};
use crate::{postgres, sqlite};

impl Tx {
    pub(crate) async fn outbox_unread(
        &mut self,
        places: &PlaceColumns,
        limit: i64,
    ) -> Answer<Vec<UnreadRow>> {
        on_either!(self, outbox::lag::unread(places, limit))
    }

    pub(crate) async fn outbox_excepted_rows(&mut self, limit: i64) -> Answer<Vec<ExceptedRow>> {
        on_either!(self, outbox::lag::excepted(limit))
    }

    pub(crate) async fn outbox_unowned(&mut self, now: DbTime) -> Answer<i64> {
        on_either!(self, outbox::lag::unowned(now))
    }

    pub(crate) async fn outbox_statistics(&mut self) -> Answer<Option<String>> {
        on_either!(self, outbox::lag::statistics())
    }

    pub(crate) async fn outbox_wal(&mut self, view: &str, kept_since: DbTime) -> Answer<Option<(i64, i64)>> {
        on_either!(self, outbox::lag::wal(view, kept_since))
    }
}
