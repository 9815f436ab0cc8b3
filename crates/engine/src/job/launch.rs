//! A launch in somebody else's transaction: it counts only together with what else is written there.

use super::launcher::{Launcher, Running};
use crate::job::definition::Job;
use crate::job::error::JobError;
use tidemill_domain::audit::Actor;
use tidemill_domain::job::launch::LaunchRules;
use tidemill_domain::job::parameter::check;
use tidemill_domain::job::{ExecutionId, JobParameters};
use tidemill_domain::time::Monotonic;
use tidemill_store::Tx;
use tidemill_store::job::{ExecutionDetail, LaunchRequest, Launched};
use tokio::sync::MutexGuard;

/// A launch that the caller commits. Made before the transaction begins, because all others who wait for leases wait
/// meanwhile; [`committed`](Self::committed) afterwards. One that is dropped has launched nothing.
#[derive(Debug)]
pub struct Launching<'a> {
    launcher: &'a Launcher,
    sent: Monotonic,
    prepared: Option<(Job, Launched)>,
    one_at_a_time: MutexGuard<'a, ()>,
}

impl Launcher {
    /// Begins a launch that shares its transaction with something else.
    pub async fn launching(&self) -> Launching<'_> {
        // Between the commit and our note of it, the heartbeat would take our own lease for a forgotten one and give
        // it back.
        let one_at_a_time = self.inner.process.acquiring().lock().await;
        Launching { launcher: self, sent: self.inner.clock.monotonic(), prepared: None, one_at_a_time }
    }

    /// Whether an execution could be restarted now, without doing it. The error is what [`restart`](Self::restart) would
    /// answer, except that room in this process is not looked at.
    pub async fn preview_restart(&self, tx: &mut Tx, found: &ExecutionDetail) -> Result<(), JobError> {
        let job = self.inner.jobs.get(&found.execution.job)?;
        let parameters = found.job_parameters()?;
        let rules = LaunchRules {
            is_restartable: job.is_restartable(),
            has_identifying: parameters.has_identifying(),
            has_changed: false,
        };
        let valid = check(&parameters, job.parameters());
        let preview =
            tx.jobs().preview_launch(job.name(), &parameters, job.definition(), rules, valid).await?;
        match preview {
            Ok(_) => Ok(()),
            Err(refusal) => Err(JobError::Refused { job: job.name().to_owned(), refusal }),
        }
    }
}

impl Launching<'_> {
    /// Makes the execution in `tx`, with the job's defaults for what is not given. Nothing runs yet.
    pub async fn launch(
        &mut self,
        tx: &mut Tx,
        job: &str,
        parameters: &JobParameters,
        actor: &Actor,
    ) -> Result<ExecutionId, JobError> {
        let parameters = self.launcher.inner.jobs.get(job)?.with_defaults(parameters);
        self.launch_again(tx, job, &parameters, actor, 0).await
    }

    /// [`launch`](Self::launch) with the parameters of an earlier execution, as they were: a default that the job has
    /// got meanwhile would make another instance of it.
    pub async fn restart(
        &mut self,
        tx: &mut Tx,
        job: &str,
        parameters: &JobParameters,
        actor: &Actor,
    ) -> Result<ExecutionId, JobError> {
        self.launch_again(tx, job, parameters, actor, 0).await
    }

    /// [`launch`](Self::launch) after so many restarts without a person's doing.
    pub(super) async fn launch_again(
        &mut self,
        tx: &mut Tx,
        job: &str,
        parameters: &JobParameters,
        actor: &Actor,
        crash_restarts: u32,
    ) -> Result<ExecutionId, JobError> {
        let inner = &self.launcher.inner;
        let job = inner.jobs.get(job)?.clone();
        if self.is_full() {
            return Err(JobError::TooManyRunning { limit: self.launcher.running_max });
        }
        let request = LaunchRequest {
            job: job.name(),
            parameters,
            parameters_valid: check(parameters, job.parameters()),
            is_restartable: job.is_restartable(),
            on_crash: job.crash_policy(),
            crash_restarts,
            fingerprint: job.definition(),
            accepts_change: self.launcher.accepts_change,
            by: inner.process.id(),
            actor,
        };
        let launched = match tx.jobs().launch(&request).await? {
            Ok(launched) => launched,
            Err(refusal) => return Err(JobError::Refused { job: job.name().to_owned(), refusal }),
        };
        let execution = launched.execution;
        self.prepared = Some((job, launched));
        Ok(execution)
    }

    /// The transaction has committed: the execution runs from here on. None when nothing was launched.
    pub fn committed(self) -> Option<Running> {
        let (job, launched) = self.prepared?;
        let lease = self.launcher.inner.process.adopt(&launched.lease, self.sent, &launched.granted);
        // Whoever launches next counts this one.
        let running = self.launcher.start(job, launched, lease);
        drop(self.one_at_a_time);
        Some(running)
    }

    /// Whether this process runs as many executions as it may. Launches come one at a time, so that stays true until
    /// one ends.
    pub(crate) fn is_full(&self) -> bool {
        self.launcher.running().len() >= self.launcher.running_max
    }
}
