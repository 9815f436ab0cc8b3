//! What the page of an execution reads. All of it is bounded, because the live page reads it again and again.

use super::log::{self, StepOutput};
use crate::dashboard::part::number;
use crate::state::State;
use std::collections::HashMap;
use tidemill_api::execution::is_partition;
use tidemill_domain::audit::AuditRecord;
use tidemill_domain::job::lifecycle::{self, ExecutionEvent};
use tidemill_domain::job::track::items_behind;
use tidemill_domain::job::{BatchStatus, ExecutionId, StepExecutionId};
use tidemill_engine::job::JobError;
use tidemill_store::audit::AuditFilter;
use tidemill_store::job::{ExecutionDetail, ExecutionFilter, ExecutionRecord, StepRecord, StoredContext};
use tidemill_store::{StoreError, Tx};

/// Maximum number of executions of the instance.
const ATTEMPTS: u32 = 10;
/// Maximum number of audit entries.
const EVENTS: u32 = 50;
/// Maximum number of steps whose position is read.
const POSITIONS: usize = 20;
/// Number of earlier executions that are compared with this one.
pub(super) const COMPARED: u32 = 20;

#[derive(Debug)]
pub(crate) struct PageData {
    pub(super) detail: ExecutionDetail,
    pub(super) steps: Vec<StepRecord>,
    /// Committed items by step, where known; not for partitions.
    pub(super) positions: HashMap<StepExecutionId, u64>,
    /// The executions of the instance, the oldest first, each with its steps.
    pub(super) attempts: Vec<(ExecutionRecord, Vec<StepRecord>)>,
    pub(super) actions: AllowedActions,
    pub(super) resume: Option<Resume>,
    pub(super) events: Vec<AuditRecord>,
    /// Number of earlier executions that ended with the same message.
    pub(super) same_error: usize,
    pub(super) outputs: Vec<StepOutput>,
}

/// Whether each action is possible now, and if not, why.
#[derive(Debug)]
pub(super) struct AllowedActions {
    pub(super) restart: Result<(), JobError>,
    pub(super) stop: Result<(), JobError>,
    pub(super) abandon: Result<(), JobError>,
}

/// Where a restart would resume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Resume {
    pub(super) step: String,
    /// Such as ` at item 3,000`; empty if it is unknown.
    pub(super) place: String,
}

impl PageData {
    /// None if the execution does not exist.
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
        let positions = positions(tx, steps.iter().chain(&newest)).await?;
        let actions = allowed_actions(state, tx, &detail).await?;
        let can_restart = actions.restart.is_ok() || actions.needs_accepting();
        let resume = can_restart.then(|| resume(&newest, &positions)).flatten();
        let of_this = AuditFilter { object: Some(format!("execution/{id}")), ..AuditFilter::default() };
        let events = tx.audit().entries(&of_this, EVENTS).await?;
        let same_error = same_error(tx, &detail.execution).await?;
        let outputs = log::read(state, tx, id, &steps).await?;
        Ok(Some(Self { detail, steps, positions, attempts, actions, resume, events, same_error, outputs }))
    }

    pub(super) fn execution(&self) -> &ExecutionRecord {
        &self.detail.execution
    }

    /// The number of this execution within its instance, and how many there are; none if there are too many.
    pub(super) fn attempt(&self) -> Option<(usize, usize)> {
        let place = self.attempts.iter().position(|(execution, _)| execution.id == self.execution().id)?;
        (self.attempts.len() < ATTEMPTS as usize).then_some((place + 1, self.attempts.len()))
    }
}

impl AllowedActions {
    /// Whether a restart only needs the visitor to accept a changed definition.
    pub(super) fn needs_accepting(&self) -> bool {
        use tidemill_domain::job::launch::LaunchRefusal::DefinitionChanged;
        matches!(&self.restart, Err(JobError::Refused { refusal: DefinitionChanged, .. }))
    }
}

async fn allowed_actions(
    state: &State,
    tx: &mut Tx,
    detail: &ExecutionDetail,
) -> Result<AllowedActions, StoreError> {
    let (id, status) = (detail.execution.id, detail.execution.status);
    let allowed = |event| match lifecycle::next(status, event) {
        Ok(_) => Ok(()),
        Err(refusal) => Err(JobError::NotAllowed { id, refusal }),
    };
    Ok(AllowedActions {
        restart: state.launcher().preview_restart(tx, detail).await,
        stop: allowed(ExecutionEvent::RequestStop),
        // Abandoning twice is harmless, but the page does not offer it.
        abandon: match status {
            BatchStatus::Abandoned => allowed(ExecutionEvent::RequestStop),
            _ => allowed(ExecutionEvent::Abandon),
        },
    })
}

async fn positions<'a>(
    tx: &mut Tx,
    steps: impl Iterator<Item = &'a StepRecord>,
) -> Result<HashMap<StepExecutionId, u64>, StoreError> {
    let mut positions = HashMap::new();
    for step in steps.filter(|step| !is_partition(step)).take(POSITIONS) {
        if positions.contains_key(&step.id) {
            continue;
        }
        if let Some(StoredContext::Readable(context)) = tx.jobs().step_context(step.id).await?
            && let Some(items) = items_behind(&context)
        {
            positions.insert(step.id, items);
        }
    }
    Ok(positions)
}

/// A restart resumes at the last step of the last execution that did not complete.
fn resume(steps: &[StepRecord], positions: &HashMap<StepExecutionId, u64>) -> Option<Resume> {
    let is_open = |step: &&StepRecord| step.status != BatchStatus::Completed;
    let step = steps.iter().filter(|step| !is_partition(step)).rfind(is_open)?;
    let prefix = format!("{}:", step.name);
    let parts: Vec<&StepRecord> = steps.iter().filter(|part| part.name.starts_with(&prefix)).collect();
    let place = match (positions.get(&step.id), parts.len()) {
        (Some(items), _) => format!(" at item {}", number(*items)),
        (None, 0) => String::new(),
        (None, all) => {
            format!(": {} of {all} partitions left", parts.into_iter().filter(is_open).count())
        }
    };
    Some(Resume { step: step.name.clone(), place })
}

async fn same_error(tx: &mut Tx, execution: &ExecutionRecord) -> Result<usize, StoreError> {
    if !execution.status.is_unsuccessful() || execution.exit.description.is_empty() {
        return Ok(0);
    }
    let of_job = ExecutionFilter { job: Some(execution.job.clone()), ..ExecutionFilter::default() };
    let before = tx.jobs().executions(&of_job, Some(execution.id), COMPARED).await?;
    Ok(before.iter().filter(|other| other.exit.description == execution.exit.description).count())
}
