//! Jobs that read and write over HTTP, against a real service on loopback with its faults.
#![cfg(test)]

mod reader;
mod writer;

use serde_json::Value as Json;
use std::time::Duration;
use tidemill_engine::job::Job;
use tidemill_engine::testing::{JobBench, TestRun};
use tidemill_http::{HttpEndpoint, HttpRetry};
use tidemill_testkit::HttpService;

/// Short pauses, so that tests are quick.
fn endpoint(service: &HttpService, path: &str) -> HttpEndpoint {
    let retry = HttpRetry { backoff: Duration::from_millis(1), attempts: 3, ..HttpRetry::default() };
    HttpEndpoint::new(service.url(path)).retry(retry).timeout(Duration::from_secs(60))
}

/// Runs a job, or continues it.
async fn run(bench: &JobBench, job: &Job) -> TestRun {
    bench.run(job, &tidemill_domain::job::JobParameters::new()).await.unwrap()
}

fn failure(run: &TestRun) -> String {
    assert!(!run.is_completed());
    run.steps().map(|step| step.exit.description.clone()).collect()
}

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}
