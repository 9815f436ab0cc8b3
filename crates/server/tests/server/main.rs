//! The server in process: every request passes the same layers as over the network.
#![cfg(test)]

mod access;
mod action;
mod api;
mod crowd;
mod dashboard;
mod hang_up;
mod hostile;
mod job;
mod jwt;
mod lambda;
mod live;
mod outbox;
mod outbox_failed_event;
mod pool;
mod render;
mod render_batch;
mod render_selection;
mod schedule;
mod webhook;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::access::Token;
use tidemill_domain::audit::{Actor, Role};
use tidemill_domain::process::Identity;
use tidemill_domain::render::{LocalPath, Policy, Targets};
use tidemill_domain::schedule::Zone;
use tidemill_domain::time::FakeClock;
use tidemill_engine::job::{Job, JobRegistry, Launcher, LogFolder};
use tidemill_engine::pool::{PoolOptions, Pools};
use tidemill_engine::{Process, ProcessOptions};
use tidemill_server::access::Authentication;
use tidemill_server::access::jwt::Issuer;
use tidemill_server::access::limit::Rates;
use tidemill_server::action::ExtraAction;
use tidemill_server::api::pool::emr_agent::EmrAgentOptions;
use tidemill_server::lambda::LambdaOptions;
use tidemill_server::{ConfigLine, Parts, RenderPart, ServerOptions, State, app, state};
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;
use tidemill_store::token::NewToken;
use tower::ServiceExt;

/// Executions that a server under test runs at once.
const RUNNING_MAX: usize = 3;

/// Waits until something is so, in real time.
async fn until(patience: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(patience, waiting).await.unwrap_or_else(|_| panic!("waited in vain: {what}"));
}

/// A server on an empty database, with a clock that the test moves.
struct App {
    router: Router,
    state: State,
    store: Store,
    clock: Arc<FakeClock>,
    _scratch: Scratch,
}

/// What an installation may choose about callers of pools, about pictures of renders, and what it may add.
#[derive(Clone, Default)]
struct Choices {
    emr_agent: EmrAgentOptions,
    lambda: LambdaOptions,
    posters: Option<LocalPath>,
    /// UTC by default.
    zone: Option<Zone>,
    staging: Option<LocalPath>,
    targets: Option<Targets>,
    action: Option<Arc<dyn ExtraAction>>,
    /// Requests per minute and caller.
    per_caller: Option<u32>,
    /// Further jobs, and where the output of commands is kept.
    jobs: Vec<Job>,
    logs: Option<LogFolder>,
    /// Further keys and values of the configuration.
    configuration: Vec<(&'static str, &'static str)>,
}

/// What came back.
#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl App {
    /// One that asks everybody who they are.
    async fn closed() -> Self {
        Self::with(Authentication::Required { issuers: Vec::new() }, "").await
    }

    async fn open() -> Self {
        Self::with(Authentication::None, "").await
    }

    async fn trusting(issuers: Vec<Issuer>) -> Self {
        Self::with(Authentication::Required { issuers }, "").await
    }

    async fn with(authentication: Authentication, base_path: &str) -> Self {
        Self::choosing(authentication, base_path, Choices::default()).await
    }

    async fn choosing(authentication: Authentication, base_path: &str, choices: Choices) -> Self {
        Self::on(Scratch::file(), authentication, base_path, choices).await
    }

    /// One that asks everybody who they are, on PostgreSQL, for what SQLite cannot do.
    async fn on_postgres() -> Option<Self> {
        let required = Authentication::Required { issuers: Vec::new() };
        Some(Self::on(Scratch::postgres_with_schema().await?, required, "", Choices::default()).await)
    }

    async fn on(scratch: Scratch, authentication: Authentication, base_path: &str, choices: Choices) -> Self {
        let clock = Arc::new(FakeClock::at("2026-11-15T02:00:00Z".parse().unwrap()));
        let store = scratch.store(Some(clock.clone())).await.unwrap();
        let identity =
            Identity { name: "node-a".into(), host: "host".into(), pid: 7, version: "0.1.0".into() };
        let options = ProcessOptions { identity, ttl: Duration::from_secs(15) };
        let process = Process::register(store.clone(), clock.clone(), options).await.unwrap();
        let line = |key: &str, value: &str, origin: &str| ConfigLine {
            key: key.into(),
            value: value.into(),
            origin: origin.into(),
        };
        let jobs = JobRegistry::new(job::jobs().into_iter().chain(choices.jobs)).unwrap();
        let launcher =
            Launcher::new(store.clone(), process.clone(), clock.clone(), jobs).max_running(RUNNING_MAX);
        let launcher = launcher.logs(choices.logs);
        let parts = Parts {
            store: store.clone(),
            process,
            launcher,
            pools: Pools::start(store.clone(), PoolOptions::default()),
            render: RenderPart {
                policy: Policy::standard().unwrap(),
                worker: None,
                posters: choices.posters,
                zone: choices.zone.unwrap_or(Zone::UTC),
                staging: choices.staging,
                targets: choices.targets,
            },
            action: choices.action,
            rules: tidemill_engine::alert::default_rules(),
            clock: clock.clone(),
            metrics: None,
            configuration: [
                line("database.url", "postgres://u:***@h/d", "default"),
                line("process.lease", "15s", "default"),
                line("jobs.folder", "Ann's jobs", "flag --jobs"),
            ]
            .into_iter()
            .chain(choices.configuration.iter().map(|(key, value)| line(key, value, "file")))
            .collect(),
            version: "0.1.0".into(),
        };
        let options = ServerOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            base_path: base_path.to_owned(),
            instance: "test".into(),
            authentication,
            rates: Rates { per_caller: choices.per_caller.unwrap_or(100_000), failures: 5 },
            connections_per_address: None,
            is_behind_tls: false,
            emr_agent: choices.emr_agent,
            lambda: choices.lambda,
        };
        let state = state(options, parts);
        Self { router: app(state.clone()), state, store, clock, _scratch: scratch }
    }

    /// A token with this role.
    async fn token(&self, role: Role) -> String {
        let token = Token::from_random(&[role as u8 + 1; 16], &[role as u8 + 1; 32]);
        let new = NewToken {
            name: format!("the {role}"),
            role,
            scopes: Vec::new(),
            valid_for: Some(Duration::from_secs(86_400)),
        };
        let mut tx = self.store.begin().await.unwrap();
        if tx.tokens().authenticate(&token).await.unwrap().is_none() {
            tx.tokens().create(&token, &new, &Actor::system()).await.unwrap();
        }
        tx.commit().await.unwrap();
        token.expose()
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = axum::body::to_bytes(response.into_body(), 10 << 20).await.unwrap();
        Answer { status, headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
    }

    /// A request with these headers and, unless it is empty, a body of JSON.
    async fn ask(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let is_given = |name: &str| headers.iter().any(|(given, _)| *given == name);
        let mut request = Request::builder().method(method).uri(path);
        if !is_given("host") {
            request = request.header("host", "127.0.0.1:7790");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !body.is_empty() && !is_given("content-type") {
            request = request.header("content-type", "application/json");
        }
        self.send(request.body(Body::from(body.to_owned())).unwrap()).await
    }

    /// A request of somebody with this role.
    async fn ask_as(&self, role: Role, method: Method, path: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {}", self.token(role).await);
        self.ask(method, path, &[("authorization", &bearer)], body).await
    }
}
