//! What is looked at for the page of an execution. Everything in it is bounded, because it is looked at again and again.

use crate::state::State;
use std::collections::HashMap;
use tidemill_domain::audit::AuditRecord;
use tidemill_domain::job::lifecycle::{self, ExecutionEvent};
use tidemill_domain::job::track::items_behind;
use tidemill_domain::job::{BatchStatus, ExecutionId, StepExecutionId};
use tidemill_engine::job::JobError;
use tidemill_store::audit::AuditFilter;
use tidemill_store::job::{ExecutionDetail, ExecutionFilter, ExecutionRecord, StepRecord, StoredContext};
use tidemill_store::{StoreError, Tx};

/// Most executions of the instance that are shown.
const ATTEMPTS: u32 = 10;
/// Most entries of the audit log that are shown.
const EVENTS: u32 = 50;
/// Most steps whose place is looked up.
const PLACES: usize = 20;
/// How many executions before this one are compared with it.
pub(super) const COMPARED: u32 = 20;

/// An execution with all that its page tells.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(super) detail: ExecutionDetail,
    pub(super) steps: Vec<StepRecord>,
    /// How many items are behind steps that are not partitions, where that is known.
    pub(super) places: HashMap<StepExecutionId, u64>,
    /// The executions of the instance, the oldest first, each with its steps.
    pub(super) attempts: Vec<(ExecutionRecord, Vec<StepRecord>)>,
    pub(super) possible: Possible,
    pub(super) resume: Option<Resume>,
    pub(super) events: Vec<AuditRecord>,
    /// How many of the executions before it ended with the same words.
    pub(super) alike: usize,
}

/// What can be done about an execution now; otherwise why not, as programs are told.
#[derive(Debug)]
pub(super) struct Possible {
    pub(super) restart: Result<(), JobError>,
    pub(super) stop: Result<(), JobError>,
    pub(super) abandon: Result<(), JobError>,
}

/// Where a restart would go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Resume {
    pub(super) step: String,
    pub(super) from: From,
}

/// From where in a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum From {
    Item(u64),
    /// With so many of its partitions.
    Partitions {
        left: usize,
        all: usize,
    },
    /// Nobody knows more than that it is this step.
    Start,
}

/// Whether a step is a partition of another.
pub(super) fn is_partition(step: &StepRecord) -> bool {
    step.name.contains(':')
}

impl Seen {
    /// Looks; none when there is no such execution.
    pub(crate) async fn read(
        state: &State,
        tx: &mut Tx,
        id: ExecutionId,
    ) -> Result<Option<Self>, StoreError> {
        let Some(detail) = tx.jobs().execution(id).await? else { return Ok(None) };
        let same =
            ExecutionFilter { instance: Some(detail.execution.instance), ..ExecutionFilter::default() };
        let mut attempts = Vec::new();
        for execution in tx.jobs().executions(&same, None, ATTEMPTS).await?.into_iter().rev() {
            let steps = tx.jobs().steps(execution.id).await?;
            attempts.push((execution, steps));
        }
        let own = attempts.iter().find(|(execution, _)| execution.id == id).map(|(_, steps)| steps.clone());
        let steps = match own {
            Some(steps) => steps,
            None => tx.jobs().steps(id).await?,
        };
        let newest = attempts.last().map(|(_, steps)| steps.clone()).unwrap_or_default();
        let places = places(tx, steps.iter().chain(&newest)).await?;
        let possible = possible(state, tx, &detail).await?;
        let resume = possible.restart_would_go_on().then(|| resume(&newest, &places)).flatten();
        let of_this = AuditFilter { object: Some(format!("execution/{id}")), ..AuditFilter::default() };
        let events = tx.audit().entries(&of_this, EVENTS).await?;
        let alike = alike(tx, &detail.execution).await?;
        Ok(Some(Self { detail, steps, places, attempts, possible, resume, events, alike }))
    }

    pub(super) fn execution(&self) -> &ExecutionRecord {
        &self.detail.execution
    }

    /// Which of the executions of its instance it is, as far as they are known.
    pub(super) fn attempt(&self) -> Option<(usize, usize)> {
        let place = self.attempts.iter().position(|(execution, _)| execution.id == self.execution().id)?;
        (self.attempts.len() < ATTEMPTS as usize).then_some((place + 1, self.attempts.len()))
    }
}

impl Possible {
    /// Whether a restart is possible, or would be if somebody accepted that the definition has changed.
    pub(super) fn restart_would_go_on(&self) -> bool {
        self.restart.is_ok() || self.needs_accepting()
    }

    /// Whether only a changed definition is in the way.
    pub(super) fn needs_accepting(&self) -> bool {
        use tidemill_domain::job::launch::LaunchRefusal::DefinitionChanged;
        matches!(&self.restart, Err(JobError::Refused { refusal: DefinitionChanged, .. }))
    }
}

async fn possible(state: &State, tx: &mut Tx, detail: &ExecutionDetail) -> Result<Possible, StoreError> {
    let (id, status) = (detail.execution.id, detail.execution.status);
    let order = |event| match lifecycle::next(status, event) {
        Ok(_) => Ok(()),
        Err(refusal) => Err(JobError::NotAllowed { id, refusal }),
    };
    Ok(Possible {
        restart: state.launcher().preview_restart(tx, detail).await,
        stop: order(ExecutionEvent::RequestStop),
        // What is given up already need not be given up again.
        abandon: match status {
            BatchStatus::Abandoned => order(ExecutionEvent::RequestStop),
            _ => order(ExecutionEvent::Abandon),
        },
    })
}

async fn places<'a>(
    tx: &mut Tx,
    steps: impl Iterator<Item = &'a StepRecord>,
) -> Result<HashMap<StepExecutionId, u64>, StoreError> {
    let mut places = HashMap::new();
    for step in steps.filter(|step| !is_partition(step)).take(PLACES) {
        if places.contains_key(&step.id) {
            continue;
        }
        if let Some(StoredContext::Ours(context)) = tx.jobs().step_context(step.id).await?
            && let Some(items) = items_behind(&context)
        {
            places.insert(step.id, items);
        }
    }
    Ok(places)
}

/// Where a restart goes on, by the steps of the last execution: with the last of them that did not complete.
fn resume(steps: &[StepRecord], places: &HashMap<StepExecutionId, u64>) -> Option<Resume> {
    let is_open = |step: &&StepRecord| step.status != BatchStatus::Completed;
    let step = steps.iter().filter(|step| !is_partition(step)).rfind(is_open)?;
    let prefix = format!("{}:", step.name);
    let parts: Vec<&StepRecord> = steps.iter().filter(|part| part.name.starts_with(&prefix)).collect();
    let from = match (places.get(&step.id), parts.len()) {
        (Some(items), _) => From::Item(*items),
        (None, 0) => From::Start,
        (None, all) => From::Partitions { left: parts.into_iter().filter(is_open).count(), all },
    };
    Some(Resume { step: step.name.clone(), from })
}

/// How many of the executions of the job before this one ended with the same words.
async fn alike(tx: &mut Tx, execution: &ExecutionRecord) -> Result<usize, StoreError> {
    if !execution.status.is_unsuccessful() || execution.exit.description.is_empty() {
        return Ok(0);
    }
    let of_job = ExecutionFilter { job: Some(execution.job.clone()), ..ExecutionFilter::default() };
    let before = tx.jobs().executions(&of_job, Some(execution.id), COMPARED).await?;
    Ok(before.iter().filter(|other| other.exit.description == execution.exit.description).count())
}
