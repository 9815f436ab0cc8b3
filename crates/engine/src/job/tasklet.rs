//! Tasklet steps: work that is called until it is finished, each time in a transaction.

use crate::job::{ChunkScope, Outcome, Step, StepFailure, StepScope, StepTask};
use std::sync::Arc;
use tidemill_domain::item::{ErrorKind, ItemError};
use tidemill_domain::job::{Counters, ExecutionContext, ExitStatus};
use tidemill_store::{StoreError, Tx};
use tokio::sync::{Mutex, OwnedMutexGuard};

impl Step {
    /// A step that calls `work` in a transaction. Writes through [`TaskletScope::tx`] commit with its context.
    ///
    /// `work` returns `()` when it is done, or a [`RepeatStatus`] to be called again in the next transaction.
    ///
    /// ```
    /// use tidemill_engine::job::{Job, Step};
    ///
    /// let clean = Step::tasklet("clean", |mut scope| async move {
    ///     let day = scope.step().text("day")?;
    ///     scope.tx().await?.execute("delete from staging where day = $1", (day,)).await?;
    ///     Ok(())
    /// });
    /// assert!(Job::new("nightly").step(clean).check().is_ok());
    /// ```
    pub fn tasklet<W, F, S>(name: impl Into<String>, work: W) -> Self
    where
        W: Fn(TaskletScope) -> F + Send + Sync + 'static,
        F: Future<Output = Result<S, ItemError>> + Send + 'static,
        S: Into<RepeatStatus> + 'static,
    {
        let work = Arc::new(work);
        Self::running(name, "tasklet", move |task| {
            let work = work.clone();
            Box::pin(async move { repeat(task, &*work).await })
        })
    }
}

/// Whether a tasklet is called again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RepeatStatus {
    /// There is more to do.
    Continuable,
    /// It is done.
    Finished,
}

impl From<()> for RepeatStatus {
    fn from((): ()) -> Self {
        Self::Finished
    }
}

/// One call of a tasklet.
#[derive(Debug)]
pub struct TaskletScope {
    step: StepScope,
    call: OwnedMutexGuard<TaskletCall>,
}

/// The results of a call. The lock returns them to the step when the scope is dropped.
#[derive(Debug)]
struct TaskletCall {
    chunk: ChunkScope,
    context: ExecutionContext,
    contribution: Counters,
    exit: ExitStatus,
}

impl TaskletScope {
    /// The step: parameters, names, ids.
    pub fn step(&self) -> &StepScope {
        &self.step
    }

    /// The transaction of this call. Do not commit it; the step does.
    pub async fn tx(&mut self) -> Result<&mut Tx, StoreError> {
        self.call.chunk.tx().await
    }

    /// The context of the step; saved when this call commits.
    pub fn context(&mut self) -> &mut ExecutionContext {
        &mut self.call.context
    }

    /// What this call adds to the counters.
    pub fn contribution(&mut self) -> &mut Counters {
        &mut self.call.contribution
    }

    /// Sets the exit status of this call, for transitions. The exit statuses of all calls and of the end of the step are
    /// combined: the most severe code wins, and your own codes are the most severe, also if the step fails or stops.
    pub fn set_exit(&mut self, exit: ExitStatus) {
        self.call.exit = exit;
    }
}

pub(super) async fn repeat<F, S>(
    task: &mut StepTask,
    work: impl Fn(TaskletScope) -> F,
) -> Result<Outcome, StepFailure>
where
    F: Future<Output = Result<S, ItemError>>,
    S: Into<RepeatStatus>,
{
    let nothing_set = || ExitStatus::new(ExitStatus::EXECUTING);
    let mut exit = nothing_set();
    loop {
        if task.shall_stop() {
            return Ok(Outcome::stopped().and(exit));
        }
        task.check()?;
        let call = Arc::new(Mutex::new(TaskletCall {
            chunk: task.chunk(None),
            context: task.context.clone(),
            contribution: Counters::default(),
            exit: nothing_set(),
        }));
        let lent = call.clone().try_lock_owned().expect("nobody else has the lock yet");
        let called = work(TaskletScope { step: task.scope.clone(), call: lent }).await.map(Into::into);
        let Some(call) = Arc::into_inner(call) else {
            task.counters.rollback += 1;
            called?;
            let text =
                "the tasklet has given its scope to somebody who still has it; it has to end with the call";
            return Err(ItemError::new(ErrorKind::FATAL, text).into());
        };
        let TaskletCall { mut chunk, context, mut contribution, exit: set } = call.into_inner();
        exit = exit.and(set);
        // Counters are kept even after a rollback; the context belongs to the transaction.
        let status = match called {
            Ok(status) => status,
            Err(error) => {
                chunk.roll_back().await;
                contribution.rollback += 1;
                task.counters += contribution;
                return failed(error.into(), exit);
            }
        };
        task.context = context;
        if let Err(failure) = task.commit(&mut chunk, contribution).await {
            return failed(failure, exit);
        }
        contribution.commit += 1;
        task.counters += contribution;
        if status == RepeatStatus::Finished {
            return Ok(Outcome::completed(ExitStatus::completed()).and(exit));
        }
    }
}

/// A failure keeps the exit code that the tasklet has set.
fn failed(failure: StepFailure, exit: ExitStatus) -> Result<Outcome, StepFailure> {
    match failure {
        StepFailure::Failed { code, text } => Ok(Outcome::failed(code, text).and(exit)),
        StepFailure::LeaseLost => Err(StepFailure::LeaseLost),
    }
}

#[cfg(test)]
mod tests {
    use crate::job::{Job, Step, TaskletScope};
    use crate::testing::JobBench;
    use std::sync::{Arc, Mutex};
    use tidemill_domain::item::{ErrorKind, ItemError};

    /// Runs a tasklet that gives its scope away; returns the number of rollbacks and the result.
    async fn run(error: Option<&'static str>) -> (u64, String) {
        let kept: Arc<Mutex<Vec<TaskletScope>>> = Arc::default();
        let step = Step::tasklet("keep", move |scope| {
            kept.lock().unwrap().push(scope);
            async move { error.map_or(Ok(()), |error| Err(ItemError::new(ErrorKind::WRITE, error))) }
        });
        let job = Job::new("keeping").step(step);
        let run = JobBench::new().await.unwrap().run(&job, &Default::default()).await.unwrap();
        let step = run.step("keep").unwrap();
        (step.counters.rollback, step.exit.description.clone())
    }

    #[tokio::test]
    async fn a_scope_that_outlives_its_call_fails_the_step() {
        let (rollbacks, message) = run(None).await;

        assert_eq!(rollbacks, 1);
        assert!(message.contains("has given its scope"), "{message}");
    }

    #[tokio::test]
    async fn the_error_of_the_tasklet_is_kept_when_its_scope_outlives_the_call() {
        let (rollbacks, message) = run(Some("the disk is full")).await;

        assert_eq!(rollbacks, 1);
        assert!(message.contains("the disk is full"), "{message}");
    }
}
