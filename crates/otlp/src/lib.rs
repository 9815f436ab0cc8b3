//! Sends traces, metrics and logs to a receiver of OTLP. The only crate that knows OpenTelemetry.
//!
//! Work never waits for the receiver. Queues are bounded, threads of their own send, and what does not fit is dropped.

mod place;
mod prometheus;
mod send;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_otlp::{
    ExporterBuildError, LogExporter, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use percent_encoding::percent_decode_str;
use prometheus::Times;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use send::{Receiver, Sender};
use std::time::Duration;
use tidemill_domain::time::Timestamp;
use tokio::runtime::Handle;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{Targets, filter_fn};
use tracing_subscriber::{Layer, Registry};

/// Limits how long the receiver may take for one request, retries included.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Modules whose events would be events about the sending of events.
const SENDING: [&str; 6] = ["h2", "hyper", "opentelemetry", "reqwest", "rustls", "tidemill_otlp"];

#[derive(Clone, Debug)]
pub struct OtlpOptions {
    /// The URL of the receiver, to which `/v1/traces` and the like are added.
    pub endpoint: String,
    /// `NAME=VALUE`, separated by commas; values may be percent-encoded.
    pub headers: String,
    pub service: String,
    pub version: String,
    /// The name of this process.
    pub instance: String,
    /// When the process began to count.
    pub started: Timestamp,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OtlpError {
    #[error("the endpoint is no URL of http or https without a query")]
    Endpoint,
    #[error("a header is not NAME=VALUE, or has characters that headers cannot have")]
    Header,
    /// A variable of OpenTelemetry has a value that its SDK does not accept.
    #[error("OpenTelemetry refuses its settings")]
    Settings(#[source] ExporterBuildError),
}

/// What is sent, and where to. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Otlp {
    tracer: SdkTracerProvider,
    logger: SdkLoggerProvider,
    resource: Resource,
    metrics: Sender,
    started: Timestamp,
}

impl Otlp {
    /// Prepares to send on this runtime, which must be there until [`stop`](Self::stop) returns. Nothing connects yet.
    pub fn start(options: OtlpOptions, runtime: Handle) -> Result<Self, OtlpError> {
        let receiver = Receiver::new(&options.endpoint, headers(&options.headers)?, runtime)?;
        let (traces, metrics, logs) =
            (receiver.sender("traces"), receiver.sender("metrics"), receiver.sender("logs"));
        let resource = Resource::builder()
            .with_service_name(options.service)
            .with_attributes([
                KeyValue::new("service.version", options.version),
                KeyValue::new("service.instance.id", options.instance),
            ])
            .build();
        let spans = SpanExporter::builder()
            .with_http()
            .with_endpoint(traces.url())
            .with_http_client(traces)
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(TIMEOUT)
            .build()
            .map_err(OtlpError::Settings)?;
        let records = LogExporter::builder()
            .with_http()
            .with_endpoint(logs.url())
            .with_http_client(logs)
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(TIMEOUT)
            .build()
            .map_err(OtlpError::Settings)?;
        let tracer =
            SdkTracerProvider::builder().with_batch_exporter(spans).with_resource(resource.clone()).build();
        let logger =
            SdkLoggerProvider::builder().with_batch_exporter(records).with_resource(resource.clone()).build();
        place::install();
        let started = options.started;
        Ok(Self { tracer, logger, resource, metrics, started })
    }

    /// Makes spans of the level `info` parts of traces. Events are logs, and not repeated in spans.
    pub fn span_layer(&self) -> Box<dyn Layer<Registry> + Send + Sync> {
        tracing_opentelemetry::layer::<Registry>()
            .with_tracer(self.tracer.tracer("tidemill"))
            .with_location(false)
            .with_target(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(is_for_traces).with_max_level_hint(LevelFilter::INFO))
            .boxed()
    }

    /// Sends the events that are `shown`, with their place in a trace.
    pub fn log_layer(&self, shown: Targets) -> Box<dyn Layer<Registry> + Send + Sync> {
        let shown = SENDING.iter().fold(shown, |shown, target| shown.with_target(*target, LevelFilter::OFF));
        let bridge = OpenTelemetryTracingBridge::new(&self.logger);
        Layer::<Registry>::with_filter(bridge, shown).boxed()
    }

    /// Sends the numbers of a text in the format of Prometheus. A failure is logged, and the next text has them again.
    pub async fn send_metrics(&self, text: &str, now: Timestamp) {
        let times = Times { started: self.started, now };
        if let Some(body) = prometheus::encoded(text, &self.resource, times) {
            self.metrics.post(body).await;
        }
    }

    /// Sends the spans and events that are left. Blocks for at most `wait`.
    pub fn stop(&self, wait: Duration) {
        let logger = self.logger.clone();
        // Each waits for a thread of its own.
        let logs = std::thread::spawn(move || logger.shutdown_with_timeout(wait));
        let _dropped_spans = self.tracer.shutdown_with_timeout(wait);
        let _dropped_logs = logs.join();
    }
}

fn is_for_traces(about: &Metadata<'_>) -> bool {
    let is_sending = || SENDING.iter().any(|target| about.target().starts_with(target));
    about.is_span() && *about.level() <= Level::INFO && !is_sending()
}

/// Whether the log shows an event of OpenTelemetry itself. Of its many, one tells that a queue is full. Outages are ours.
pub fn is_for_people(about: &Metadata<'_>) -> bool {
    !about.target().starts_with("opentelemetry") || about.name().ends_with("DroppingStarted")
}

fn headers(text: &str) -> Result<HeaderMap, OtlpError> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(header).collect()
}

fn header(part: &str) -> Result<(HeaderName, HeaderValue), OtlpError> {
    let (name, value) = part.split_once('=').ok_or(OtlpError::Header)?;
    let name = name.trim().parse::<HeaderName>().map_err(|_| OtlpError::Header)?;
    let value = percent_decode_str(value.trim()).decode_utf8().map_err(|_| OtlpError::Header)?;
    let mut value = HeaderValue::from_str(&value).map_err(|_| OtlpError::Header)?;
    value.set_sensitive(true);
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_opentelemetry_writes_them() {
        let read = headers("authorization=Bearer%20abc==, X-Tenant = ops, x-percent=%2541 ,").unwrap();

        assert_eq!(read.get("authorization").unwrap(), "Bearer abc==");
        assert_eq!(read.get("x-tenant").unwrap(), "ops");
        assert_eq!(read.get("x-percent").unwrap(), "%41", "decoded once");
        assert_eq!(headers("").unwrap().len(), 0);
        assert!(!format!("{read:?}").contains("abc"), "{read:?}");
        for bad in ["authorization", "=x", "a b=c", "a(b=c", "a=%0d%0ab", "a=%ff"] {
            assert!(matches!(headers(bad), Err(OtlpError::Header)), "{bad}");
        }
    }
}
