//! Retention: deletes instances with everything that refers to them, a share at a time.
//!
//! A purge walks through the instances of one job from the oldest on, and each share is one transaction. It locks its
//! instances before it reads them: a launch of one of them either has committed and is seen, or waits, finds the
//! instance gone, and creates a new one. Instances that others have locked are left for the next time.

use crate::codec::DbStamp;
use crate::error::Result;
use crate::statement::{column, statements};
use crate::tx::Jobs;
use std::collections::{BTreeMap, HashMap, HashSet};
use tidemill_domain::job::retention::{self, InstanceFacts, Kept, Retention};
use tidemill_domain::job::{BatchStatus, ExecutionId};
use tidemill_domain::time::Timestamp;

/// A share ends at the instance with which it reaches this many executions.
const EXECUTIONS_MAX: u64 = 5000;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PurgeWalk {
    job: String,
    retention: Retention,
    /// Executions that ended after this are too young.
    cutoff: Option<Timestamp>,
    /// The newest instance that may go; newer ones are kept by count.
    up_to: i64,
    /// The last instance processed.
    after: i64,
}

impl PurgeWalk {
    pub fn job(&self) -> &str {
        &self.job
    }

    /// Instances are numbered by age: after one that is too young, all are.
    fn is_all_too_young(&self, facts: &Facts) -> bool {
        self.cutoff.zip(facts.oldest).is_some_and(|(cutoff, oldest)| oldest >= cutoff)
    }

    /// Continues after a committed share; false if that was the last one.
    pub fn go_on(&mut self, share: &PurgeShare) -> bool {
        self.after = share.after;
        !share.is_last
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Removed {
    pub instances: u64,
    pub executions: u64,
    pub steps: u64,
}

impl Removed {
    pub fn add(&mut self, other: Self) {
        self.instances += other.instances;
        self.executions += other.executions;
        self.steps += other.steps;
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PurgeShare {
    pub removed: Removed,
    /// How many instances stay, and why; without those that the walk never reads.
    pub kept: BTreeMap<Kept, u64>,
    after: i64,
    is_last: bool,
}

crate::statement::row! {
    /// The executions of an instance with the same status.
    pub(crate) struct RunsRow {
        job_instance_id: i64,
        status: Option<String>,
        earliest: i64,
        latest: i64,
        executions: i64,
    }
}

struct Facts {
    statuses: HashMap<i64, Vec<BatchStatus>>,
    executions: HashMap<i64, u64>,
    last: HashMap<i64, (BatchStatus, Timestamp)>,
    restart_due: HashSet<i64>,
    held: HashSet<i64>,
    outer: HashMap<i64, Vec<BatchStatus>>,
    /// First launch of the oldest one.
    oldest: Option<Timestamp>,
}

impl Facts {
    fn of(&self, instance: i64, up_to: i64) -> InstanceFacts<'_> {
        let none: &[BatchStatus] = &[];
        InstanceFacts {
            statuses: self.statuses.get(&instance).map_or(none, Vec::as_slice),
            last: self.last.get(&instance).copied(),
            is_held: self.held.contains(&instance),
            is_restart_due: self.restart_due.contains(&instance),
            outer: self.outer.get(&instance).map_or(none, Vec::as_slice),
            is_among_newest: instance > up_to,
        }
    }
}

impl Jobs<'_> {
    /// Which of these executions exist.
    #[crate::boxed]
    pub async fn existing(&mut self, executions: &[ExecutionId]) -> Result<HashSet<ExecutionId>> {
        let ids: Vec<i64> = executions.iter().map(|id| id.get()).collect();
        let rows = self.job_purge_times(&ids).await?;
        Ok(rows.into_iter().map(|(id, _, _)| ExecutionId::new(id)).collect())
    }

    #[crate::boxed]
    pub async fn begin_purge(&mut self, job: &str, retention: &Retention) -> Result<PurgeWalk> {
        let up_to = match retention.keep {
            // With fewer instances than are kept, none may go.
            Some(keep) => self.job_purge_newest_beyond(job, keep).await?.unwrap_or(0),
            None => i64::MAX,
        };
        let cutoff = retention.cutoff(self.now().await?);
        Ok(PurgeWalk { job: job.to_owned(), retention: *retention, cutoff, up_to, after: 0 })
    }

    /// Deletes the ones that may go among the next `limit` instances.
    pub async fn purge_share(&mut self, walk: &PurgeWalk, limit: u32) -> Result<PurgeShare> {
        let walked = self.walk(walk, limit).await?;
        let locked = self.job_purge_lock(&walked).await?;
        let (mut share, going) = self.decide_share(walk, limit, &walked, &locked).await?;
        share.removed = self.remove_instances(&going).await?;
        Ok(share)
    }

    /// [`purge_share`](Self::purge_share) that only counts, without locks.
    #[crate::boxed]
    pub async fn count_share(&mut self, walk: &PurgeWalk, limit: u32) -> Result<PurgeShare> {
        let walked = self.walk(walk, limit).await?;
        let (mut share, going) = self.decide_share(walk, limit, &walked, &walked).await?;
        let executions = self.job_purge_executions(&going).await?;
        let steps = self.job_purge_steps(&executions).await?;
        share.removed = removed(&going, &executions, &steps);
        Ok(share)
    }

    async fn walk(&mut self, walk: &PurgeWalk, limit: u32) -> Result<Vec<i64>> {
        Ok(self.job_purge_walk(&walk.job, walk.after, walk.up_to, limit).await?)
    }

    async fn decide_share(
        &mut self,
        walk: &PurgeWalk,
        limit: u32,
        walked: &[i64],
        at_hand: &[i64],
    ) -> Result<(PurgeShare, Vec<i64>)> {
        let facts = self.instance_facts(at_hand).await?;
        let now = self.now().await?;
        let mut share = PurgeShare {
            removed: Removed::default(),
            kept: BTreeMap::new(),
            after: walked.last().copied().unwrap_or(walk.after),
            is_last: walked.len() < limit as usize || walk.is_all_too_young(&facts),
        };
        let (mut going, mut executions) = (Vec::new(), 0);
        for instance in at_hand.iter().copied() {
            match retention::decide(&walk.retention, &facts.of(instance, walk.up_to), now) {
                Ok(()) => {
                    going.push(instance);
                    executions += facts.executions.get(&instance).copied().unwrap_or_default();
                }
                Err(kept) => *share.kept.entry(kept).or_default() += 1,
            }
            if executions >= EXECUTIONS_MAX && at_hand.last() != Some(&instance) {
                (share.after, share.is_last) = (instance, false);
                break;
            }
        }
        Ok((share, going))
    }

    async fn instance_facts(&mut self, instances: &[i64]) -> Result<Facts> {
        let runs = self.job_purge_runs(instances).await?;
        let latest: HashMap<i64, &RunsRow> = runs.iter().map(|row| (row.job_instance_id, row)).collect();
        let oldest = runs.first().map(|first| {
            let of_first = runs.iter().take_while(|row| row.job_instance_id == first.job_instance_id);
            of_first.map(|row| row.earliest).min().unwrap_or(first.earliest)
        });
        let wanted: Vec<i64> = latest.values().map(|row| row.latest).chain(oldest).collect();
        let times: HashMap<i64, (Timestamp, Timestamp)> = self
            .job_purge_times(&wanted)
            .await?
            .into_iter()
            .map(|(id, made, over)| (id, (made.into(), over.into())))
            .collect();
        let mut facts = Facts {
            statuses: HashMap::new(),
            executions: HashMap::new(),
            last: HashMap::new(),
            restart_due: HashSet::new(),
            held: HashSet::new(),
            outer: HashMap::new(),
            oldest: oldest.and_then(|id| times.get(&id)).map(|(made, _)| *made),
        };
        for row in &runs {
            facts.statuses.entry(row.job_instance_id).or_default().push(known(row.status.as_deref()));
            *facts.executions.entry(row.job_instance_id).or_default() += row.executions.unsigned_abs();
        }
        for (instance, row) in latest {
            if let Some((_, over_at)) = times.get(&row.latest) {
                facts.last.insert(instance, (known(row.status.as_deref()), *over_at));
            }
        }
        for (instance, is_restart_due, is_held) in self.job_purge_bound(instances).await? {
            facts.restart_due.extend(is_restart_due.then_some(instance));
            facts.held.extend(is_held.then_some(instance));
        }
        for (instance, status) in self.job_purge_outers(instances).await? {
            facts.outer.entry(instance).or_default().push(known(status.as_deref()));
        }
        Ok(facts)
    }

    /// Children first.
    async fn remove_instances(&mut self, instances: &[i64]) -> Result<Removed> {
        if instances.is_empty() {
            return Ok(Removed::default());
        }
        let executions = self.job_purge_executions(instances).await?;
        let steps = self.job_purge_steps(&executions).await?;
        self.job_purge_delete_leases(&executions).await?;
        self.job_purge_delete_rejects(&steps).await?;
        self.job_purge_delete_step_contexts(&steps).await?;
        self.job_purge_delete_step_notes(&steps).await?;
        self.job_purge_delete_steps(&steps).await?;
        self.job_purge_delete_parameters(&executions).await?;
        self.job_purge_delete_contexts(&executions).await?;
        self.job_purge_delete_notes(&executions).await?;
        self.job_purge_delete_executions(&executions).await?;
        self.job_purge_delete_instances(instances).await?;
        Ok(removed(instances, &executions, &steps))
    }
}

/// Never delete an execution whose status is unknown.
fn known(status: Option<&str>) -> BatchStatus {
    status.and_then(|word| word.parse().ok()).unwrap_or(BatchStatus::Unknown)
}

fn removed(instances: &[i64], executions: &[i64], steps: &[i64]) -> Removed {
    let count = |rows: &[i64]| rows.len() as u64;
    Removed { instances: count(instances), executions: count(executions), steps: count(steps) }
}

statements! {
    /// The next job by name.
    pub fn Jobs::next(after: Option<&str>) -> Option<String> {
        bind(after.unwrap_or_default())
        "select job_name from batch_job_instance where job_name > $1 order by job_name limit 1"
    }

    /// The newest instance of a job that is not among the newest `keep`.
    fn job_purge_newest_beyond(job: &str, keep: u32) -> Option<i64> {
        "select job_instance_id from batch_job_instance where job_name = $1 order by job_instance_id desc
         limit 1 offset $2"
    }

    /// Instances of a job in the range, the oldest first. Needs the index on the instances of a job.
    fn job_purge_walk(job: &str, after: i64, up_to: i64, limit: u32) -> Vec<i64> {
        "select job_instance_id from batch_job_instance
         where job_name = $1 and job_instance_id > $2 and job_instance_id <= $3
         order by job_instance_id limit $4"
    }

    /// Locks instances, so that launches wait; skips locked ones. Read dependent rows after this, not before.
    fn job_purge_lock(instances: &[i64]) -> Vec<i64> {
        "select job_instance_id from batch_job_instance where job_instance_id {in $1}
         order by job_instance_id {for update skip locked}"
    }

    /// The executions of instances by status. Needs the index on the executions of an instance.
    fn job_purge_runs(instances: &[i64]) -> Vec<RunsRow> {
        "select job_instance_id as job_instance_id, status as status, min(job_execution_id) as earliest,
                max(job_execution_id) as latest, count(*) as executions
         from batch_job_execution where job_instance_id {in $1}
         group by job_instance_id, status
         order by job_instance_id, latest"
    }

    /// When executions were created, and when they ended or last changed.
    fn job_purge_times(executions: &[i64]) -> Vec<(i64, DbStamp, DbStamp)> {
        "select job_execution_id, create_time, coalesce(end_time, last_updated, create_time)
         from batch_job_execution where job_execution_id {in $1}"
    }

    /// The instances with a due restart, and those with an execution held by a process.
    fn job_purge_bound(instances: &[i64]) -> Vec<(i64, bool, bool)> {
        "select e.job_instance_id, count(*) filter (where n.restart_due {= 1}) > 0, count(l.name) > 0
         from batch_job_execution e
         left join tidemill_job_execution n on n.job_execution_id = e.job_execution_id
         left join tidemill_lease l on l.kind = 'job'
             and l.name = cast(e.job_execution_id as text)
             and l.owner is not null
         where e.job_instance_id {in $1} and (n.restart_due {= 1} or l.name is not null)
         group by e.job_instance_id"
    }

    /// For instances that ran as a step of another job: the status of the last execution of that job's instance.
    fn job_purge_outers(instances: &[i64]) -> Vec<(i64, Option<String>)> {
        "select distinct e.job_instance_id, last.status from batch_job_execution e
         join tidemill_job_execution n on n.job_execution_id = e.job_execution_id
             and n.outer_execution_id is not null
         join batch_job_execution o on o.job_execution_id = n.outer_execution_id
         join batch_job_execution last on last.job_execution_id = (
             select max(l.job_execution_id)
             from batch_job_execution l
             where l.job_instance_id = o.job_instance_id
         )
         where e.job_instance_id {in $1}"
    }

    fn job_purge_executions(instances: &[i64]) -> Vec<i64> {
        "select job_execution_id from batch_job_execution where job_instance_id {in $1}"
    }

    fn job_purge_steps(executions: &[i64]) -> Vec<i64> {
        "select step_execution_id from batch_step_execution where job_execution_id {in $1}"
    }

    /// Only free ones.
    fn job_purge_delete_leases(executions: &[i64]) -> () {
        bind(column(executions, i64::to_string))
        "delete from tidemill_lease where kind = 'job' and name {in $1} and owner is null"
    }
}

macro_rules! deletes {
    ($($name:ident: $table:literal by $key:literal;)+) => {
        statements! { $(
            fn $name(ids: &[i64]) -> () {
                concat!("delete from ", $table, " where ", $key, " {in $1}")
            }
        )+ }
    };
}

// Rows after all that refer to them.
deletes! {
    job_purge_delete_rejects: "tidemill_reject" by "step_execution_id";
    job_purge_delete_step_contexts: "batch_step_execution_context" by "step_execution_id";
    job_purge_delete_step_notes: "tidemill_step_execution" by "step_execution_id";
    job_purge_delete_steps: "batch_step_execution" by "step_execution_id";
    job_purge_delete_parameters: "batch_job_execution_params" by "job_execution_id";
    job_purge_delete_contexts: "batch_job_execution_context" by "job_execution_id";
    job_purge_delete_notes: "tidemill_job_execution" by "job_execution_id";
    job_purge_delete_executions: "batch_job_execution" by "job_execution_id";
    job_purge_delete_instances: "batch_job_instance" by "job_instance_id";
}
