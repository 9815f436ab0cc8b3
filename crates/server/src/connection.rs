//! HTTP connections: how many are allowed, their timeouts, and graceful shutdown.

mod places;

use crate::health;
use crate::problem::Problem;
use crate::system::{expect_reading, open_max};
use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use places::{Places, Seat, TrackedBody};
use std::convert::Infallible;
use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::connection::Bounds;
use tokio::net::{TcpListener, TcpStream};
use tower::Service as _;

/// Timeout for the head of a request while places are free. Longer than the usual keep-alive of proxies (one minute), so that
/// the server does not close a connection while a request is on its way.
const SILENCE_MAX: Duration = Duration::from_secs(75);
/// Pause after the system refused a connection.
const PAUSE: Duration = Duration::from_secs(1);
const RETRY_SECONDS: u64 = 5;

/// Limits from the number of files that this process may open; `per_address` overrides the limit per address.
pub(crate) fn bounds_of_this_process(per_address: Option<u32>) -> Bounds {
    Bounds::of_files(open_max(), per_address, SILENCE_MAX)
}

/// Serves `app` below `base_path` until `shutdown` completes, then finishes open requests.
pub(crate) async fn serve(
    listener: TcpListener,
    app: Router,
    base_path: &str,
    bounds: Bounds,
    shutdown: impl Future<Output = ()>,
) {
    let places = Places::new(bounds);
    let base_path: Arc<str> = base_path.into();
    let mut shutdown = pin!(shutdown);
    loop {
        let (stream, peer) = tokio::select! {
            () = &mut shutdown => break,
            accepted = accept(&listener, &places, bounds.patience) => accepted,
        };
        let seat = places.seat(peer.ip());
        tokio::spawn(serve_connection(stream, peer, app.clone(), Arc::clone(&base_path), seat));
    }
    drop(listener);
    places.close().await;
}

async fn accept(listener: &TcpListener, places: &Places, silence: Duration) -> (TcpStream, SocketAddr) {
    let mut is_relieved = false;
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Only now: idle connections stay open until a new one arrives.
                places.room().await;
                if !is_relieved {
                    places.note_success();
                }
                expect_reading(&stream, silence);
                return (stream, peer);
            }
            // The client has already gone.
            Err(error)
                if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) => {}
            Err(error) => {
                if places.note_failure() {
                    tracing::warn!(%error, "cannot accept connections; let the process open more files (ulimit -n)");
                }
                // Closing an idle connection frees a file.
                is_relieved = tokio::time::timeout(PAUSE, places.relieve()).await.is_ok();
            }
        }
    }
}

async fn serve_connection(stream: TcpStream, peer: SocketAddr, app: Router, base_path: Arc<str>, seat: Seat) {
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(seat.head_timeout);
    let service = service_fn(|mut request: Request<Incoming>| {
        let open_request = seat.open_request();
        let is_for_health = seat.is_for_health;
        let is_refused = is_for_health && !health::is_health_check(&base_path, request.uri().path());
        request.extensions_mut().insert(ConnectInfo(peer));
        let mut app = app.clone();
        async move {
            // A router is always ready.
            let mut response = if is_refused { crowded() } else { app.call(request).await? };
            if is_for_health {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response.map(|body| TrackedBody { body, _request: open_request }))
        }
    });
    let mut connection = pin!(protocol.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        // Serve a request that has already arrived first.
        biased;
        ended = connection.as_mut() => ended,
        () = seat.leave.notified() => {
            connection.as_mut().graceful_shutdown();
            // Finish an open request, but do not wait for the rest of a half-sent head.
            if seat.has_had_request() { connection.await } else { Ok(()) }
        }
    };
    if let Err(error) = ended {
        tracing::trace!(%peer, %error, "a connection has ended");
    }
}

fn crowded() -> Response<Body> {
    let remedy = "try again in some seconds; if it fails again, raise the open file limit of the server, or open fewer connections";
    Problem::new(Code::TooManyConnections, "the server has reached its maximum number of connections", remedy)
        .retry_after(RETRY_SECONDS)
        .into_response()
}

#[cfg(test)]
mod tests;
