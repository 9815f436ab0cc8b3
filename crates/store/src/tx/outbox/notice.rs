//! Statements on the trigger that wakes relays.

use crate::tx::{Answer, Connection, Tx};
use crate::{postgres, sqlite};

impl Tx {
    pub(crate) async fn outbox_notice_is_on(&mut self) -> Answer<Option<bool>> {
        on_either!(self, outbox::notice::is_on())
    }

    pub(crate) async fn outbox_notice_create(&mut self) -> Answer<()> {
        on_either!(self, outbox::notice::create())
    }

    pub(crate) async fn outbox_notice_drop(&mut self) -> Answer<()> {
        on_either!(self, outbox::notice::drop())
    }
}
