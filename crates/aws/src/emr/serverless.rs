//! A job run of EMR Serverless (REST with JSON). The key is its client token, by which the service recognises a repeated
//! request.

use super::{remote, required, unsubmittable};
use crate::client::{AwsClient, Call};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;
use tidemill_domain::job::spark::Submission;
use tidemill_engine::BoxFuture;
use tidemill_engine::job::{RemoteError, RemoteKey, RemoteState, RemoteWork};

/// The service refuses a shorter timeout.
const TIMEOUT_MIN_MINUTES: u64 = 5;

const NAME_CHARS_MAX: usize = 256;

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
    async fn call(&self, method: Method, id: Option<&str>, body: String) -> Result<Value, RemoteError> {
        let application = &self.application;
        let run = id.map(|id| format!("/{id}")).unwrap_or_default();
        let path = format!("/applications/{application}/jobruns{run}");
        let call = Call { method, path: &path, content_type: "application/json", target: None, body };
        self.client.json(&call).await.map_err(remote)
    }

    async fn run(&self, key: &RemoteKey) -> Result<String, RemoteError> {
        // As properties, because values with spaces, such as hints, have no safe form in `sparkSubmitParameters`.
        let settings = self.submission.settings().map_err(unsubmittable)?;
        let spark = json!([{ "classification": "spark-defaults", "properties": settings }]);
        let mut overrides = json!({ "applicationConfiguration": spark });
        if let Some(logs) = &self.logs {
            overrides["monitoringConfiguration"] = json!({ "s3MonitoringConfiguration": { "logUri": logs } });
        }
        let mut body = json!({
            "clientToken": key.token,
            "name": key.label.chars().take(NAME_CHARS_MAX).collect::<String>(),
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
        let started = self.call(Method::POST, None, body.to_string()).await?;
        required(started["jobRunId"].as_str(), "jobRunId")
    }

    async fn look(&self, id: &str) -> Result<RemoteState, RemoteError> {
        let found = self.call(Method::GET, Some(id), String::new()).await?;
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
        Box::pin(async move { self.call(Method::DELETE, Some(id), String::new()).await.map(drop) })
    }

    fn name(&self, id: &str) -> String {
        format!("job run {id} of the EMR Serverless application {}", self.application)
    }
}
