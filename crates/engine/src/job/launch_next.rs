//! Launching the next instance of a job.

use super::launcher::{Launcher, Running};
use crate::job::error::JobError;
use tidemill_domain::audit::Actor;
use tidemill_domain::job::JobParameters;
use tidemill_domain::job::launch::LaunchRefusal;
use tidemill_domain::job::next::next_instance;

/// How often another number is tried when somebody else was quicker.
const TRIES_MAX: u32 = 10;

impl Launcher {
    /// Starts an instance that there was not before: `parameters` and a `run.id` greater than all that instances of
    /// the job have. Nothing is carried over from any earlier run.
    pub async fn launch_next(
        &self,
        job: &str,
        parameters: &JobParameters,
        actor: &Actor,
    ) -> Result<Running, JobError> {
        self.inner.jobs.get(job)?;
        let mut tries = 1;
        loop {
            let mut launching = self.launching().await;
            let mut tx = self.inner.store.begin().await?;
            let greatest = tx.jobs().greatest_run_id(job).await?;
            let next = next_instance(parameters.clone(), greatest)
                .map_err(|why| JobError::NoNext { job: job.to_owned(), why })?;
            match launching.launch(&mut tx, job, &next, actor).await {
                // Somebody else took the number between our look and our launch, and may have come to its steps.
                Err(JobError::Refused {
                    refusal:
                        LaunchRefusal::AlreadyRunning
                        | LaunchRefusal::AlreadyComplete
                        | LaunchRefusal::StepRunning { .. },
                    ..
                }) if tries < TRIES_MAX => tries += 1,
                Err(error) => return Err(error),
                Ok(_) => {
                    tx.commit().await?;
                    return Ok(launching.committed().expect("what was launched has been prepared"));
                }
            }
        }
    }
}
