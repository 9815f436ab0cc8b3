//! Statements that find and remove what may be forgotten of jobs.

use super::{Answer, Connection, Tx};
use crate::codec::DbStamp;
use crate::row::job::RunsRow;
use crate::{postgres, sqlite};

/// Finding.
impl Tx {
    pub(crate) async fn job_purge_next_job(&mut self, after: &str) -> Answer<Option<String>> {
        on_either!(self, job::purge::next_job(after))
    }

    pub(crate) async fn job_purge_newest_beyond(&mut self, job: &str, keep: i64) -> Answer<Option<i64>> {
        on_either!(self, job::purge::newest_beyond(job, keep))
    }

    pub(crate) async fn job_purge_walk(
        &mut self,
        job: &str,
        after: i64,
        up_to: i64,
        limit: i64,
    ) -> Answer<Vec<i64>> {
        on_either!(self, job::purge::walk(job, after, up_to, limit))
    }

    pub(crate) async fn job_purge_lock(&mut self, instances: &[i64]) -> Answer<Vec<i64>> {
        on_either!(self, job::purge::lock(instances))
    }

    pub(crate) async fn job_purge_runs(&mut self, instances: &[i64]) -> Answer<Vec<RunsRow>> {
        on_either!(self, job::purge::runs(instances))
    }

    pub(crate) async fn job_purge_times(
        &mut self,
        executions: &[i64],
    ) -> Answer<Vec<(i64, DbStamp, DbStamp)>> {
        on_either!(self, job::purge::times(executions))
    }

    pub(crate) async fn job_purge_bound(&mut self, instances: &[i64]) -> Answer<Vec<(i64, bool, bool)>> {
        on_either!(self, job::purge::bound(instances))
    }

    pub(crate) async fn job_purge_outers(
        &mut self,
        instances: &[i64],
    ) -> Answer<Vec<(i64, Option<String>, i64)>> {
        on_either!(self, job::purge::outers(instances))
    }

    pub(crate) async fn job_purge_executions(&mut self, instances: &[i64]) -> Answer<Vec<i64>> {
        on_either!(self, job::purge::executions(instances))
    }

    pub(crate) async fn job_purge_steps(&mut self, executions: &[i64]) -> Answer<Vec<i64>> {
        on_either!(self, job::purge::steps(executions))
    }
}

/// Removing; each answers how many rows it was.
impl Tx {
    pub(crate) async fn job_purge_delete_rejects(&mut self, steps: &[i64]) -> Answer<u64> {
        on_either!(self, job::purge::delete_rejects(steps))
    }

    pub(crate) async fn job_purge_delete_step_contexts(&mut self, steps: &[i64]) -> Answer<u64> {
        on_either!(self, job::purge::delete_step_contexts(steps))
    }

    pub(crate) async fn job_purge_delete_step_notes(&mut self, steps: &[i64]) -> Answer<u64> {
        on_either!(self, job::purge::delete_step_notes(steps))
    }

    pub(crate) async fn job_purge_delete_steps(&mut self, steps: &[i64]) -> Answer<u64> {
        on_either!(self, job::purge::delete_steps(steps))
    }

    pub(crate) async fn job_purge_delete_parameters(&mut self, executions: &[i64]) -> Answer<u64> {
        on_either!(self, job::purge::delete_parameters(executions))
    }

    pub(crate) async fn job_purge_delete_contexts(&mut self, executions: &[i64]) -> Answer<u64> {
        on_either!(self, job::purge::delete_contexts(executions))
    }

    pub(crate) async fn job_purge_delete_notes(&mut self, executions: &[i64]) -> Answer<u64> {
        on_either!(self, job::purge::delete_notes(executions))
    }

    pub(crate) async fn job_purge_delete_leases(&mut self, executions: &[i64]) -> Answer<u64> {
        on_either!(self, job::purge::delete_leases(executions))
    }

    pub(crate) async fn job_purge_delete_executions(&mut self, executions: &[i64]) -> Answer<u64> {
        on_either!(self, job::purge::delete_executions(executions))
    }

    pub(crate) async fn job_purge_delete_instances(&mut self, instances: &[i64]) -> Answer<u64> {
        on_either!(self, job::purge::delete_instances(instances))
    }
}
