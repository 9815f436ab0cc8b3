//! Statements that forget events and relays.

use crate::codec::DbTime;
use crate::row::outbox::place::PlaceColumns;
use crate::tx::{Answer, Connection, Tx};
use crate::{postgres, sqlite};
use tidemill_domain::outbox::partition::Range;

impl Tx {
    pub(crate) async fn outbox_partition_newest(&mut self, range: Range) -> Answer<Option<DbTime>> {
        on_either!(self, outbox::retention::newest(range))
    }

    pub(crate) async fn outbox_is_excepted(&mut self, range: Range) -> Answer<bool> {
        on_either!(self, outbox::retention::is_excepted(range))
    }

    pub(crate) async fn outbox_passed(
        &mut self,
        range: Range,
        places: &PlaceColumns,
        before: DbTime,
    ) -> Answer<Option<String>> {
        on_either!(self, outbox::retention::passed(range, places, before))
    }

    pub(crate) async fn outbox_lock_alone(&mut self) -> Answer<()> {
        on_either!(self, outbox::retention::lock_alone())
    }

    pub(crate) async fn outbox_is_written_since(
        &mut self,
        range: Range,
        mark: &str,
        floor: i64,
    ) -> Answer<bool> {
        on_either!(self, outbox::retention::is_written_since(range, mark, floor))
    }

    pub(crate) async fn outbox_partition_drop(&mut self, range: Range) -> Answer<()> {
        on_either!(self, outbox::retention::drop(range))
    }

    /// How many went, and behind which id to look next, if there may be more.
    pub(crate) async fn outbox_delete_passed(
        &mut self,
        places: &PlaceColumns,
        before: DbTime,
        after: i64,
        limit: i64,
    ) -> Answer<(u64, Option<i64>)> {
        on_either!(self, outbox::retention::delete_passed(places, before, after, limit))
    }

    pub(crate) async fn outbox_delete_relays(&mut self, before: DbTime, limit: i64) -> Answer<u64> {
        on_either!(self, outbox::retention::delete_relays(before, limit))
    }
}
