//! Launching: finds or creates the instance, decides whether it may run, and inserts the first rows of a run.

use super::execution::{Sequence, StatusNews};
use super::record::status_of;
use super::{columns, lease_key, object};
use crate::crash_point;
use crate::error::{Result, StoreError};
use crate::lease::Granted;
use crate::statement::{Exists, One, statements};
use crate::tx::Jobs;
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::job::instance::{RUN_ID, job_key};
use tidemill_domain::job::launch::{self, InstanceEnd, InstanceHistory, Launch, LaunchRefusal, LaunchRules};
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::notify::Notify;
use tidemill_domain::job::parameter::ParametersInvalid;
use tidemill_domain::job::{BatchStatus, ExecutionContext, ExecutionId, InstanceId, JobParameters};
use tidemill_domain::lease::{LeaseKey, Term};
use tidemill_domain::outbox::lifecycle_events::ExecutionTransition;
use tidemill_domain::process::ProcessId;

#[derive(Clone, Debug)]
pub struct LaunchRequest<'a> {
    pub job: &'a str,
    pub parameters: &'a JobParameters,
    /// The verdict of the job's rule on the parameters.
    pub parameters_valid: Result<(), ParametersInvalid>,
    /// Whether an instance may run more than once.
    pub is_restartable: bool,
    /// What to do when the process is gone.
    pub on_crash: OnCrash,
    /// The number of automatic restarts that led to this launch.
    pub crash_restarts: u32,
    /// Fingerprint of the job's definition, if it has one.
    pub fingerprint: Option<&'a str>,
    /// Who is notified of the end.
    pub notify: &'a [Notify],
    /// Whether the definition may differ from that of the last execution.
    pub accepts_change: bool,
    pub by: ProcessId,
    pub actor: &'a Actor,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Launched {
    pub instance: InstanceId,
    pub execution: ExecutionId,
    pub lease: LeaseKey,
    /// The lease; every write needs its fence.
    pub granted: Granted,
    /// Copied from the last execution.
    pub context: ExecutionContext,
    /// First run or restart.
    pub launch: Launch,
    pub parameters: JobParameters,
}

/// An instance may have a million executions; these few stand for all.
struct History {
    statuses: Vec<BatchStatus>,
    last: Option<i64>,
    /// The last execution that completed or was abandoned.
    over: Option<(BatchStatus, i64)>,
    last_steps: Vec<(String, BatchStatus)>,
    /// Of the last execution's definition.
    fingerprint: Option<String>,
}

impl History {
    const NONE: Self =
        Self { statuses: Vec::new(), last: None, over: None, last_steps: Vec::new(), fingerprint: None };

    fn decide(&self, request: &LaunchRequest<'_>) -> Result<Launch, LaunchRefusal> {
        let rules = LaunchRules {
            is_restartable: request.is_restartable,
            has_identifying: request.parameters.has_identifying(),
            has_changed: !request.accepts_change && self.is_of_another(request.fingerprint),
        };
        self.decide_by(rules, request.parameters_valid.clone())
    }

    fn decide_by(
        &self,
        rules: LaunchRules,
        valid: Result<(), ParametersInvalid>,
    ) -> Result<Launch, LaunchRefusal> {
        let history = InstanceHistory { executions: &self.statuses, last_steps: &self.last_steps };
        launch::decide(&history, rules, valid)
    }

    /// Whether both definitions are known and differ.
    fn is_of_another(&self, fingerprint: Option<&str>) -> bool {
        self.fingerprint.as_deref().zip(fingerprint).is_some_and(|(before, now)| before != now)
    }
}

impl Jobs<'_> {
    /// Creates an execution and takes its lease, or writes nothing and says why. Launches of one instance are serial.
    #[crate::boxed]
    pub async fn launch(&mut self, request: &LaunchRequest<'_>) -> Result<Result<Launched, LaunchRefusal>> {
        let instance = match self.lock_instance(request).await? {
            Ok(instance) => instance,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let history = self.history(instance).await?;
        let launch = match history.decide(request) {
            Ok(launch) => launch,
            Err(refusal) => return Ok(Err(self.with_end(refusal, &history).await?)),
        };
        let context = match history.last {
            Some(last) => {
                let text = self.job_context_of_job(last).await?;
                columns::read_context(text.as_deref(), &format!("execution {last}"))?
            }
            None => ExecutionContext::new(),
        };
        let now = self.now().await?;
        // A program that ignores our locks may have been quicker; the index notices.
        self.job_draw_id(Sequence::Execution).await?;
        let Some(id) = self.job_execution_insert(instance, now.into()).await? else {
            return Ok(Err(LaunchRefusal::AlreadyRunning));
        };
        self.insert_parts(id, request, &context).await?;
        self.job_note_clear_restart_due(instance).await?;
        let execution = ExecutionId::new(id);
        let lease = lease_key(execution);
        let granted = self.leases().acquire(&lease, request.by, Term::Process).await?;
        let granted = granted.map_err(StoreError::LeaseRefused)?;
        let entry = AuditEntry::new(request.actor.clone(), "execution.launch", &object(execution))
            .because(&format!("job {}", request.job));
        self.audit_insert(&entry, now).await?;
        let (what, status) = (ExecutionTransition::Launched, BatchStatus::Starting);
        self.publish_execution_event(execution, StatusNews { what, status, exit_code: None, at: now })
            .await?;
        crash_point!("job_launched");
        let parameters = request.parameters.clone();
        let instance = InstanceId::new(instance);
        Ok(Ok(Launched { instance, execution, lease, granted, context, launch, parameters }))
    }

    /// What a launch would do now, with a definition of this fingerprint; changes nothing.
    #[crate::boxed]
    pub async fn preview_launch(
        &mut self,
        job: &str,
        parameters: &JobParameters,
        fingerprint: Option<&str>,
        rules: LaunchRules,
        valid: Result<(), ParametersInvalid>,
    ) -> Result<Result<Launch, LaunchRefusal>> {
        let history = match self.job_instance_find(job, &job_key(parameters)).await? {
            Some(instance) => self.history(instance).await?,
            None => History::NONE,
        };
        let has_changed = history.is_of_another(fingerprint);
        match history.decide_by(LaunchRules { has_changed, ..rules }, valid) {
            Ok(launch) => Ok(Ok(launch)),
            Err(refusal) => Ok(Err(self.with_end(refusal, &history).await?)),
        }
    }

    /// Adds when and how the instance ended.
    async fn with_end(&mut self, refusal: LaunchRefusal, history: &History) -> Result<LaunchRefusal> {
        let (LaunchRefusal::AlreadyComplete(_), Some((status, id))) = (&refusal, history.over) else {
            return Ok(refusal);
        };
        let times = self.job_purge_times(&[id]).await?;
        let end = times.into_iter().next().map(|(id, _, at)| InstanceEnd {
            execution: ExecutionId::new(id),
            status,
            at: at.into(),
        });
        Ok(LaunchRefusal::AlreadyComplete(end))
    }

    /// Creates the instance if needed, unless the launch would be refused even without any history.
    async fn lock_instance(&mut self, request: &LaunchRequest<'_>) -> Result<Result<i64, LaunchRefusal>> {
        let key = job_key(request.parameters);
        if let Some(instance) = self.job_instance_lock(request.job, &key).await? {
            return Ok(Ok(instance));
        }
        if let Err(refusal) = History::NONE.decide(request) {
            return Ok(Err(refusal));
        }
        self.job_draw_id(Sequence::Instance).await?;
        Ok(Ok(self.job_instance_insert(request.job, &key).await?))
    }

    async fn history(&mut self, instance: i64) -> Result<History> {
        let rows = self.job_instance_statuses(instance).await?;
        let mut statuses = Vec::with_capacity(rows.len());
        for (status, latest) in &rows {
            statuses.push(status_of(status.as_deref(), "batch_job_execution", *latest)?);
        }
        let last = rows.last().map(|(_, latest)| *latest);
        let is_over =
            |status: &BatchStatus| matches!(status, BatchStatus::Completed | BatchStatus::Abandoned);
        let over = statuses.iter().zip(&rows).rfind(|(status, _)| is_over(status));
        let over = over.map(|(status, (_, latest))| (*status, *latest));
        let (mut last_steps, mut fingerprint) = (Vec::new(), None);
        if let Some(last) = last {
            fingerprint = self.job_note_find(last).await?.and_then(|note| note.fingerprint);
            for (step, status, id) in self.job_instance_step_statuses(last).await? {
                last_steps.push((step, status_of(status.as_deref(), "batch_step_execution", id)?));
            }
        }
        Ok(History { statuses, last, over, last_steps, fingerprint })
    }

    async fn insert_parts(
        &mut self,
        id: i64,
        request: &LaunchRequest<'_>,
        context: &ExecutionContext,
    ) -> Result<()> {
        let parameters: Vec<_> = request.parameters.iter().collect();
        if !parameters.is_empty() {
            self.job_parameter_insert(id, &parameters).await?;
        }
        let text = columns::context_text(context, &format!("execution {id}"))?;
        self.job_context_insert_of_job(id, &text).await?;
        Ok(self.job_note_insert(id, request).await?)
    }
}

macro_rules! run_ids {
    ($number:literal) => {
        concat!(
            "select max(",
            $number,
            ") from batch_job_instance i
             join batch_job_execution e on e.job_instance_id = i.job_instance_id
             join batch_job_execution_params p on p.job_execution_id = e.job_execution_id
             where i.job_name = $1
               and p.parameter_name = $2
               and p.parameter_type = 'java.lang.Long'
               and p.identifying = 'Y'"
        )
    };
}

statements! {
    /// Serialises the launches of one instance.
    fn job_instance_lock(job: &str, key: &str) -> Option<i64> {
        "select job_instance_id from batch_job_instance where job_name = $1 and job_key = $2
         {for no key update}"
    }

    fn job_instance_lock_by_id(id: i64) -> () {
        "select job_instance_id from batch_job_instance where job_instance_id = $1 {for no key update}"
    }

    /// Waits for a transaction that inserts or deletes the same one. An existing row is locked by an update that
    /// changes nothing, so that it cannot be deleted before this transaction has read it.
    fn job_instance_insert(job: &str, key: &str) -> One<i64> {
        "insert into batch_job_instance as i (job_instance_id, version, job_name, job_key)
         values ({next batch_job_seq}, 0, $1, $2)
         on conflict (job_name, job_key) do update set version = i.version
         returning job_instance_id"
    }

    /// The executions that a launch has to know, the latest last: those without an end, a final one, and the latest.
    /// Not all are read: without identifying parameters there may be a million.
    fn job_instance_statuses(id: i64) -> Vec<(Option<String>, i64)> {
        "select status, job_execution_id
         from (
             select status, job_execution_id
             from batch_job_execution
             where job_instance_id = $1
               and status in ('STARTING', 'STARTED', 'STOPPING', 'UNKNOWN')
             union
             select status, job_execution_id
             from (
                 select status, job_execution_id
                 from batch_job_execution
                 where job_instance_id = $1
                   and status in ('COMPLETED', 'ABANDONED')
                 order by job_execution_id desc
                 limit 1
             ) one_that_is_over
             union
             select status, job_execution_id
             from (
                 select status, job_execution_id
                 from batch_job_execution
                 where job_instance_id = $1
                 order by job_execution_id desc
                 limit 1
             ) latest
         ) known
         order by job_execution_id"
    }

    fn job_instance_step_statuses(execution: i64) -> Vec<(String, Option<String>, i64)> {
        "select step_name, status, step_execution_id from batch_step_execution where job_execution_id = $1
         order by step_execution_id"
    }

    /// `job_instance_lock` without a lock.
    fn job_instance_find(job: &str, key: &str) -> Option<i64> {
        "select job_instance_id from batch_job_instance where job_name = $1 and job_key = $2"
    }

    /// Among all instances of a job.
    pub fn Jobs::greatest_run_id(job: &str) -> One<Option<i64>> {
        bind(job, RUN_ID)
        postgres {
            run_ids!("case when p.parameter_value ~ '^-?[0-9]{1,18}$' then p.parameter_value::bigint end")
        }
        sqlite { run_ids!("cast(p.parameter_value as integer)") }
    }

    /// Whether an execution launched by a step of `outer` has completed the instance with these parameters.
    pub fn Jobs::has_completed_within(job: &str, parameters: &JobParameters, outer: InstanceId) -> Exists {
        bind(job, job_key(parameters), outer)
        "select e.job_execution_id from batch_job_instance i
         join batch_job_execution e on e.job_instance_id = i.job_instance_id
         join tidemill_job_execution n on n.job_execution_id = e.job_execution_id
         join batch_job_execution o on o.job_execution_id = n.outer_execution_id
         where i.job_name = $1 and i.job_key = $2 and e.status = 'COMPLETED' and o.job_instance_id = $3
         limit 1"
    }
}
