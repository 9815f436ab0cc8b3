//! Executions of jobs, with their steps, contexts and rejected items.

use crate::shapes;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use tidemill_domain::job::parameter::ParameterType;
use tidemill_domain::job::{BatchStatus, Counters};
use tidemill_domain::time::Timestamp;
use tidemill_store::job::{
    self as store, ExecutionRecord, Owner, ParameterRecord, RejectRecord, StepRecord, StoredContext,
};

shapes! {
    /// A run of a job.
    pub struct Execution from record: &ExecutionRecord {
        /// Later executions have higher numbers.
        id: i64 = record.id.get(),
        /// Name of the job.
        job: String = record.job.clone(),
        /// Id of the instance.
        instance: i64 = record.instance.get(),
        /// `STARTING`, `STARTED`, `STOPPING`, `STOPPED`, `COMPLETED`, `FAILED`, `ABANDONED` or `UNKNOWN`.
        status: &'static str = record.status.as_str(),
        exit_code: String = record.exit.code.clone(),
        /// How the execution ended, or the error.
        exit_description: String = record.exit.description.clone(),
        created_at: Timestamp = record.created_at,
        started_at: Option<Timestamp> = record.started_at,
        ended_at: Option<Timestamp> = record.ended_at,
        /// Null if Spring Batch launched the execution.
        launched_by: Option<String> = record.launched_by.clone(),
        /// Whether Spring Batch wrote the execution.
        is_foreign: bool = record.is_foreign,
        /// Number of automatic restarts that led to this execution.
        crash_restarts: u32 = record.crash_restarts,
    }

    /// An execution with its parameters and its process.
    pub struct ExecutionDetail from (detail, now): (&store::ExecutionDetail, Timestamp) {
        execution: Execution = Execution::from(&detail.execution),
        parameters: Vec<JobParameter> = detail.parameters.iter().map(JobParameter::from).collect(),
        /// The current process, or the last one; null if Spring Batch wrote the execution.
        owner: Option<ExecutionOwner> =
            detail.owner.as_ref().map(|owner| ExecutionOwner::from((owner, now))),
        stop_request: Option<StopRequest> = detail.stop.as_ref().map(StopRequest::from),
        /// What happens when the process dies: `fail` or `restart`.
        on_crash: Option<&'static str> = detail.on_crash.map(|on_crash| on_crash.as_str()),
        /// Whether an automatic restart is pending.
        is_restart_due: bool = detail.is_restart_due,
    }

    /// A parameter of an execution.
    pub struct JobParameter from record: &ParameterRecord {
        name: String = record.name.clone(),
        value: String = record.value.clone(),
        /// `string`, `long`, `double`, `date`, `time` or `datetime`; a Java class if Tidemill does not know the type.
        #[serde(rename = "type")]
        kind: String = match record.class.parse::<ParameterType>() {
            Ok(kind) => kind.as_str().to_owned(),
            Err(_) => record.class.clone(),
        },
        /// Whether the parameter is part of the identity of the instance.
        is_identifying: bool = record.is_identifying,
    }

    /// The process that runs or ran an execution.
    pub struct ExecutionOwner from (owner, now): (&Owner, Timestamp) {
        /// Id of the process.
        process: String = owner.id.to_string(),
        /// Null if the process ended long ago.
        name: Option<String> = owner.process.as_ref().map(|process| process.identity.name.clone()),
        /// `live`, `silent`, `dead` or `stopped`; null if the process ended long ago.
        state: Option<&'static str> = owner.process.as_ref().map(|process| process.state.word(now)),
        /// Whether the process holds the lease of the execution.
        holds_lease: bool = owner.holds_lease,
    }

    /// A request to stop an execution.
    pub struct StopRequest from stop: &store::StopRequest {
        at: Timestamp = stop.at,
        by: String = stop.by.clone(),
        reason: Option<String> = stop.reason.clone(),
    }

    /// A run of a step.
    pub struct Step from record: &StepRecord {
        id: i64 = record.id.get(),
        name: String = record.name.clone(),
        status: &'static str = record.status.as_str(),
        exit_code: String = record.exit.code.clone(),
        /// How the step ended, or the error.
        exit_description: String = record.exit.description.clone(),
        counters: StepCounters = StepCounters::from(&record.counters),
        /// Number of items to read, if known.
        total_items: Option<u64> = record.total_items,
        /// `exactly-once`, or `at-least-once` if a crash can repeat up to one chunk.
        delivery: Option<String> = record.delivery.clone(),
        /// The current process of a partition, or the last one.
        process: Option<String> = record.process.clone(),
        started_at: Option<Timestamp> = record.started_at,
        ended_at: Option<Timestamp> = record.ended_at,
    }

    /// Counters of a step.
    pub struct StepCounters from counters: &Counters {
        /// Items read.
        read: u64 = counters.read,
        /// Items written.
        write: u64 = counters.write,
        /// Items that a processor filtered out.
        filter: u64 = counters.filter,
        /// Items skipped because they could not be read.
        read_skip: u64 = counters.read_skip,
        /// Items skipped because they could not be processed.
        process_skip: u64 = counters.process_skip,
        /// Items skipped because they could not be written.
        write_skip: u64 = counters.write_skip,
        /// Committed chunks.
        commit: u64 = counters.commit,
        /// Chunks that were rolled back.
        rollback: u64 = counters.rollback,
    }

    /// An item that a step skipped.
    pub struct Reject from record: &RejectRecord {
        /// Later rejects have higher numbers.
        id: i64 = record.id,
        at: Timestamp = record.at,
        /// `read`, `process` or `write`.
        phase: String = record.phase.clone(),
        /// Kind of the error.
        kind: String = record.kind.clone(),
        error: String = record.error.clone(),
        /// Where the item was read, such as a line of a file.
        place: Option<String> = record.place.clone(),
        item: Option<String> = record.item.clone(),
    }

    /// The stored context of an execution or a step.
    #[derive(Default)]
    pub struct ExecutionContext {
        /// Values by name, of Spring Batch too; null if the context cannot be read.
        #[schema(value_type = Option<Object>)]
        values: Option<Map<String, Value>>,
        /// The stored text, if it cannot be read: for example if it has an object of a class that only Java knows.
        foreign: Option<String>,
    }

    /// An execution with its steps: what `-o json` and the download of its page have.
    pub struct ExecutionReport {
        #[serde(flatten)]
        detail: ExecutionDetail,
        steps: Vec<Step>,
        #[serde(skip_serializing_if = "Option::is_none")]
        contexts: Option<ExecutionContexts>,
    }

    /// The contexts of an execution and its steps.
    pub struct ExecutionContexts {
        job: ExecutionContext,
        /// By the name of the step.
        steps: BTreeMap<String, ExecutionContext>,
    }

    /// Filters for a list of executions.
    pub struct ListExecutions in query {
        /// Maximum number of executions, from 1 to 500. Default 50.
        limit: Option<u32>,
        /// Only executions with a lower id, for the next page: `next` of the previous page.
        before: Option<i64>,
        /// Name of the job.
        job: Option<String>,
        /// Such as `FAILED`.
        status: Option<String>,
        /// Id of the instance.
        instance: Option<i64>,
    }

    /// Which output of an execution to read.
    pub struct ReadLogs in query {
        /// Only the output of the step with this name.
        step: Option<String>,
    }

    /// Filters for a list of rejects.
    pub struct ListRejects in query {
        /// Maximum number of rejects, from 1 to 500. Default 50.
        limit: Option<u32>,
        /// Only rejects after this id: `next` of the previous page.
        after: Option<i64>,
    }

    /// Request to restart an execution.
    #[derive(Default)]
    #[schema(example = json!({ "reason": "the file has been corrected" }))]
    pub struct RestartExecution in body {
        /// Kept in the audit log.
        reason: Option<String>,
        /// Restart even if the definition of the job has changed.
        #[serde(default)]
        accept_change: bool,
    }
}

impl From<StoredContext> for ExecutionContext {
    fn from(context: StoredContext) -> Self {
        match context {
            StoredContext::Foreign(text) => Self { values: None, foreign: Some(text) },
            StoredContext::Readable(context) => {
                let values = context.iter().map(|(key, value)| (key.to_owned(), value.clone()));
                Self { values: Some(values.collect()), foreign: None }
            }
        }
    }
}

impl ExecutionContext {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.values.as_ref().map_or(usize::from(self.foreign.is_some()), Map::len)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As JSON, sorted by name at every depth; the stored text if it is foreign.
    pub fn to_text(&self) -> String {
        match (&self.values, &self.foreign) {
            (Some(values), _) => {
                let mut values = Value::Object(values.clone());
                values.sort_all_objects();
                format!("{values:#}")
            }
            (None, Some(text)) => text.clone(),
            (None, None) => String::new(),
        }
    }
}

impl ExecutionReport {
    /// Without contexts.
    pub fn new(detail: &store::ExecutionDetail, steps: &[StepRecord], now: Timestamp) -> Self {
        let steps = steps.iter().map(Step::from).collect();
        Self { detail: ExecutionDetail::from((detail, now)), steps, contexts: None }
    }
}

/// Whether a step is a partition of another step.
pub fn is_partition(step: &StepRecord) -> bool {
    step.name.contains(':')
}

/// The steps to show to people: if there are more than 20 partitions, completed partitions are left out.
pub fn steps_to_show(steps: &[StepRecord]) -> Vec<&StepRecord> {
    let has_many = steps.iter().filter(|step| is_partition(step)).count() > 20;
    let is_shown =
        |step: &&StepRecord| !has_many || !is_partition(step) || step.status != BatchStatus::Completed;
    steps.iter().filter(is_shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_context_is_sorted_at_every_depth_and_keeps_numbers_exactly() {
        let values = json!({ "y": [{ "b": 1, "a": -1 }], "x": { "z": 1, "a": 9_007_199_254_740_993_u64 } });
        let context = ExecutionContext { values: values.as_object().cloned(), foreign: None };

        let compact: String = context.to_text().split_whitespace().collect();
        assert_eq!(compact, r#"{"x":{"a":9007199254740993,"z":1},"y":[{"a":-1,"b":1}]}"#);
    }
}
