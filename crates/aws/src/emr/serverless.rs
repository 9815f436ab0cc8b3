//! A job run of EMR Serverless (REST with JSON). The key is its client token, by which the service recognises a repeated
//! request. It refuses the token if the request has changed, such as after another grant; then the job run is found by its
//! name, which ends with the key.

use super::{PAGES_MAX, name_end, named, remote, required, unsubmittable, work_name};
use crate::client::{AwsClient, Call, encoded};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tidemill_domain::job::spark::Submission;
use tidemill_engine::BoxFuture;
use tidemill_engine::job::{RemoteError, RemoteErrorKind, RemoteKey, RemoteState, RemoteWork};

/// The service refuses a shorter timeout.
const TIMEOUT_MIN_MINUTES: u64 = 5;

/// Without this setting, the service begins with 3 executors, even if fewer are granted.
const INITIAL_KEY: &str = "spark.dynamicAllocation.initialExecutors";

#[derive(Debug)]
pub(super) struct JobRun {
    pub(super) client: AwsClient,
    pub(super) application: String,
    pub(super) role: String,
    pub(super) logs: Option<String>,
    pub(super) timeout: Option<Duration>,
    pub(super) submission: Submission,
}

impl JobRun {
    /// `rest` comes after the path of all job runs.
    async fn call(&self, method: Method, rest: &str, body: String) -> Result<Value, RemoteError> {
        let path = format!("/applications/{}/jobruns{rest}", self.application);
        let call = Call { method, path: &path, content_type: "application/json", target: None, body };
        self.client.json(&call).await.map_err(remote)
    }

    /// The job run whose name ends with the key.
    async fn find(&self, key: &RemoteKey) -> Result<Option<String>, RemoteError> {
        let end = name_end(key);
        let mut token: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let next = token.as_deref().map(|token| ("nextToken", token));
            let fields: Vec<_> = std::iter::once(("maxResults", "50")).chain(next).collect();
            let query = format!("?{}", encoded(&fields));
            let page = self.call(Method::GET, &query, String::new()).await?;
            if let Some(run) = named(&page["jobRuns"], "name", &end) {
                return required(run["id"].as_str(), "id of the job run").map(Some);
            }
            token = page["nextToken"].as_str().map(str::to_owned);
            if token.is_none() {
                break;
            }
        }
        Ok(None)
    }

    async fn run(&self, key: &RemoteKey) -> Result<String, RemoteError> {
        // As properties, because values with spaces, such as hints, have no safe form in `sparkSubmitParameters`.
        let mut settings = self.submission.settings().map_err(unsubmittable)?;
        let executors = settings.get("spark.executor.instances").cloned();
        if let (Some(_), Some(executors)) = (&self.submission.granted, executors) {
            settings.entry(INITIAL_KEY.to_owned()).or_insert(executors);
        }
        let spark = json!([{ "classification": "spark-defaults", "properties": settings }]);
        let mut overrides = json!({ "applicationConfiguration": spark });
        if let Some(logs) = &self.logs {
            overrides["monitoringConfiguration"] = json!({ "s3MonitoringConfiguration": { "logUri": logs } });
        }
        let mut body = json!({
            "clientToken": key.token,
            "name": work_name(key),
            "executionRoleArn": self.role,
            "jobDriver": { "sparkSubmit": {
                "entryPoint": self.submission.app,
                "entryPointArguments": self.submission.args,
            } },
            "configurationOverrides": overrides,
        });
        if let Some(timeout) = self.timeout {
            // If this process cannot cancel it, the service does.
            let minutes = timeout.as_secs().div_ceil(60).max(TIMEOUT_MIN_MINUTES);
            body["executionTimeoutMinutes"] = json!(minutes);
        }
        match self.call(Method::POST, "", body.to_string()).await {
            Ok(started) => required(started["jobRunId"].as_str(), "jobRunId"),
            Err(refusal) if key.may_have_started && refusal.kind == RemoteErrorKind::Refused => {
                self.find(key).await?.ok_or(refusal)
            }
            Err(error) => Err(error),
        }
    }

    async fn look(&self, id: &str) -> Result<RemoteState, RemoteError> {
        let found = self.call(Method::GET, &format!("/{id}"), String::new()).await?;
        let run = &found["jobRun"];
        let state = required(run["state"].as_str(), "state of the job run")?;
        let ended = match state.as_str() {
            "SUCCESS" => RemoteState::Completed,
            "FAILED" => RemoteState::Failed,
            "CANCELLED" => RemoteState::Cancelled,
            _ => return Ok(RemoteState::Running),
        };
        let details = run["stateDetails"].as_str().map(str::trim).filter(|details| !details.is_empty());
        let details = details.map(|details| format!(": {details}")).unwrap_or_default();
        let logs = match &self.logs {
            Some(logs) => {
                let folder = logs.trim_end_matches('/');
                format!("{folder}/applications/{}/jobs/{id}/", self.application)
            }
            None => "in EMR Studio".to_owned(),
        };
        Ok(ended(format!("{} ended as {state}{details}; logs: {logs}", self.name(id))))
    }
}

impl RemoteWork for JobRun {
    fn start<'a>(&'a self, key: &'a RemoteKey) -> BoxFuture<'a, Result<String, RemoteError>> {
        Box::pin(self.run(key))
    }

    fn state<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<RemoteState, RemoteError>> {
        Box::pin(self.look(id))
    }

    fn cancel<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), RemoteError>> {
        Box::pin(async move { self.call(Method::DELETE, &format!("/{id}"), String::new()).await.map(drop) })
    }

    fn name(&self, id: &str) -> String {
        format!("job run {id} of the EMR Serverless application {}", self.application)
    }
}
