//! Job steps, which run another job as an execution of its own.

use crate::job::{
    ExecutionEnd, Job, JobError, JobRegistry, Launcher, Outcome, Step, StepBody, StepFailure, StepFuture,
    StepResources, StepScope, StepTask, Urgency, recovery,
};
use serde_json::{Value, json};
use std::time::Duration;
use tidemill_domain::audit::{Actor, Role};
use tidemill_domain::code::Code;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::launch::LaunchRefusal;
use tidemill_domain::job::{BatchStatus, ExitStatus, JobParameter, JobParameters, ParameterValue};

/// Context key of the inner job's parameters, so that a restart continues the same instance.
const PARAMETERS: &str = "JobStep.JOB_PARAMETERS";

/// How long the inner job has to finish a chunk when the outer one stops.
const GRACE: Duration = Duration::from_secs(20);

/// Attempts to launch an inner job that still counts as running, although its process may have died.
const PATIENCE: u32 = 10;
const PAUSE: Duration = Duration::from_millis(500);

type MakeParameters = dyn Fn(&StepScope) -> Result<JobParameters, ItemError> + Send + Sync;

impl Step {
    /// A step that runs another job as an execution of its own, and ends as it does. Parameters are made once: a
    /// restart of the outer job continues the same instance of the inner one.
    pub fn job(
        name: impl Into<String>,
        job: Job,
        parameters: impl Fn(&StepScope) -> Result<JobParameters, ItemError> + Send + Sync + 'static,
    ) -> Self {
        Self::new(name.into(), "job", JobStep { job, parameters: Box::new(parameters) })
    }
}

struct JobStep {
    job: Job,
    parameters: Box<MakeParameters>,
}

impl JobStep {
    async fn run(&self, task: &mut StepTask) -> Result<Outcome, StepFailure> {
        let parameters = self.parameters(task).await?;
        let jobs = JobRegistry::new([self.job.clone()]).map_err(failure)?;
        let StepResources { lease, stop, clock, pools, logs } = task.resources.clone();
        let (store, process) = (task.scope.store().clone(), lease.process().clone());
        // A changed definition was accepted or refused for the outer job, of which this one is a part.
        let mut launcher = Launcher::new(store, process, clock, jobs).accept_change(true).logs(logs);
        launcher.pools = pools;
        let name = format!("job {}", task.scope.job());
        let actor = Actor { name, role: Role::System, request_id: None };
        let outer = Some(task.scope.execution());
        let mut patience = PATIENCE;
        let running = loop {
            match launcher.launch_within(outer, self.job.name(), &parameters, &actor).await {
                Ok(running) => break running,
                // It completed for this outer instance, but that was not recorded here.
                Err(JobError::Refused { refusal: LaunchRefusal::AlreadyComplete(_), .. })
                    if task.scope.is_resumed() && self.is_ours(&parameters, task).await? =>
                {
                    return Ok(Outcome::completed(ExitStatus::completed()));
                }
                // Its process died with ours, which was not noticed yet.
                Err(JobError::Refused { refusal: LaunchRefusal::AlreadyRunning, .. }) if patience > 0 => {
                    patience -= 1;
                    recovery::recover_once(task.scope.store())
                        .await
                        .map_err(|error| failure(error.into()))?;
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(failure(error)),
            }
        };
        // A step that is aborted stops the job that it has started.
        let _stops_on_drop = StopsOnDrop(launcher.clone());
        let mut ended = std::pin::pin!(running.ended());
        let ended = tokio::select! {
            ended = &mut ended => ended,
            () = stop.asked(Urgency::AtChunkEnd) => {
                launcher.stop_all(GRACE).await;
                ended.await
            }
        };
        Ok(outcome(ended.map_err(|_| StepFailure::LeaseLost)?))
    }

    /// Whether an execution of this outer instance completed the inner job.
    async fn is_ours(&self, parameters: &JobParameters, task: &StepTask) -> Result<bool, StepFailure> {
        let mut tx = task.scope.store().read().await?;
        Ok(tx.jobs().has_completed_within(self.job.name(), parameters, task.scope.instance()).await?)
    }

    /// The parameters of the first run of this step.
    async fn parameters(&self, task: &mut StepTask) -> Result<JobParameters, StepFailure> {
        if let Some(saved) = task.context.get(PARAMETERS) {
            return Ok(read(saved)?);
        }
        let parameters = self.job.with_defaults(&(self.parameters)(&task.scope)?);
        task.context.put(PARAMETERS, written(&parameters));
        task.commit_context().await?;
        Ok(parameters)
    }
}

impl StepBody for JobStep {
    fn run<'a>(&'a self, task: &'a mut StepTask) -> StepFuture<'a> {
        Box::pin(self.run(task))
    }

    fn check(&self) -> Result<(), String> {
        self.job.check().map_err(|error| error.to_string())
    }
}

struct StopsOnDrop(Launcher);

impl Drop for StopsOnDrop {
    fn drop(&mut self) {
        self.0.running().values().for_each(|switch| switch.ask(Urgency::Now));
    }
}

fn failure(error: JobError) -> StepFailure {
    StepFailure::failed(error.code(), error.to_string())
}

/// The step keeps an exit code of its own that the inner job has ended with.
fn outcome(end: ExecutionEnd) -> Outcome {
    match end.status {
        BatchStatus::Completed => Outcome::completed(end.exit),
        BatchStatus::Stopped => Outcome::stopped(),
        status => {
            let text = format!(
                "execution {} of the inner job ended {status}: {}",
                end.execution, end.exit.description
            );
            let failed = Outcome::failed(end.code.unwrap_or(Code::ExecutionFailed), text);
            failed.and(ExitStatus::new(end.exit.code))
        }
    }
}

fn written(parameters: &JobParameters) -> Value {
    let of = |parameter: &JobParameter| {
        let (kind, text) = (parameter.value.kind().as_str(), parameter.value.stored_text());
        json!({ "type": kind, "value": text, "identifying": parameter.is_identifying })
    };
    parameters.iter().map(|(name, parameter)| (name, of(parameter))).collect()
}

fn read(saved: &Value) -> Result<JobParameters, ItemError> {
    let damaged =
        || ItemError::new(ErrorKind::FATAL, "the saved parameters of the inner job are not understood");
    let mut parameters = JobParameters::new();
    for (name, saved) in saved.as_object().ok_or_else(damaged)? {
        let text = |key: &str| saved.get(key).and_then(Value::as_str).ok_or_else(damaged);
        let value = ParameterValue::from_stored(text("type")?, text("value")?).map_err(|_| damaged())?;
        let is_identifying = saved.get("identifying").and_then(Value::as_bool).ok_or_else(damaged)?;
        parameters.insert(name.as_str(), JobParameter { value, is_identifying }).map_err(|_| damaged())?;
    }
    Ok(parameters)
}
