//! Statements on the partitions of the outbox.

use crate::row::outbox::partition::PartitionRow;
use crate::tx::{Answer, Connection, Tx};
use crate::{postgres, sqlite};
use tidemill_domain::outbox::partition::Range;

impl Tx {
    pub(crate) async fn outbox_keeper_lock(&mut self) -> Answer<bool> {
        on_either!(self, outbox::partition::lock())
    }

    pub(crate) async fn outbox_hurry(&mut self) -> Answer<()> {
        on_either!(self, outbox::partition::hurry())
    }

    pub(crate) async fn outbox_partition_list(&mut self) -> Answer<Vec<PartitionRow>> {
        on_either!(self, outbox::partition::list())
    }

    pub(crate) async fn outbox_last_id(&mut self) -> Answer<i64> {
        on_either!(self, outbox::partition::last_id())
    }

    pub(crate) async fn outbox_highest_in_default(&mut self) -> Answer<Option<i64>> {
        on_either!(self, outbox::partition::highest_in_default())
    }

    pub(crate) async fn outbox_partition_create(&mut self, range: Range) -> Answer<()> {
        on_either!(self, outbox::partition::create(range))
    }

    pub(crate) async fn outbox_default_count(&mut self, limit: i64) -> Answer<i64> {
        on_either!(self, outbox::partition::default_count(limit))
    }
}
