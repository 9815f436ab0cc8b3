//! Places in traces, for the crates that do not know OpenTelemetry.

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tidemill_domain::trace::TraceParent;
use tidemill_store::trace::{self, Hooks};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

pub(crate) fn install() {
    trace::install(Hooks {
        current: || place(&Context::current()),
        place: |span| place(&span.context()),
        follow: |span, parent| {
            let _fails_for_a_span_that_nobody_wants =
                span.set_parent(Context::new().with_remote_span_context(context(parent)));
        },
        link: |span: &Span, place| span.add_link(context(place)),
    });
}

fn place(within: &Context) -> Option<TraceParent> {
    let span = within.span();
    let at = span.span_context();
    at.is_valid().then(|| TraceParent {
        trace: u128::from_be_bytes(at.trace_id().to_bytes()),
        span: u64::from_be_bytes(at.span_id().to_bytes()),
        flags: at.trace_flags().to_u8(),
    })
}

fn context(place: TraceParent) -> SpanContext {
    SpanContext::new(
        TraceId::from_bytes(place.trace.to_be_bytes()),
        SpanId::from_bytes(place.span.to_be_bytes()),
        TraceFlags::new(place.flags),
        true,
        TraceState::default(),
    )
}
