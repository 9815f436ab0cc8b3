//! Statements on where slots stand.

use crate::row::outbox::place::{CursorsRow, SlotRow};
use crate::tx::{Answer, Connection, Tx};
use crate::{postgres, sqlite};

impl Tx {
    pub(crate) async fn outbox_slots(&mut self) -> Answer<Vec<SlotRow>> {
        on_either!(self, outbox::place::slots())
    }

    pub(crate) async fn outbox_cursors(&mut self) -> Answer<Vec<CursorsRow>> {
        on_either!(self, outbox::place::cursors())
    }
}
