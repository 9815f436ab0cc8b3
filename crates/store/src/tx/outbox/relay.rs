//! Statements on relays and slots.

use super::{Answer, Connection, Tx, postgres, sqlite};
use crate::codec::{DbId, DbTime};
use crate::outbox::relay::{Looking, RelayFence};
use crate::row::outbox::relay::{FreeSlotRow, JoinRow, LeftRow, LookRow, RelayRow};
use tidemill_domain::outbox::Slot;

impl Tx {
    pub(crate) async fn outbox_relay_insert(&mut self, row: &JoinRow<'_>) -> Answer<()> {
        on_either!(self, outbox::relay::insert(row))
    }

    pub(crate) async fn outbox_relay_list(&mut self) -> Answer<Vec<RelayRow>> {
        on_either!(self, outbox::relay::list())
    }

    pub(crate) async fn outbox_look(
        &mut self,
        looking: &Looking<'_>,
        cursors: Option<&str>,
        now: Option<DbTime>,
    ) -> Answer<LookRow> {
        on_either!(self, outbox::relay::look(looking, cursors, now))
    }

    pub(crate) async fn outbox_relay_position(&mut self, id: DbId) -> Answer<Option<(i64, String)>> {
        on_either!(self, outbox::relay::position(id))
    }

    pub(crate) async fn outbox_relay_acknowledge(
        &mut self,
        fence: RelayFence<'_>,
        cursors: &str,
        published: i64,
        now: Option<DbTime>,
    ) -> Answer<u64> {
        on_either!(self, outbox::relay::acknowledge(fence, cursors, published, now))
    }

    pub(crate) async fn outbox_relay_lock(&mut self, id: DbId) -> Answer<Option<(DbId, String)>> {
        on_either!(self, outbox::relay::lock_one(id))
    }

    pub(crate) async fn outbox_relay_lock_lapsed(&mut self, now: DbTime) -> Answer<Vec<(DbId, String)>> {
        on_either!(self, outbox::relay::lock_lapsed(now))
    }

    pub(crate) async fn outbox_relay_end(&mut self, id: DbId, now: DbTime) -> Answer<()> {
        on_either!(self, outbox::relay::end(id, now))
    }

    pub(crate) async fn outbox_slot_lock_free(&mut self, wanted: &[Slot]) -> Answer<Vec<FreeSlotRow>> {
        on_either!(self, outbox::relay::slot_lock_free(wanted))
    }

    pub(crate) async fn outbox_slot_epochs(&mut self, owner: DbId) -> Answer<Vec<(i16, i64)>> {
        on_either!(self, outbox::relay::slot_epochs(owner))
    }

    pub(crate) async fn outbox_slot_take(&mut self, owner: DbId, slots: &[Slot], now: DbTime) -> Answer<()> {
        on_either!(self, outbox::relay::slot_take(owner, slots, now))
    }

    pub(crate) async fn outbox_slot_leave(&mut self, owner: DbId, left: &[LeftRow]) -> Answer<()> {
        on_either!(self, outbox::relay::slot_leave(owner, left))
    }

    pub(crate) async fn outbox_slot_free(&mut self, owner: DbId) -> Answer<()> {
        on_either!(self, outbox::relay::slot_free(owner))
    }
}
