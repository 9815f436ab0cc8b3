//! Tasklet steps: a piece of work that is called until it is finished, each time in one transaction.

use crate::job::component::Delivery;
use crate::job::scope::{ChunkScope, StepScope};
use crate::job::step::{Outcome, Step, StepBody, StepFailure, StepFuture, StepTask};
use std::sync::Arc;
use tidemill_domain::item::ItemError;
use tidemill_domain::job::{Counters, ExecutionContext, ExitStatus};
use tidemill_store::{StoreError, Tx};

impl Step {
    /// A step that calls `tasklet` until it is finished, each time in a transaction of its own. It is made anew
    /// for each run of the step.
    pub fn tasklet<T, F>(name: impl Into<String>, tasklet: F) -> Self
    where
        T: Tasklet,
        F: Fn(&StepScope) -> Result<T, ItemError> + Send + Sync + 'static,
    {
        Self::new(
            name.into(),
            Arc::new(TaskletStep { type_word: "tasklet", delivery: |_: &T| None, make: tasklet }),
        )
    }
}

/// Whether a tasklet wants to be called again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RepeatStatus {
    /// There is more to do.
    Continuable,
    /// That was all.
    Finished,
}

/// A piece of work. What it does through [`TaskletScope::tx`] commits with what it remembers.
pub trait Tasklet: Send + 'static {
    /// Does some of the work.
    fn execute(
        &mut self,
        scope: &mut TaskletScope<'_>,
    ) -> impl Future<Output = Result<RepeatStatus, ItemError>> + Send;
}

/// What a tasklet works with.
#[derive(Debug)]
pub struct TaskletScope<'a> {
    step: &'a StepScope,
    chunk: &'a mut ChunkScope,
    context: &'a mut ExecutionContext,
    contribution: &'a mut Counters,
    exit: &'a mut ExitStatus,
}

impl TaskletScope<'_> {
    /// The step: parameters, names, ids.
    pub fn step(&self) -> &StepScope {
        self.step
    }

    /// The transaction of this call. Do not commit; the step does.
    pub async fn tx(&mut self) -> Result<&mut Tx, StoreError> {
        self.chunk.tx().await
    }

    /// What the step remembers; saved when this call commits.
    pub fn context(&mut self) -> &mut ExecutionContext {
        self.context
    }

    /// What this call contributes to the counters.
    pub fn contribution(&mut self) -> &mut Counters {
        self.contribution
    }

    /// Sets how the step ends, for flows that match on it.
    pub fn set_exit(&mut self, exit: ExitStatus) {
        *self.exit = exit;
    }
}

pub(super) struct TaskletStep<T, F> {
    pub(super) type_word: &'static str,
    /// What it promises about repetitions, where it does.
    pub(super) delivery: fn(&T) -> Option<Delivery>,
    pub(super) make: F,
}

impl<T, F> StepBody for TaskletStep<T, F>
where
    T: Tasklet,
    F: Fn(&StepScope) -> Result<T, ItemError> + Send + Sync + 'static,
{
    fn run<'a>(&'a self, task: &'a mut StepTask) -> StepFuture<'a> {
        Box::pin(async move {
            let mut tasklet = (self.make)(&task.scope)?;
            let delivery = (self.delivery)(&tasklet);
            if let Some(delivery) = delivery {
                task.record_plan(None, delivery).await?;
            }
            repeat(&mut tasklet, task).await
        })
    }

    fn type_word(&self) -> &'static str {
        self.type_word
    }
}

async fn repeat<T: Tasklet>(tasklet: &mut T, task: &mut StepTask) -> Result<Outcome, StepFailure> {
    let mut exit = ExitStatus::completed();
    loop {
        if task.shall_stop() {
            return Ok(Outcome::stopped());
        }
        task.check()?;
        let mut chunk = task.chunk(None);
        let mut contribution = Counters::default();
        let before = task.context.clone();
        let mut scope = TaskletScope {
            step: &task.scope,
            chunk: &mut chunk,
            context: &mut task.context,
            contribution: &mut contribution,
            exit: &mut exit,
        };
        let called = tasklet.execute(&mut scope).await;
        // What it counted is what it counted; what it remembers belongs to the transaction.
        let status = match called {
            Ok(status) => status,
            Err(error) => {
                if let Some(tx) = chunk.take() {
                    tx.rollback().await?;
                }
                task.context = before;
                contribution.rollback += 1;
                task.counters += contribution;
                return Err(error.into());
            }
        };
        task.commit(&mut chunk, contribution).await?;
        contribution.commit += 1;
        task.counters += contribution;
        if status == RepeatStatus::Finished {
            return Ok(Outcome::completed(exit));
        }
    }
}
