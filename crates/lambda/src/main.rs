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
use tokio::runtime::Builder;

fn main() -> Result<(), Error> {
    if std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_none() {
        return Err("this program runs only in AWS Lambda; elsewhere run `tidemill serve`".into());
    }
    tracing_subscriber::fmt()
        .json()
        .with_max_level(log_level())
        .with_writer(std::io::stderr)
        .with_target(false)
        .init();
    // There is one call at a time.
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let sandbox = Sandbox::new(Environment::of_process);
        sandbox.warm_up().await;
        lambda_runtime::run(service_fn(|event: LambdaEvent<Value>| sandbox.call(event))).await
    })
}
