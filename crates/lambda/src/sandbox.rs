//! What stays in the memory of a sandbox between two calls: the function with its connection to the database.
//!
//! Lambda freezes a sandbox after each answer. It thaws it for the next call, perhaps hours later, or never.

use crate::environment::Environment;
use lambda_runtime::{Diagnostic, LambdaEvent};
use serde_json::Value;
use std::time::Duration;
use tidemill_domain::time::{Clock, Timestamp};
use tidemill_engine::SystemClock;
use tidemill_server::lambda::function::{Function, FunctionError};
use tidemill_store::Store;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// Of each call, for its end and for the way of its answer.
const SPARE: Duration = Duration::from_secs(1);
const REST_WITHIN: Duration = Duration::from_millis(500);
/// Lambda gives a new sandbox ten seconds.
const WARM_WITHIN: Duration = Duration::from_secs(8);

/// Where the configuration comes from.
type Configure = fn() -> Result<Environment, FunctionError>;

pub(crate) struct Sandbox {
    configure: Configure,
    function: Mutex<Option<Function>>,
    clock: SystemClock,
}

impl Sandbox {
    pub(crate) fn new(configure: Configure) -> Self {
        Self { configure, function: Mutex::default(), clock: SystemClock::new() }
    }

    /// Connects before the first call. If that fails, the first call tries again, and tells its caller why it fails.
    pub(crate) async fn warm_up(&self) {
        match timeout(WARM_WITHIN, self.open()).await {
            Ok(Ok(function)) => self.keep(function).await,
            Ok(Err(error)) => tracing::warn!(error.kind, error.message, "the function could not be prepared"),
            Err(_) => tracing::warn!("the database did not answer in time"),
        }
    }

    pub(crate) async fn call(&self, event: LambdaEvent<Value>) -> Result<Value, Diagnostic> {
        let (payload, context) = event.into_parts();
        let deadline = Timestamp::EPOCH.plus(Duration::from_millis(context.deadline));
        let time_left = || deadline.since(self.clock.now()).saturating_sub(SPARE);
        let function = match timeout(time_left(), self.ready()).await {
            Ok(ready) => ready.map_err(diagnostic)?,
            Err(_) => return Err(diagnostic(FunctionError::too_late())),
        };
        let answer = function.call(&payload, &context.request_id, time_left()).await;
        self.keep(function).await;
        answer.map_err(diagnostic)
    }

    /// The function, with a connection that works.
    async fn ready(&self) -> Result<Function, FunctionError> {
        let kept = self.function.lock().await.take();
        // One that is not connected ends first: there may be no room for two connections.
        if let Some(function) = kept
            && function.is_connected().await
        {
            return Ok(function);
        }
        self.open().await
    }

    async fn open(&self) -> Result<Function, FunctionError> {
        let Environment { url, store: options, init, function } = (self.configure)()?;
        let store = Store::open(url, &options).await.map_err(|error| FunctionError::from(&error))?;
        store.initialise(init).await.map_err(|error| FunctionError::from(&error))?;
        Ok(Function::new(store, function))
    }

    /// Keeps the function for the next call, unless it does not come to rest: its connections would break in the middle.
    async fn keep(&self, function: Function) {
        if timeout(REST_WITHIN, function.rest()).await.is_ok() {
            *self.function.lock().await = Some(function);
        }
    }
}

fn diagnostic(error: FunctionError) -> Diagnostic {
    Diagnostic { error_type: error.kind, error_message: error.message }
}
