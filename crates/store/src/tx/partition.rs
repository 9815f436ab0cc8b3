//! Statements on partitions of steps.

use super::{Answer, Connection, CounterColumns, Tx};
use crate::codec::{DbId, DbStamp};
use crate::job::KnownWorker;
use crate::row::job::StepRow;
use crate::row::partition::{ChainRow, ClaimRow, OutcomeRow};
use crate::tx::{ContextColumns, ExitColumns};
use crate::{postgres, sqlite};

impl Tx {
    pub(crate) async fn partition_known(&mut self, instance: i64, prefix: &str) -> Answer<Vec<ChainRow>> {
        on_either!(self, job::partition::known(instance, prefix))
    }

    pub(crate) async fn partition_of_manager(&mut self, manager: i64) -> Answer<Vec<i64>> {
        on_either!(self, job::partition::of_manager(manager))
    }

    pub(crate) async fn partition_insert_steps(
        &mut self,
        execution: i64,
        names: &[String],
        now: DbStamp,
    ) -> Answer<Vec<(i64, String)>> {
        on_either!(self, job::partition::insert_steps(execution, names, now))
    }

    pub(crate) async fn partition_insert_contexts(
        &mut self,
        contexts: &[(i64, ContextColumns<'_>)],
    ) -> Answer<()> {
        on_either!(self, job::partition::insert_contexts(contexts))
    }

    pub(crate) async fn partition_insert(&mut self, rows: &PartitionRows<'_>) -> Answer<()> {
        on_either!(self, job::partition::insert(rows))
    }

    pub(crate) async fn partition_contexts(&mut self, steps: &[i64]) -> Answer<Vec<(i64, String)>> {
        on_either!(self, job::partition::contexts(steps))
    }

    pub(crate) async fn partition_lock_open(&mut self, filter: &ClaimFilterRow<'_>) -> Answer<Vec<ClaimRow>> {
        on_either!(self, job::partition::lock_open(filter))
    }

    pub(crate) async fn partition_save_owner(&mut self, steps: &[i64], owner: DbId) -> Answer<()> {
        on_either!(self, job::partition::save_owner(steps, owner))
    }

    pub(crate) async fn partition_begin(&mut self, steps: &[i64], now: DbStamp) -> Answer<Vec<StepRow>> {
        on_either!(self, job::partition::begin(steps, now))
    }

    pub(crate) async fn partition_close(&mut self, step: i64) -> Answer<Option<i64>> {
        on_either!(self, job::partition::close(step))
    }

    pub(crate) async fn partition_close_all(&mut self, execution: i64) -> Answer<Vec<i64>> {
        on_either!(self, job::partition::close_all(execution))
    }

    pub(crate) async fn partition_lock_of_manager(&mut self, manager: i64) -> Answer<Vec<i64>> {
        on_either!(self, job::partition::lock_of_manager(manager))
    }

    pub(crate) async fn partition_stop_free(
        &mut self,
        steps: &[i64],
        exit: &ExitColumns,
        now: DbStamp,
    ) -> Answer<Vec<i64>> {
        on_either!(self, job::partition::stop_free(steps, exit, now))
    }

    pub(crate) async fn partition_forget_leases(&mut self, steps: &[i64]) -> Answer<()> {
        on_either!(self, job::partition::forget_leases(steps))
    }

    pub(crate) async fn partition_count_open(&mut self, manager: i64) -> Answer<i64> {
        on_either!(self, job::partition::count_open(manager))
    }

    pub(crate) async fn partition_outcomes(&mut self, manager: i64) -> Answer<Vec<OutcomeRow>> {
        on_either!(self, job::partition::outcomes(manager))
    }

    pub(crate) async fn partition_sum(&mut self, chains: &[i64]) -> Answer<CounterColumns> {
        on_either!(self, job::partition::sum(chains))
    }
}

/// Partitions to be made: ids and the first run of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartitionRows<'a> {
    pub(crate) manager: i64,
    pub(crate) execution: i64,
    pub(crate) job: &'a str,
    pub(crate) worker: &'a str,
    pub(crate) only_process: Option<DbId>,
    pub(crate) steps: &'a [(i64, i64)],
}

/// Which partitions somebody could run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimFilterRow<'a> {
    pub(crate) known: &'a [KnownWorker<'a>],
    /// Only those of this manager.
    pub(crate) manager: Option<i64>,
    pub(crate) by: DbId,
    pub(crate) limit: i64,
}
