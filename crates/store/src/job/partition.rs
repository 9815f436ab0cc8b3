//! Partitions of a step: how they begin, which process runs them, how they end.
//!
//! A partition is a step execution that any process with the job may run, or only one process. The process that runs it
//! holds the lease `partition/<step execution id>`, so the partition of a dead process is free again once its leases
//! are. It is open until it ends, or its execution does.

use super::columns;
use super::record::{STEP, StoredContext, exit};
use super::step::{StepEnd, StepRequest};
use crate::error::{Result, StoreError};
use crate::lease::{Granted, freed_topic};
use crate::statement::{Stored, stored};
use crate::tx::Jobs;
use std::collections::HashMap;
use tidemill_domain::job::partition::{self, KnownPartition, PartitionRefusal};
use tidemill_domain::job::step::{EXECUTED_KEY, LastStep, RESTART_KEY, StepDecision};
use tidemill_domain::job::{
    BatchStatus, Counters, ExecutionContext, ExecutionId, ExitStatus, StepExecutionId,
};
use tidemill_domain::lease::LeaseKey;
use tidemill_domain::process::ProcessId;

pub const PARTITION_LEASE_KIND: &str = "partition";

/// Rows per statement: enough that round trips do not matter, few enough for any database.
const BATCH: usize = 5_000;

/// Wake-up topic: a partition of this step has ended.
pub fn partition_ended_topic(manager: StepExecutionId) -> String {
    format!("partition_ended:{manager}")
}

pub fn partition_lease_key(partition: StepExecutionId) -> LeaseKey {
    LeaseKey::new(PARTITION_LEASE_KIND, &partition.to_string()).expect("a number is the name of a lease")
}

#[derive(Clone, Copy, Debug)]
pub struct PartitionRequest<'a> {
    /// The worker step: its name and rules, and the execution with its lease.
    pub worker: StepRequest<'a>,
    pub job: &'a str,
    /// The run of the step that is divided.
    pub manager: StepExecutionId,
    /// Keys, and the initial context of each partition.
    pub partitions: &'a [(String, ExecutionContext)],
    /// Whether a restart adds no partitions to those of the first run.
    pub is_fixed: bool,
    /// The only process that may run them; `None`: any process with the job.
    pub only: Option<ProcessId>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum PartitionStart {
    /// The chains of runs that count: see [`Jobs::partition_totals`](crate::tx::Jobs::partition_totals).
    Started(Vec<i64>),
    Refused(PartitionRefusal),
    /// The execution is no longer ours: roll back.
    Fenced,
}

/// A worker step that this process can run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KnownWorker<'a> {
    pub job: &'a str,
    /// Only executions with this fingerprint match.
    pub fingerprint: Option<&'a str>,
    pub step: &'a str,
}

#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    pub by: ProcessId,
    pub known: &'a [KnownWorker<'a>],
    pub manager: Option<StepExecutionId>,
    pub limit: u32,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Claimed {
    pub id: StepExecutionId,
    pub execution: ExecutionId,
    pub job: String,
    pub worker: String,
    pub name: String,
    pub counters: Counters,
    /// A context that cannot be parsed must not block other partitions.
    pub context: StoredContext,
    pub lease: LeaseKey,
    pub granted: Granted,
}

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct PartitionOutcome in STEP |row| {
        pub status: BatchStatus,
        /// Their exit code, with the message of the first.
        pub exit: ExitStatus => exit(row)?,
        pub count: u64 = "partitions",
        pub first: String = "step_name",
    }

    /// The last run of a partition in its instance.
    #[derive(Debug)]
    pub(crate) struct LastPartitionRun in STEP {
        step_execution_id: i64,
        job_execution_id: i64,
        step_name: String,
        status: BatchStatus,
        /// The first run of its chain of restarts.
        chain_id: i64,
        starts: u64,
    }
}

crate::statement::row! {
    /// A partition that may be free.
    pub(crate) struct ClaimRow {
        step_execution_id: i64,
        job_execution_id: i64,
        job_name: String,
        worker: String,
    }
}

stored! {
    pub(crate) struct BegunPartition in STEP |row| {
        id: i64 = "step_execution_id",
        name: String = "step_name",
        counters: Counters => Stored::from_columns(row)?,
    }
}

impl Jobs<'_> {
    /// Divides a step: decides which partitions run, and inserts them. Idempotent, so repeat it after a lost answer.
    #[crate::boxed]
    pub async fn start_partitions(&mut self, request: &PartitionRequest<'_>) -> Result<PartitionStart> {
        let worker = &request.worker;
        if !self.leases().confirm(worker.lease, worker.fence).await? {
            return Ok(PartitionStart::Fenced);
        }
        let made = self.partition_of_manager(request.manager).await?;
        let mut known = self.partition_known(worker.instance, &partition::name(worker.step, "")).await?;
        // Rows of this very run, inserted before its answer was lost, are not an earlier run.
        known.retain(|row| made.is_empty() || row.job_execution_id != worker.execution.get());
        let known: HashMap<&str, &LastPartitionRun> =
            known.iter().map(|row| (row.step_name[worker.step.len() + 1..].as_ref(), row)).collect();
        let keys: Vec<&str> = request.partitions.iter().map(|(key, _)| key.as_str()).collect();
        let before = before(&known, worker);
        let keys = partition::kept(&keys, &before, request.is_fixed);
        let planned = match partition::plan(worker.step, &keys, &before, worker.rules) {
            Ok(planned) => planned,
            Err(refusal) => return Ok(PartitionStart::Refused(refusal)),
        };
        let mut chains = Vec::with_capacity(planned.len());
        let mut starting = Vec::with_capacity(planned.len());
        for planned in &planned {
            let key = planned.key.as_str();
            let last = known.get(key).copied();
            match (planned.decision, last) {
                (StepDecision::SkipCompleted | StepDecision::SkipAbandoned, Some(last)) => {
                    chains.push(last.chain_id);
                }
                (StepDecision::Resume, Some(last)) => starting.push((key, Some(last))),
                (_, _) => starting.push((key, None)),
            }
        }
        if made.is_empty() {
            for batch in starting.chunks(BATCH) {
                chains.extend(self.insert_partitions(request, batch).await?);
            }
            self.wake(&freed_topic(PARTITION_LEASE_KIND));
        } else {
            chains.extend(made);
        }
        Ok(PartitionStart::Started(chains))
    }

    /// Each begins where an earlier run ended, or with the partitioner's context. Returns the chain of each.
    async fn insert_partitions(
        &mut self,
        request: &PartitionRequest<'_>,
        starting: &[(&str, Option<&LastPartitionRun>)],
    ) -> Result<Vec<i64>> {
        let worker = &request.worker;
        let fresh: HashMap<&str, &ExecutionContext> =
            request.partitions.iter().map(|(key, context)| (key.as_str(), context)).collect();
        let resumed: Vec<i64> =
            starting.iter().filter_map(|(_, last)| last.map(|last| last.step_execution_id)).collect();
        let saved: HashMap<i64, String> = self.partition_contexts(&resumed).await?.into_iter().collect();
        let names: Vec<String> = starting.iter().map(|(key, _)| partition::name(worker.step, key)).collect();
        let now = self.now().await?.into();
        let ids: HashMap<String, i64> = self
            .partition_insert_steps(worker.execution, &names, now)
            .await?
            .into_iter()
            .map(|(id, name)| (name, id))
            .collect();
        let mut texts = Vec::with_capacity(starting.len());
        let mut rows = Vec::with_capacity(starting.len());
        for ((key, last), name) in starting.iter().zip(&names) {
            let id = *ids.get(name).ok_or(StoreError::Failed(sqlx::Error::RowNotFound))?;
            let mut context = match last {
                Some(last) => {
                    let saved = saved.get(&last.step_execution_id).map(String::as_str);
                    columns::read_step_context(saved, name, name)?
                }
                None => fresh.get(key).map(|context| (*context).clone()).unwrap_or_default(),
            };
            context.remove(EXECUTED_KEY);
            context.merge(worker.seed);
            if last.is_some() {
                context.put(RESTART_KEY, true);
            }
            texts.push((id, columns::context_text(&context, name)?));
            rows.push((id, last.map_or(id, |last| last.chain_id)));
        }
        self.partition_insert_contexts(&texts).await?;
        self.partition_insert(request, &rows).await?;
        Ok(rows.into_iter().map(|(_, chain)| chain).collect())
    }

    /// Takes at most as many free partitions as requested.
    #[crate::boxed]
    pub async fn claim_partitions(&mut self, claim: &Claim<'_>) -> Result<Vec<Claimed>> {
        let found = self.partition_lock_open(claim).await?;
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let key_of = |step: i64| partition_lease_key(StepExecutionId::new(step));
        let keys: Vec<LeaseKey> = found.iter().map(|row| key_of(row.step_execution_id)).collect();
        let mut granted: HashMap<LeaseKey, Granted> =
            self.leases().acquire_free(&keys, claim.by).await?.into_iter().collect();
        let taken = |step: i64| granted.contains_key(&key_of(step));
        let ids: Vec<i64> = found.iter().map(|row| row.step_execution_id).filter(|id| taken(*id)).collect();
        self.partition_save_owner(&ids, claim.by).await?;
        let now = self.now().await?.into();
        let begun = self.partition_begin(&ids, now).await?;
        let steps: HashMap<i64, _> = begun.into_iter().map(|step| (step.id, step)).collect();
        let mut contexts: HashMap<i64, String> = self.partition_contexts(&ids).await?.into_iter().collect();
        let mut claimed = Vec::with_capacity(ids.len());
        for row in found {
            let lease = key_of(row.step_execution_id);
            let (Some(granted), Some(step)) = (granted.remove(&lease), steps.get(&row.step_execution_id))
            else {
                continue;
            };
            let context = contexts.remove(&row.step_execution_id).map(StoredContext::from);
            claimed.push(Claimed {
                id: StepExecutionId::new(row.step_execution_id),
                execution: ExecutionId::new(row.job_execution_id),
                job: row.job_name,
                worker: row.worker,
                name: step.name.clone(),
                counters: step.counters,
                context: context.unwrap_or_else(|| StoredContext::Readable(ExecutionContext::new())),
                lease,
                granted,
            });
        }
        Ok(claimed)
    }

    /// Records how a partition ended, and releases its lease. False if it is no longer ours: roll back.
    #[crate::boxed]
    pub async fn end_partition(&mut self, end: &StepEnd<'_>) -> Result<bool> {
        // The partition before its lease: ending the whole execution locks in this order, too.
        let Some(manager) = self.partition_close(end.id).await? else { return Ok(false) };
        if !self.end_step(end).await? {
            return Ok(false);
        }
        self.wake(&partition_ended_topic(StepExecutionId::new(manager)));
        Ok(self.lease_forget(end.lease, end.fence).await? == 1)
    }

    /// Ends the free partitions of this step as stopped; a restart runs them. False if the execution is no longer ours:
    /// roll back.
    #[crate::boxed]
    pub async fn stop_free_partitions(
        &mut self,
        manager: StepExecutionId,
        worker: &StepRequest<'_>,
    ) -> Result<bool> {
        if !self.leases().confirm(worker.lease, worker.fence).await? {
            return Ok(false);
        }
        let open = self.partition_lock_of_manager(manager).await?;
        let exit = ExitStatus::new(ExitStatus::STOPPED).describe("stopped before somebody could run it");
        let now = self.now().await?.into();
        let stopped = self.partition_close_free(&open).await?;
        self.partition_stop(&stopped, &columns::exit(&exit).0, now).await?;
        for batch in stopped.chunks(BATCH) {
            self.partition_forget_leases(batch).await?;
        }
        Ok(true)
    }

    /// The sums over all runs of these chains, earlier executions included.
    pub async fn partition_totals(&mut self, chains: &[i64]) -> Result<Counters> {
        let mut totals = Counters::default();
        for batch in chains.chunks(BATCH) {
            totals += self.partition_sum(batch).await?;
        }
        Ok(totals)
    }

    /// Takes the partitions of an ended execution from the processes that run them.
    pub(super) async fn close_partitions(&mut self, execution: ExecutionId) -> Result<()> {
        let closed = self.partition_close_all(execution).await?;
        for batch in closed.chunks(BATCH) {
            self.partition_forget_leases(batch).await?;
        }
        Ok(())
    }
}

fn before(known: &HashMap<&str, &LastPartitionRun>, worker: &StepRequest<'_>) -> Vec<KnownPartition> {
    let partition = |(key, row): (&&str, &&LastPartitionRun)| KnownPartition {
        key: (*key).to_owned(),
        last: LastStep {
            status: row.status,
            is_of_this_execution: row.job_execution_id == worker.execution.get(),
        },
        starts: row.starts,
    };
    let mut before: Vec<KnownPartition> = known.iter().map(partition).collect();
    before.sort_by(|a, b| a.key.cmp(&b.key));
    before
}
