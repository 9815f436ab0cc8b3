//! Pools by HTTP: the EMR Batch Agent API, calls in the form of AWS Lambda, and the native API.

mod api;
mod breaker;
mod call;
mod emr_agent;
mod endpoint_token;
mod invoke;
mod outdated;
mod sign;
mod signed;

use crate::{Answer, App, Choices};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use tidemill_server::access::Authentication;
use tidemill_server::api::pool::emr_agent::EmrAgentOptions;

/// The address of the agent's function.
const INVOKE: &str = "/2015-03-31/functions/emr-batch-agent/invocations";

impl App {
    /// An open server with the pool of the agent's examples, of 1000 connections.
    async fn adw() -> Self {
        let app = Self::open().await;
        app.pool("ADW", 4, 1000).await;
        app
    }

    /// One that counts `available` as the agent does.
    async fn compatible() -> Self {
        let emr_agent = EmrAgentOptions { compat_available: true, ..EmrAgentOptions::default() };
        let choices = Choices { emr_agent, ..Choices::default() };
        let app = Self::choosing(Authentication::None, "", choices).await;
        app.pool("ADW", 4, 1000).await;
        app
    }

    async fn pool(&self, name: &str, id: i64, max_units: u32) {
        let body = json!({
            "name": name, "external_id": id, "max_units": max_units, "threshold_percent": 95,
            "default_units": 8, "min_units": 2,
        });
        let made = self.ask(Method::POST, "/api/v1/pools", &[], &body.to_string()).await;
        assert_eq!(made.status, StatusCode::CREATED, "{made:?}");
    }

    /// Posts JSON the way the agent's clients do: without a `Content-Type`.
    async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_with(path, &[], body).await
    }

    async fn post_with(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let mut request =
            axum::http::Request::builder().method("POST").uri(path).header("host", "127.0.0.1:7790");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(axum::body::Body::from(body.to_string())).unwrap()).await
    }

    /// What the server tells about an acquire of this run.
    async fn acquire(&self, run: &str, parallel: u32) -> Value {
        let answer = self.post("/acquire", &acquire(run, parallel)).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        answer.json()
    }

    async fn release(&self, run: &str) -> Value {
        let answer = self.post("/release", &release(run)).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        answer.json()
    }

    async fn usage(&self, id: &str) -> Value {
        let status = self.ask(Method::GET, "/status", &[], "").await.json();
        status["sources"][id]["current_usage"].clone()
    }
}

fn acquire(run: &str, parallel: u32) -> Value {
    json!({
        "dag_id": "batch_001", "dag_run_id": run, "src_db_id": 4, "parallel_hint": parallel,
        "table_name": "SALES_ORDER",
    })
}

/// As the agent's release writes it: the number is a text.
fn release(run: &str) -> Value {
    json!({ "dag_id": "batch_001", "dag_run_id": run, "src_db_id": "4" })
}
