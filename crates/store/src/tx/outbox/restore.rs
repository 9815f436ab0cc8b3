//! Statements on the server that marks are from, and on what is done when it has become another one.

use crate::codec::DbTime;
use crate::row::outbox::place::PlaceColumns;
use crate::row::outbox::restore::{OutboxRow, ServerRow};
use crate::tx::{Answer, Connection, Tx};
use crate::{postgres, sqlite};

impl Tx {
    pub(crate) async fn outbox_server_row(&mut self) -> Answer<Option<ServerRow>> {
        on_either!(self, outbox::restore::server())
    }

    pub(crate) async fn outbox_row(&mut self) -> Answer<OutboxRow> {
        on_either!(self, outbox::restore::row())
    }

    pub(crate) async fn outbox_lock(&mut self) -> Answer<()> {
        on_either!(self, outbox::restore::lock())
    }

    pub(crate) async fn outbox_lock_writers(&mut self) -> Answer<()> {
        on_either!(self, outbox::restore::lock_writers())
    }

    pub(crate) async fn outbox_record_server(&mut self, server: &ServerRow, now: DbTime) -> Answer<()> {
        on_either!(self, outbox::restore::record_server(server, now))
    }

    pub(crate) async fn outbox_retire_all(&mut self, now: DbTime) -> Answer<u64> {
        on_either!(self, outbox::restore::retire_all(now))
    }

    pub(crate) async fn outbox_except_unread(
        &mut self,
        places: &PlaceColumns,
        now: DbTime,
    ) -> Answer<Vec<(i16, i64, i64)>> {
        on_either!(self, outbox::restore::except_unread(places, now))
    }

    pub(crate) async fn outbox_raise_floor(&mut self, now: DbTime) -> Answer<i64> {
        on_either!(self, outbox::restore::raise_floor(now))
    }

    pub(crate) async fn outbox_raise_numbers(&mut self, floor: i64) -> Answer<()> {
        on_either!(self, outbox::restore::raise_numbers(floor))
    }

    pub(crate) async fn outbox_rest(&mut self, slots: &[i16], places: &[String], seqs: &[i64]) -> Answer<()> {
        on_either!(self, outbox::restore::rest(slots, places, seqs))
    }
}
