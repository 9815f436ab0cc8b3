//! Puts the parts together, listens, and stops in order.

use crate::access::limit::{Limits, Rates};
use crate::access::session::CookieName;
use crate::access::{Authentication, Entries, guard};
use crate::api::pool::emr_agent::EmrAgentOptions;
use crate::connection;
use crate::lambda::LambdaOptions;
use crate::live::{self, Live};
use crate::problem::Problem;
use crate::route::{Surface, action_route, router, routes, streams, waits};
use crate::state::{Inner, Parts, State};
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request};
use axum::http::{StatusCode, Uri};
use axum::middleware::{Next, from_fn};
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

/// Largest body that is read.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Longest that a request may take; the stream of live events is exempt.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest that a request may take that waits for units of a pool.
const WAITING_TIMEOUT: Duration = Duration::from_secs(58);
/// How many changes may be under way at once, those included whose callers have hung up; others wait. Few enough that on SQLite, where
/// they write one after the other, a heartbeat does not wait long behind them.
pub(crate) const CHANGES_MAX: u32 = 16;
/// How long requests in hand may take once we are asked to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
pub struct ServerOptions {
    pub listen: SocketAddr,
    /// What stands before every path, such as `/tidemill`; empty for none.
    pub base_path: String,
    /// What this installation is called.
    pub instance: String,
    /// How callers prove who they are.
    pub authentication: Authentication,
    /// How much is too much.
    pub rates: Rates,
    /// Most connections of one address; half of all unless given.
    pub connections_per_address: Option<u32>,
    /// Whether browsers reach us over TLS, which decides on the cookie.
    pub is_behind_tls: bool,
    /// How clients of the EMR Batch Agent API are answered.
    pub emr_agent: EmrAgentOptions,
    /// How callers in the form of AWS Lambda are known.
    pub lambda: LambdaOptions,
}

/// Why the server does not serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Everybody who reaches the address would be the administrator.
    #[error("the server does not listen on {address} without authentication")]
    OpenListener {
        /// Where it was to listen.
        address: SocketAddr,
    },
    /// Somebody else listens there, or the address is not ours.
    #[error("the server cannot listen on {address}")]
    CannotListen {
        /// Where it was to listen.
        address: SocketAddr,
        /// What the operating system said.
        source: std::io::Error,
    },
}

impl ServerError {
    pub fn code(&self) -> Code {
        match self {
            Self::OpenListener { .. } => Code::OpenListener,
            Self::CannotListen { .. } => Code::CannotListen,
        }
    }

    /// What the reader can do about it.
    pub fn fix(&self) -> String {
        match self {
            Self::OpenListener { .. } => {
                "listen on 127.0.0.1, or set server.auth to \"required\" and create a token with `tidemill token create`".into()
            }
            Self::CannotListen { .. } => "choose another address with --listen, or stop who listens there".into(),
        }
    }
}

/// A server that listens already.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    bounds: Bounds,
    state: State,
}

impl Server {
    /// Listens. From here on connections queue; [`run`](Self::run) answers them.
    pub async fn bind(options: ServerOptions, parts: Parts) -> Result<Self, ServerError> {
        let address = options.listen;
        if matches!(options.authentication, Authentication::None) && !address.ip().is_loopback() {
            return Err(ServerError::OpenListener { address });
        }
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| ServerError::CannotListen { address, source })?;
        let address = listener.local_addr().unwrap_or(address);
        let bounds = connection::bounds_of_this_process(options.connections_per_address);
        Ok(Self { listener, address, bounds, state: state(options, parts) })
    }

    /// Where it listens, with the port that was really given.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `shutdown` is done, then lets requests in hand come to their end.
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
                // Those whose callers have hung up.
                drop(changes.acquire_many(CHANGES_MAX).await);
            } => {}
            () = async {
                drop(late.wait_for(|stop| *stop).await);
                tokio::time::sleep(DRAIN_TIMEOUT).await;
            } => tracing::warn!("requests were still in hand after {DRAIN_TIMEOUT:?} and were cut off"),
        }
        live.abort();
    }
}

/// What the handlers work with.
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

/// The whole application, with its one layer of access around everything.
pub fn app(state: State) -> Router {
    let mut table = routes();
    table.extend(state.action().map(|_| action_route()));
    let entries = Entries::of(&table);
    let base_path = state.inner().base_path.clone();
    let guarded = {
        let state = state.clone();
        from_fn(move |request: Request, next: Next| {
            let (state, entries) = (state.clone(), entries.clone());
            async move { guard(state, entries, request, next).await }
        })
    };
    let limited = {
        let state = state.clone();
        from_fn(move |request: Request, next: Next| limit_time(state.clone(), request, next))
    };
    let routes = router(table)
        .fallback(|| async { Problem::not_found("this address") })
        .layer(limited)
        .layer(CatchPanicLayer::custom(|_| panicked()))
        .layer(guarded)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(state);
    if base_path.is_empty() {
        return routes;
    }
    let elsewhere = format!("everything is below {base_path}/");
    let home = base_path.clone();
    Router::new().nest(&base_path, routes).fallback(async move |uri: Uri| {
        // The router takes `/base/` for something else than `/base`; people do not.
        if uri.path().strip_suffix('/') == Some(&home) {
            return Redirect::permanent(&home).into_response();
        }
        Problem::new(Code::NotFound, "there is nothing at this address", elsewhere).into_response()
    })
}

/// A handler that panicked is our fault, and says so without a word of how.
fn panicked() -> Response<Body> {
    tracing::error!("a handler panicked");
    Problem::new(Code::Unexpected, "the server failed", "try again; if it stays so, report it")
        .into_response()
}

/// Bounds how long a caller waits. Whoever changes something is not cut off half-way by a caller that hangs up or by the
/// limit: the change goes on to its end in a task of its own.
async fn limit_time(state: State, request: Request, next: Next) -> Response {
    let extensions = request.extensions();
    let place = extensions.get::<Surface>().zip(extensions.get::<MatchedPath>());
    if place.is_some_and(|(_, path)| streams(path.as_str())) {
        return next.run(request).await;
    }
    // What these write is written by the task that decides about pools.
    let is_waiting = place.is_some_and(|(surface, path)| waits(*surface, path.as_str()));
    let timeout = if is_waiting { WAITING_TIMEOUT } else { REQUEST_TIMEOUT };
    let answer = async {
        if is_waiting || request.method().is_safe() {
            next.run(request).await
        } else {
            to_its_end(&state, request, next).await
        }
    };
    match tokio::time::timeout(timeout, answer).await {
        Ok(response) => response,
        Err(_) => {
            let remedy = "look whether it was done before you try again, or send the same Idempotency-Key";
            let status = StatusCode::GATEWAY_TIMEOUT;
            Problem::with_status(status, Code::Unexpected, "the request took too long", remedy)
                .into_response()
        }
    }
}

/// Answers a request in a task of its own, which nobody cancels.
async fn to_its_end(state: &State, request: Request, next: Next) -> Response {
    let Ok(permit) = Arc::clone(&state.inner().changes).acquire_owned().await else { return panicked() };
    let change = tokio::spawn(async move {
        let response = next.run(request).await;
        drop(permit);
        response
    });
    match change.await {
        Ok(response) => response,
        Err(_) => panicked(),
    }
}
