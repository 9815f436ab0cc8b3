//! A launch: decides and inserts the execution in one transaction, which may be the caller's. Then it runs.

use crate::job::{Job, JobError, Launcher, Running};
use tidemill_domain::audit::Actor;
use tidemill_domain::job::instance::next_instance;
use tidemill_domain::job::launch::{LaunchRefusal, LaunchRules};
use tidemill_domain::job::parameter::check;
use tidemill_domain::job::{ExecutionId, JobParameters};
use tidemill_domain::time::Monotonic;
use tidemill_domain::trace::TraceParent;
use tidemill_store::job::{ExecutionDetail, LaunchRequest, Launched};
use tidemill_store::{StoreError, Tx, trace};
use tokio::sync::MutexGuard;
use tracing::Span;
use tracing::field::Empty;

const TRIES_MAX: u32 = 10;

impl Launcher {
    /// Starts a job. Identifying parameters define the instance: an incomplete instance continues where it ended, a
    /// completed one is refused.
    pub async fn launch(
        &self,
        job: &str,
        parameters: &JobParameters,
        actor: &Actor,
    ) -> Result<Running, JobError> {
        self.launch_within(None, job, parameters, actor).await
    }

    /// [`launch`](Self::launch), recording the execution whose step launches it, for retention.
    pub(crate) async fn launch_within(
        &self,
        outer: Option<ExecutionId>,
        job: &str,
        parameters: &JobParameters,
        actor: &Actor,
    ) -> Result<Running, JobError> {
        // Before waiting for the lock.
        self.jobs().get(job)?;
        let mut launching = self.launching().await;
        let mut tx = self.store().begin().await?;
        let id = launching.launch(&mut tx, job, parameters, actor).await?;
        if let Some(outer) = outer {
            tx.jobs().note_outer(id, outer).await?;
        }
        launching.commit(tx).await
    }

    /// Starts a new instance: `parameters` and a `run.id` greater than that of any instance of the job.
    #[crate::boxed]
    pub async fn launch_next(
        &self,
        job: &str,
        parameters: &JobParameters,
        actor: &Actor,
    ) -> Result<Running, JobError> {
        self.jobs().get(job)?;
        let mut launching = self.launching().await;
        let mut tx = self.store().begin().await?;
        launching.launch_next(&mut tx, job, parameters, actor).await?;
        launching.commit(tx).await
    }

    /// Restarts the job of an execution that did not complete, with its parameters.
    #[crate::boxed]
    pub async fn restart(&self, id: ExecutionId, actor: &Actor) -> Result<Running, JobError> {
        let found = self.store().read().await?.jobs().execution(id).await?;
        let found = found.ok_or(JobError::UnknownExecution(id))?;
        let (job, parameters) = (found.execution.job.as_str(), found.job_parameters()?);
        self.jobs().get(job)?;
        let mut launching = self.launching().await;
        let mut tx = self.store().begin().await?;
        launching.restart(&mut tx, job, &parameters, actor).await?;
        launching.commit(tx).await
    }

    /// Restarts one execution of our jobs that is due after its process died.
    pub(crate) async fn restart_due(&self) -> Result<Option<Running>, JobError> {
        let jobs = self.jobs();
        let names: Vec<(&str, Option<&str>)> =
            jobs.iter().map(|job| (job.name(), job.definition())).collect();
        if names.is_empty() {
            return Ok(None);
        }
        let mut launching = self.launching().await;
        if launching.is_full() {
            // It stays due, for another process or for later.
            return Ok(None);
        }
        let mut tx = self.store().begin().await?;
        let Some(due) = tx.jobs().take_due_restart(&names).await? else { return Ok(None) };
        launching.crash_restarts = due.crash_restarts + 1;
        launching.parent = recorded_trace(&mut tx, due.execution).await?;
        match launching.restart(&mut tx, &due.job, &due.parameters, &Actor::system()).await {
            Ok(_) => {}
            // Committed too: the restart is no longer due.
            Err(JobError::Refused { refusal, job }) => {
                tx.jobs().notify_end(due.execution).await?;
                tracing::warn!(job, "job {job} was not restarted after a crash: {refusal}");
            }
            Err(error) => return Err(error),
        }
        tx.commit().await?;
        Ok(launching.committed())
    }

    /// Begins a launch in a transaction of the caller.
    pub async fn launching(&self) -> Launching<'_> {
        // Between the commit and `attach`, the heartbeat would release our lease as an unknown one.
        let one_at_a_time = self.process().acquiring().lock().await;
        let sent = self.inner.clock.monotonic();
        Launching { launcher: self, sent, crash_restarts: 0, parent: None, prepared: None, one_at_a_time }
    }

    /// Whether an execution could be restarted now. The error is what [`restart`](Self::restart) would return, except
    /// that the limit of this process is not checked.
    #[crate::boxed]
    pub async fn preview_restart(&self, tx: &mut Tx, found: &ExecutionDetail) -> Result<(), JobError> {
        let jobs = self.jobs();
        let job = jobs.get(&found.execution.job)?;
        let parameters = found.job_parameters()?;
        let rules = LaunchRules {
            is_restartable: job.is_restartable(),
            has_identifying: parameters.has_identifying(),
            has_changed: false,
        };
        let valid = check(&parameters, job.parameters());
        let preview =
            tx.jobs().preview_launch(job.name(), &parameters, job.definition(), rules, valid).await?;
        preview.map(drop).map_err(|refusal| JobError::Refused { job: job.name().to_owned(), refusal })
    }
}

/// A launch that the caller commits. Create it before the transaction, because it blocks other lease acquisitions of
/// this process; call [`committed`](Self::committed) after the commit. Dropping it launches nothing.
#[derive(Debug)]
pub struct Launching<'a> {
    launcher: &'a Launcher,
    sent: Monotonic,
    crash_restarts: u32,
    /// Where its trace continues; otherwise with the current span.
    parent: Option<TraceParent>,
    prepared: Option<(Job, Launched, Span)>,
    one_at_a_time: MutexGuard<'a, ()>,
}

impl Launching<'_> {
    /// Inserts the execution in `tx`, with the job's defaults. Nothing runs yet.
    pub async fn launch(
        &mut self,
        tx: &mut Tx,
        job: &str,
        parameters: &JobParameters,
        actor: &Actor,
    ) -> Result<ExecutionId, JobError> {
        let parameters = self.launcher.jobs().get(job)?.with_defaults(parameters);
        self.restart(tx, job, &parameters, actor).await
    }

    /// [`launch`](Self::launch) as a new instance: with a `run.id` greater than that of any instance of the job.
    pub async fn launch_next(
        &mut self,
        tx: &mut Tx,
        job: &str,
        parameters: &JobParameters,
        actor: &Actor,
    ) -> Result<ExecutionId, JobError> {
        let mut tries = 1;
        loop {
            let greatest = tx.jobs().greatest_run_id(job).await?;
            let next = next_instance(parameters.clone(), greatest)
                .map_err(|why| JobError::NoNext { job: job.to_owned(), why })?;
            match self.launch(tx, job, &next, actor).await {
                // Another process took the number meanwhile, and may have reached its steps.
                Err(JobError::Refused {
                    refusal:
                        LaunchRefusal::AlreadyRunning
                        | LaunchRefusal::AlreadyComplete(_)
                        | LaunchRefusal::StepRunning { .. },
                    ..
                }) if tries < TRIES_MAX => tries += 1,
                launched => return launched,
            }
        }
    }

    /// Inserts an execution with exactly these parameters: a new default would make another instance.
    pub async fn restart(
        &mut self,
        tx: &mut Tx,
        job: &str,
        parameters: &JobParameters,
        actor: &Actor,
    ) -> Result<ExecutionId, JobError> {
        let job = self.launcher.jobs().get(job)?.clone();
        if self.is_full() {
            return Err(JobError::TooManyRunning { limit: self.launcher.running_max });
        }
        let request = LaunchRequest {
            job: job.name(),
            parameters,
            parameters_valid: check(parameters, job.parameters()),
            is_restartable: job.is_restartable(),
            on_crash: job.crash_policy(),
            crash_restarts: self.crash_restarts,
            fingerprint: job.definition(),
            notify: job.notifies(),
            accepts_change: self.launcher.accepts_change,
            by: self.launcher.process().id(),
            actor,
        };
        let launched = tx.jobs().launch(&request).await?;
        let launched =
            launched.map_err(|refusal| JobError::Refused { job: job.name().to_owned(), refusal })?;
        let execution = launched.execution;
        // No child for `tracing`, which would keep the span of a request open until the job ends.
        let span = tracing::info_span!(
            parent: None,
            "job",
            job = job.name(),
            execution.id = %execution,
            otel.status_code = Empty
        );
        trace::follow(&span, self.parent.or_else(trace::current));
        if let Some(place) = trace::place(&span) {
            tx.jobs().note_trace(execution, &place.to_string()).await?;
        }
        self.prepared = Some((job, launched, span));
        Ok(execution)
    }

    async fn commit(self, tx: Tx) -> Result<Running, JobError> {
        tx.commit().await?;
        Ok(self.committed().expect("what was launched has been prepared"))
    }

    /// Runs the execution after the commit. None if nothing was launched.
    pub fn committed(self) -> Option<Running> {
        let (job, launched, span) = self.prepared?;
        let lease = self.launcher.process().attach(&launched.lease, self.sent, &launched.granted);
        // Counted before the next launch can begin.
        let running = self.launcher.start(job, launched, lease, span);
        drop(self.one_at_a_time);
        Some(running)
    }

    /// Whether this process runs its maximum of executions. Launches are serialized, so this holds until one ends.
    pub(crate) fn is_full(&self) -> bool {
        self.launcher.running().len() >= self.launcher.running_max
    }
}

/// Where the trace of an execution goes on in this process, if traces are exported.
pub(super) async fn recorded_trace(
    tx: &mut Tx,
    execution: ExecutionId,
) -> Result<Option<TraceParent>, StoreError> {
    if !trace::is_on() {
        return Ok(None);
    }
    let recorded = tx.jobs().trace(execution).await?;
    Ok(recorded.and_then(|text| text.parse().ok()))
}
