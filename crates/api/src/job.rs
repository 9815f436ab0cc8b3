//! Jobs and their instances.

use crate::execution::JobParameter;
use crate::shapes;
use serde_json::{Map, Value};
use tidemill_domain::job::parameter::ParameterSpec;
use tidemill_domain::time::Timestamp;
use tidemill_store::job::{self as store, InstanceRecord, JobRecord};

shapes! {
    /// A job.
    pub struct Job from (record, is_registered): (JobRecord, bool) {
        name: String = record.name,
        /// Whether this program can launch the job.
        is_registered: bool = is_registered,
        /// Number of instances, counted up to 1000.
        instances: u64 = record.instances,
        /// The last execution; null if the job never ran.
        last: Option<LastExecution> = record.last.map(LastExecution::from),
    }

    /// The last execution of a job or instance.
    pub struct LastExecution from last: store::LastExecution {
        /// Id of the execution.
        execution: i64 = last.id.get(),
        status: &'static str = last.status.as_str(),
        created_at: Timestamp = last.created_at,
    }

    /// A job with one set of identifying parameters.
    pub struct JobInstance from record: &InstanceRecord {
        id: i64 = record.id.get(),
        /// Name of the job.
        job: String = record.job.clone(),
        /// Hash of the identifying parameters.
        key: String = record.key.clone(),
        /// Number of executions, counted up to 1000.
        executions: u64 = record.executions,
        last: Option<LastExecution> = record.last.map(LastExecution::from),
        /// Parameters of the last execution.
        parameters: Vec<JobParameter> = record.parameters.iter().map(JobParameter::from).collect(),
    }

    /// A parameter that a job declares.
    pub struct ParameterDefinition from spec: &ParameterSpec {
        name: String = spec.name.clone(),
        /// `string`, `long`, `double`, `date`, `time` or `datetime`.
        #[serde(rename = "type")]
        kind: &'static str = spec.kind.as_str(),
        is_required: bool = spec.is_required,
        /// Whether the parameter is part of the identity of an instance.
        is_identifying: bool = spec.is_identifying,
    }

    /// A job with its definition.
    pub struct JobDetail {
        name: String,
        /// The last execution; null if the job never ran.
        last: Option<LastExecution>,
        /// Null if this program cannot launch the job.
        definition: Option<JobDefinition>,
    }

    /// The definition of a job.
    pub struct JobDefinition {
        /// Whether an instance that did not complete can be launched again.
        is_restartable: bool,
        /// What happens when the process that runs the job dies: `fail` or `restart`.
        on_crash: &'static str,
        /// Maximum number of automatic restarts per instance.
        crash_restarts_max: u32,
        /// In the order in which they run.
        steps: Vec<StepDefinition>,
        /// The declared parameters. If there are none, the job accepts any parameter.
        parameters: Vec<ParameterDefinition>,
    }

    /// A step of a job.
    pub struct StepDefinition {
        name: String,
        /// Such as `chunk` or `tasklet`.
        #[serde(rename = "type")]
        kind: &'static str,
    }

    /// Filters for a list of jobs.
    pub struct ListJobs in query {
        /// Maximum number of jobs, from 1 to 500. Default 50.
        limit: Option<u32>,
    }

    /// Filters for a list of instances.
    pub struct ListInstances in query {
        /// Maximum number of instances, from 1 to 500. Default 50.
        limit: Option<u32>,
        /// Only instances before this id: `next` of the previous page.
        before: Option<i64>,
    }

    /// Request to launch a job.
    #[derive(Default)]
    #[schema(example = json!({ "parameters": { "day": "2026-11-15" } }))]
    pub struct LaunchJob in body {
        /// By name: a string, a number, or an object with `value` and optionally `type` and `identifying`.
        #[serde(default)]
        #[schema(value_type = std::collections::HashMap<String, Object>, example = json!({ "date": "2026-11-15", "n": { "value": 1, "type": "long", "identifying": false } }))]
        parameters: Map<String, Value>,
        /// Resume an instance even if the definition of the job has changed.
        #[serde(default)]
        accept_change: bool,
        /// Run a new instance: adds the next unused `run.id` to the parameters.
        #[serde(default)]
        next: bool,
    }
}

/// What a job does when its process dies, for people. `restarts_max` is the limit of its `OnCrash`.
pub fn on_crash_text(restarts_max: u32) -> String {
    match restarts_max {
        0 => "fails, and an operator decides".to_owned(),
        limit => format!("restarts automatically, at most {limit} times in a row"),
    }
}
