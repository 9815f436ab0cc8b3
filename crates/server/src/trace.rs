//! One span for each request that changes something, or that continues the trace of its client.

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use tidemill_domain::trace::{TRACEPARENT, TraceParent};
use tidemill_store::trace;
use tracing::Instrument;
use tracing::field::Empty;

pub(crate) async fn traced(request: Request, next: Next) -> Response {
    let parent = parent(&request);
    if request.method().is_safe() && parent.is_none() {
        return next.run(request).await;
    }
    let method = request.method().clone();
    let path = request.extensions().get::<MatchedPath>().cloned();
    let route = path.as_ref().map_or("", MatchedPath::as_str);
    let span = tracing::info_span!(
        target: trace::TARGET,
        "request",
        otel.name = format!("{method} {route}"),
        otel.kind = "server",
        http.request.method = %method,
        http.route = route,
        http.response.status_code = Empty,
        otel.status_code = Empty,
    );
    trace::follow(&span, parent);
    let response = next.run(request).instrument(span.clone()).await;
    span.record("http.response.status_code", i64::from(response.status().as_u16()));
    if response.status().is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
    response
}

fn parent(request: &Request) -> Option<TraceParent> {
    request.headers().get(TRACEPARENT)?.to_str().ok()?.parse().ok()
}
