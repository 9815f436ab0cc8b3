//! Tidemill as an AWS Lambda function: the pool API on PostgreSQL.
//!
//! Reading order: [`environment`] (the configuration), [`sandbox`] (what stays between two calls), and in `tidemill-server`
//! `lambda/function` (the function itself).

mod environment;
mod sandbox;

use environment::{Environment, log_level};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use sandbox::Sandbox;
use serde_json::Value;
use tidemill_store::trace;
use tokio::runtime::Builder;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

fn main() -> Result<(), Error> {
    if std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_none() {
        return Err("this program runs only in AWS Lambda; elsewhere run `tidemill serve`".into());
    }
    start_log(log_level());
    // There is one call at a time.
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let sandbox = Sandbox::new(Environment::of_process);
        sandbox.warm_up().await;
        lambda_runtime::run(service_fn(|event: LambdaEvent<Value>| sandbox.call(event))).await
    })
}

fn start_log(level: LevelFilter) {
    let shown = Targets::new()
        .with_default(level)
        // At `trace` it logs each event, with the token in its headers.
        .with_target("lambda_runtime", level.min(LevelFilter::DEBUG))
        .with_target(trace::TARGET, LevelFilter::OFF);
    let lines = tracing_subscriber::fmt::layer().json().with_writer(std::io::stderr).with_target(false);
    tracing_subscriber::registry().with(lines.with_filter(shown)).init();
}
