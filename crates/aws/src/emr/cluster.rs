//! A step of a running cluster (`elasticmapreduce`, JSON 1.1). The service has no token for repeated requests, so the name of
//! the step ends with the key. If an earlier attempt may have added it, a step with this name is looked for first, among the
//! newest 1000.

use super::{PAGES_MAX, name_end, named, remote, required, unsubmittable, work_name};
use crate::client::{AwsClient, Call};
use reqwest::Method;
use serde_json::{Value, json};
use tidemill_domain::job::spark::Submission;
use tidemill_engine::BoxFuture;
use tidemill_engine::job::{RemoteError, RemoteKey, RemoteState, RemoteWork};

#[derive(Debug)]
pub(super) struct ClusterStep {
    pub(super) client: AwsClient,
    pub(super) cluster: String,
    pub(super) role: Option<String>,
    pub(super) submission: Submission,
}

impl ClusterStep {
    async fn call(&self, operation: &str, body: Value) -> Result<Value, RemoteError> {
        let target = format!("ElasticMapReduce.{operation}");
        let call = Call {
            method: Method::POST,
            path: "/",
            content_type: "application/x-amz-json-1.1",
            target: Some(&target),
            body: body.to_string(),
        };
        self.client.json(&call).await.map_err(remote)
    }

    /// The step whose name ends with the key.
    async fn find(&self, key: &RemoteKey) -> Result<Option<String>, RemoteError> {
        let end = name_end(key);
        let mut marker = Value::Null;
        for _ in 0..PAGES_MAX {
            let mut body = json!({ "ClusterId": self.cluster });
            if !marker.is_null() {
                body["Marker"] = marker;
            }
            let page = self.call("ListSteps", body).await?;
            if let Some(step) = named(&page["Steps"], "Name", &end) {
                return required(step["Id"].as_str(), "Id of the step").map(Some);
            }
            marker = page["Marker"].clone();
            if marker.is_null() {
                break;
            }
        }
        Ok(None)
    }

    async fn add(&self, key: &RemoteKey) -> Result<String, RemoteError> {
        let found = if key.may_have_started { self.find(key).await? } else { None };
        if let Some(id) = found {
            return Ok(id);
        }
        let mut submission = self.submission.clone();
        // The driver runs on the cluster too, and its end is the end of the step.
        submission.conf.entry("spark.submit.deployMode".to_owned()).or_insert_with(|| "cluster".to_owned());
        let arguments = submission.arguments().map_err(unsubmittable)?;
        let words: Vec<String> = std::iter::once("spark-submit".to_owned()).chain(arguments).collect();
        let mut body = json!({
            "JobFlowId": self.cluster,
            "Steps": [{
                "Name": work_name(key),
                "ActionOnFailure": "CONTINUE",
                "HadoopJarStep": { "Jar": "command-runner.jar", "Args": words },
            }],
        });
        if let Some(role) = &self.role {
            body["ExecutionRoleArn"] = json!(role);
        }
        let added = self.call("AddJobFlowSteps", body).await?;
        required(added["StepIds"][0].as_str(), "StepIds")
    }

    async fn look(&self, id: &str) -> Result<RemoteState, RemoteError> {
        let found = self.call("DescribeStep", json!({ "ClusterId": self.cluster, "StepId": id })).await?;
        let status = &found["Step"]["Status"];
        let state = required(status["State"].as_str(), "State of the step")?;
        let ended = match state.as_str() {
            "COMPLETED" => RemoteState::Completed,
            "FAILED" | "INTERRUPTED" => RemoteState::Failed,
            "CANCELLED" => RemoteState::Cancelled,
            _ => return Ok(RemoteState::Running),
        };
        let failure = &status["FailureDetails"];
        let reasons = [&failure["Reason"], &failure["Message"], &status["StateChangeReason"]["Message"]];
        let why: String = reasons
            .iter()
            .filter_map(|reason| reason.as_str())
            .map(|reason| format!(": {}", reason.trim()))
            .collect();
        let logs = match failure["LogFile"].as_str() {
            Some(file) => file.to_owned(),
            None => self.logs(id).await,
        };
        Ok(ended(format!("{} ended as {state}{why}; logs: {logs}", self.name(id))))
    }

    /// Where the cluster writes its logs; the console if that is not known.
    async fn logs(&self, id: &str) -> String {
        let (cluster, region) = (&self.cluster, self.client.region());
        let found = self.call("DescribeCluster", json!({ "ClusterId": cluster })).await.unwrap_or_default();
        match found["Cluster"]["LogUri"].as_str() {
            Some(uri) => {
                format!("{}/{cluster}/steps/{id}/", uri.trim_end_matches('/').replace("s3n://", "s3://"))
            }
            None => format!(
                "https://{region}.console.aws.amazon.com/emr/home?region={region}#/clusterDetails/{cluster}"
            ),
        }
    }

    async fn end(&self, id: &str) -> Result<(), RemoteError> {
        let body = json!({
            "ClusterId": self.cluster,
            "StepIds": [id],
            "StepCancellationOption": "TERMINATE_PROCESS",
        });
        self.call("CancelSteps", body).await.map(drop)
    }
}

impl RemoteWork for ClusterStep {
    fn start<'a>(&'a self, key: &'a RemoteKey) -> BoxFuture<'a, Result<String, RemoteError>> {
        Box::pin(self.add(key))
    }

    fn state<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<RemoteState, RemoteError>> {
        Box::pin(self.look(id))
    }

    fn cancel<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), RemoteError>> {
        Box::pin(self.end(id))
    }

    fn name(&self, id: &str) -> String {
        format!("step {id} of the EMR cluster {}", self.cluster)
    }
}
