//! Puts the parts together, listens, and stops in order.

use crate::access::limit::{Limits, Rates};
use crate::access::session::CookieName;
use crate::access::{Authentication, Entries, guard};
use crate::api::pool::emr_agent::EmrAgentOptions;
use crate::connection;
use crate::lambda::LambdaOptions;
use crate::live::{self, Live};
use crate::problem::Problem;
use crate::route::{Route, Surface, action_route, router, routes, streams, waits};
use crate::state::{Inner, Parts, State};
use crate::trace::traced;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State as Given};
use axum::http::{StatusCode, Uri};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::connection::Bounds;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tower_http::catch_panic::CatchPanicLayer;
use tracing::Instrument;

pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// For all requests but live streams.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// For requests that wait for units of a pool.
const WAITING_TIMEOUT: Duration = Duration::from_secs(58);
/// Maximum number of changes at once, including those whose clients have disconnected. SQLite runs them one after the other,
/// and a heartbeat must not wait long.
pub(crate) const CHANGES_MAX: u32 = 16;
/// For open requests when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
pub struct ServerOptions {
    pub listen: SocketAddr,
    /// URL prefix, such as `/tidemill`; may be empty.
    pub base_path: String,
    /// The name of this installation on pages.
    pub instance: String,
    pub authentication: Authentication,
    pub rates: Rates,
    /// Default: half of all connections.
    pub connections_per_address: Option<u32>,
    /// Whether browsers use TLS, which decides the name of the session cookie.
    pub is_behind_tls: bool,
    pub emr_agent: EmrAgentOptions,
    pub lambda: LambdaOptions,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Every client that reaches the address would be an administrator.
    #[error("the server does not listen on {address} without authentication")]
    OpenListener { address: SocketAddr },
    #[error("the server cannot listen on {address}")]
    CannotListen { address: SocketAddr, source: std::io::Error },
}

impl ServerError {
    pub fn code(&self) -> Code {
        match self {
            Self::OpenListener { .. } => Code::OpenListener,
            Self::CannotListen { .. } => Code::CannotListen,
        }
    }

    pub fn fix(&self) -> String {
        match self {
            Self::OpenListener { .. } => {
                "listen on 127.0.0.1, or set server.auth to \"required\" and create a token with `tidemill token create`".into()
            }
            Self::CannotListen { .. } => {
                "choose another address with --listen, or stop the process that uses this port".into()
            }
        }
    }
}

/// A server that already listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    bounds: Bounds,
    state: State,
}

impl Server {
    /// Listens. Connections queue until [`run`](Self::run).
    pub async fn bind(options: ServerOptions, mut parts: Parts) -> Result<Self, ServerError> {
        let address = options.listen;
        if matches!(options.authentication, Authentication::None) && !address.ip().is_loopback() {
            return Err(ServerError::OpenListener { address });
        }
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| ServerError::CannotListen { address, source })?;
        let address = listener.local_addr().unwrap_or(address);
        // The port may have been 0, for any.
        if let Some(line) = parts.configuration.iter_mut().find(|line| line.key == "server.listen") {
            line.value = address.to_string();
        }
        let bounds = connection::bounds_of_this_process(options.connections_per_address);
        Ok(Self { listener, address, bounds, state: state(options, parts) })
    }

    /// With the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` completes, then finishes open requests.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send + 'static) {
        let (stop, stopped) = watch::channel(false);
        let live = tokio::spawn(live::run(self.state.clone(), stopped.clone()));
        let app = app(self.state.clone());
        let state = self.state.clone();
        let draining = async move {
            shutdown.await;
            state.inner().is_draining.store(true, Ordering::Relaxed);
            state.inner().stopping.send_replace(true);
            stop.send_replace(true);
        };
        let mut late = stopped.clone();
        let changes = Arc::clone(&self.state.inner().changes);
        tokio::select! {
            () = async {
                connection::serve(self.listener, app, &self.state.inner().base_path, self.bounds, draining).await;
                // Changes whose clients have disconnected.
                drop(changes.acquire_many(CHANGES_MAX).await);
            } => {}
            () = async {
                drop(late.wait_for(|stop| *stop).await);
                tokio::time::sleep(DRAIN_TIMEOUT).await;
            } => tracing::warn!("requests were still open after {DRAIN_TIMEOUT:?} and were cut off"),
        }
        live.abort();
    }
}

pub fn state(options: ServerOptions, parts: Parts) -> State {
    let (started, started_at) = (parts.clock.monotonic(), parts.clock.now());
    State::new(Inner {
        parts,
        base_path: options.base_path.trim_end_matches('/').to_owned(),
        instance: options.instance,
        authentication: options.authentication,
        cookie: if options.is_behind_tls { CookieName::Host } else { CookieName::Plain },
        limits: Limits::new(options.rates),
        live: Live::default(),
        started,
        started_at,
        is_draining: AtomicBool::new(false),
        stopping: watch::Sender::new(false),
        changes: Arc::new(Semaphore::new(CHANGES_MAX as usize)),
        emr_agent: options.emr_agent,
        lambda: options.lambda,
    })
}

/// The whole application, with the access layer around everything.
pub fn app(state: State) -> Router {
    let mut table = routes();
    table.extend(state.action().map(|_| action_route()));
    app_of(table, state)
}

/// The application with only these routes.
pub(crate) fn app_of(table: Vec<Route>, state: State) -> Router {
    let entries = Entries::of(&table);
    let base_path = state.inner().base_path.clone();
    let routes = router(table)
        .fallback(|| async { Problem::not_found("this address") })
        .layer(from_fn_with_state(state.clone(), limit_time))
        .layer(CatchPanicLayer::custom(|_| panicked()))
        .layer(from_fn(traced))
        .layer(from_fn_with_state((state.clone(), entries), guard))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(state);
    if base_path.is_empty() {
        return routes;
    }
    let elsewhere = format!("everything is below {base_path}/");
    let home = base_path.clone();
    Router::new().nest(&base_path, routes).fallback(async move |uri: Uri| {
        // For the router, `/base/` and `/base` differ.
        if uri.path().strip_suffix('/') == Some(&home) {
            return Redirect::permanent(&home).into_response();
        }
        Problem::new(Code::NotFound, "there is nothing at this address", elsewhere).into_response()
    })
}

fn panicked() -> Response<Body> {
    tracing::error!("a handler panicked");
    Problem::new(Code::Unexpected, "the server failed", "try again; if it fails again, report it")
        .into_response()
}

/// Limits how long a client waits. Neither a timeout nor a disconnect stops a change: it continues in its own task.
async fn limit_time(Given(state): Given<State>, request: Request, next: Next) -> Response {
    let extensions = request.extensions();
    let place = extensions.get::<Surface>().zip(extensions.get::<MatchedPath>());
    if place.is_some_and(|(_, path)| streams(path.as_str())) {
        return next.run(request).await;
    }
    // The task that decides about pools writes for these.
    let is_waiting = place.is_some_and(|(surface, path)| waits(*surface, path.as_str()));
    let timeout = if is_waiting { WAITING_TIMEOUT } else { REQUEST_TIMEOUT };
    let answer = async {
        if is_waiting || request.method().is_safe() {
            next.run(request).await
        } else {
            run_detached(&state, request, next).await
        }
    };
    match tokio::time::timeout(timeout, answer).await {
        Ok(response) => response,
        Err(_) => {
            let remedy = "check whether it was done before you try again, or send the same Idempotency-Key";
            let status = StatusCode::GATEWAY_TIMEOUT;
            Problem::with_status(status, Code::Unexpected, "the request took too long", remedy)
                .into_response()
        }
    }
}

/// Answers a request in its own task, which continues when the client disconnects.
async fn run_detached(state: &State, request: Request, next: Next) -> Response {
    let Ok(permit) = Arc::clone(&state.inner().changes).acquire_owned().await else { return panicked() };
    let change = async move {
        let response = next.run(request).await;
        drop(permit);
        response
    };
    tokio::spawn(change.in_current_span()).await.unwrap_or_else(|_| panicked())
}
