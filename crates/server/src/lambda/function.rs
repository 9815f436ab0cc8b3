//! Tidemill as a function that AWS Lambda runs: direct invocations, and HTTP requests of its function URL or of API Gateway.
//!
//! Lambda freezes the process between two calls. So the function works only while it is called, holds no lease, and has no
//! row among the processes.

mod http_event;

use super::reply::INVALID_REQUEST;
use super::{Failed, LambdaOptions, run};
use crate::access::limit::Rates;
use crate::access::{Authentication, Principal, Via};
use crate::api::pool::emr_agent::{BadField, Call, EmrAgentOptions};
use crate::api::pool::sdk_call;
use crate::problem::Problem;
use crate::route::{is_about_pools, routes};
use crate::server::{ServerOptions, app_of, state};
use crate::state::{Parts, RenderPart, State};
use axum::Router;
use serde_json::Value;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::Role;
use tidemill_domain::code::Code;
use tidemill_domain::error_chain::ErrorChain;
use tidemill_domain::render::Policy;
use tidemill_domain::schedule::Zone;
use tidemill_engine::job::{JobRegistry, Launcher};
use tidemill_engine::pool::{PoolOptions, Pools};
use tidemill_engine::{Process, SystemClock};
use tidemill_store::{Store, StoreError};

/// Whoever may invoke the function, which AWS has checked.
const INVOKER: &str = "aws-lambda";
/// For the answer of a request whose wait has ended.
const ANSWER_TIME: Duration = Duration::from_secs(2);
/// A database that takes longer has lost the connection, without a sign.
const CONNECTED_WITHIN: Duration = Duration::from_secs(1);

/// What the caller of the function gets instead of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionError {
    pub kind: String,
    pub message: String,
}

impl FunctionError {
    /// The error code is the kind.
    pub fn new(code: Code, what: impl std::fmt::Display, fix: impl std::fmt::Display) -> Self {
        Self { kind: code.to_string(), message: format!("{what}; {fix}") }
    }

    /// The call has no time left.
    pub fn too_late() -> Self {
        let what = "the database did not answer before the timeout of the function";
        let fix = "try again; if it fails again, check that the function reaches the database, and raise its timeout";
        Self::new(Code::DatabaseUnreachable, what, fix)
    }
}

impl From<&StoreError> for FunctionError {
    fn from(error: &StoreError) -> Self {
        tracing::error!(error = %ErrorChain(error), "the database cannot be used");
        Self::new(error.code(), error, error.fix())
    }
}

impl From<BadField> for FunctionError {
    fn from(error: BadField) -> Self {
        Self { kind: INVALID_REQUEST.to_owned(), message: error.to_string() }
    }
}

impl From<Problem> for FunctionError {
    fn from(problem: Problem) -> Self {
        Self::new(problem.code(), problem.detail(), problem.remedy())
    }
}

impl From<Failed> for FunctionError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Invalid(error) => error.into(),
            Failed::Refused(problem) => problem.into(),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct FunctionOptions {
    pub emr_agent: EmrAgentOptions,
    pub pools: PoolOptions,
    pub version: String,
}

/// The pool API on one database, for one call at a time.
#[derive(Debug)]
pub struct Function {
    state: State,
    router: Router,
}

impl Function {
    /// Needs a runtime.
    pub fn new(store: Store, options: FunctionOptions) -> Self {
        let clock = Arc::new(SystemClock::new());
        let process = Process::unregistered(store.clone(), clock.clone());
        let launcher = Launcher::new(store.clone(), process.clone(), clock.clone(), JobRegistry::default());
        let parts = Parts {
            store: store.clone(),
            process,
            launcher,
            pools: Pools::start(store, options.pools),
            render: RenderPart {
                policy: Policy::standard().expect("the standard rules are valid"),
                worker: None,
                posters: None,
                zone: Zone::UTC,
                staging: None,
                targets: None,
            },
            action: None,
            rules: Vec::new(),
            clock,
            metrics: None,
            configuration: Vec::new(),
            version: options.version,
        };
        let state = state(
            ServerOptions {
                // Nothing listens.
                listen: (Ipv4Addr::LOCALHOST, 0).into(),
                base_path: String::new(),
                instance: INVOKER.to_owned(),
                authentication: Authentication::Required { issuers: Vec::new() },
                rates: Rates::default(),
                connections_per_address: None,
                is_behind_tls: true,
                emr_agent: options.emr_agent,
                lambda: LambdaOptions::default(),
            },
            parts,
        );
        let table = routes().into_iter().filter(is_about_pools).collect();
        Self { router: app_of(table, state.clone()), state }
    }

    /// Answers one call. A request that waits for units ends in time to be answered within `time_left`, and keeps its place.
    /// `request_id` is the same in each attempt of an asynchronous call.
    #[crate::boxed]
    pub async fn call(
        &self,
        event: &Value,
        request_id: &str,
        time_left: Duration,
    ) -> Result<Value, FunctionError> {
        self.state.inner().stopping.send_replace(false);
        let mut work = pin!(self.answer(event, request_id));
        tokio::select! {
            answer = &mut work => return answer,
            () = tokio::time::sleep(time_left.saturating_sub(ANSWER_TIME)) => {
                self.state.inner().stopping.send_replace(true);
            }
        }
        let answer = tokio::time::timeout(time_left.min(ANSWER_TIME), work).await;
        answer.unwrap_or_else(|_| Err(FunctionError::too_late()))
    }

    async fn answer(&self, event: &Value, request_id: &str) -> Result<Value, FunctionError> {
        if http_event::is_http(event) {
            return Ok(http_event::serve(self.router.clone(), event).await?);
        }
        let principal = Principal {
            name: INVOKER.to_owned(),
            caller: INVOKER.to_owned(),
            role: Role::Requester,
            scopes: Vec::new(),
            via: Via::Bearer,
            request_id: request_id.to_owned(),
        };
        let call = Some(sdk_call(&principal, request_id, &event.to_string()));
        let call = Call { state: &self.state, principal: &principal, call, is_present: true };
        Ok(run(call, event).await?)
    }

    /// Whether the database answers. Connections may have died while the process was frozen.
    #[crate::boxed]
    pub async fn is_connected(&self) -> bool {
        matches!(tokio::time::timeout(CONNECTED_WITHIN, self.state.store().read()).await, Ok(Ok(_)))
    }

    /// Ends all work, so that the process can be frozen: neither a transaction nor a wake-up is left half done.
    #[crate::boxed]
    pub async fn rest(&self) {
        self.state.pools().rest().await;
        self.state.store().flush().await;
        // Transactions that only read end a little after they are dropped. The only connection is free once they have.
        if let Ok(tx) = self.state.store().alone_reading().await {
            // Behind a transaction pooler this is a transaction, too.
            let _ended = tx.rollback().await;
        }
    }
}
