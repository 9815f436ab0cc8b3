//! The log and the metrics of this program, and traces, for a receiver of OTLP.

use crate::config::{ColorChoice, Log, LogFormat, Telemetry};
use crate::report::Failure;
use anstream::AutoStream;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use std::fmt::{self, Write as _};
use std::io::Write;
use std::sync::OnceLock;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::time::{Clock, Timestamp};
use tidemill_engine::SystemClock;
use tidemill_engine::outbox::relay::BATCHES;
use tidemill_engine::pool::{Pools, emf, gauge};
use tidemill_otlp::{Otlp, OtlpOptions};
use tidemill_store::trace;
use tokio::runtime::Runtime;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{FilterExt, LevelFilter, Targets, filter_fn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;

/// Starts to log to standard error, and to the receiver of OTLP if there is one. Only the first call of a process counts.
pub(crate) fn start_log(log: &Log, color: ColorChoice, otlp: Option<&Otlp>) {
    let level: LevelFilter = log.level.as_str().parse().expect("both have the same words");
    // What a relay with a fixed share processes is what its user wants to see, unless it is to be errors only.
    let batches = if level < LevelFilter::WARN { level } else { level.max(LevelFilter::INFO) };
    let shown = Targets::new()
        .with_default(level)
        .with_target(BATCHES, batches)
        .with_target(trace::TARGET, LevelFilter::OFF);
    let exported = otlp.map(|otlp| vec![otlp.span_layer(), otlp.log_layer(shown.clone())]);
    let for_people = filter_fn(tidemill_otlp::is_for_people).with_max_level_hint(LevelFilter::TRACE);
    let shown = shown.and(for_people);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let layer = match log.format {
        LogFormat::Json => layer.json().with_filter(shown).boxed(),
        LogFormat::Pretty => {
            let is_coloured = match color {
                ColorChoice::Always => true,
                ColorChoice::Never => false,
                ColorChoice::Auto => AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never,
            };
            layer.with_ansi(is_coloured).with_filter(shown).boxed()
        }
        LogFormat::Columns => layer.event_format(Columns).with_filter(shown).boxed(),
    };
    let layers: Vec<_> = exported.into_iter().flatten().chain([layer]).collect();
    let _already_started = tracing_subscriber::registry().with(layers).try_init();
}

/// Bounds of all histograms, in seconds: from a chunk or an answer to a job that takes a day.
const BUCKETS: [f64; 13] =
    [0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0, 7_200.0, 28_800.0, 86_400.0];

/// How often what was recorded is added up; until then every single value is kept.
const ADDED_UP_EVERY: Duration = Duration::from_secs(5);

static METRICS: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Starts to count, unless this process counts already. None if another library counts. Needs a runtime.
pub(crate) fn start_metrics() -> Option<PrometheusHandle> {
    METRICS.get_or_init(count).clone()
}

fn count() -> Option<PrometheusHandle> {
    let handle = PrometheusBuilder::new().set_buckets(&BUCKETS).ok()?.install_recorder().ok()?;
    tidemill_engine::metrics::describe();
    let kept = handle.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(ADDED_UP_EVERY).await;
            kept.run_upkeep();
        }
    });
    Some(handle)
}

/// How long the end of the program may wait for the receiver.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Prepares to send traces, metrics and logs; none if no receiver is configured.
pub(crate) fn start_otlp(
    settings: &Telemetry,
    instance: String,
    runtime: &Runtime,
) -> Result<Option<Otlp>, Failure> {
    let Some(endpoint) = &settings.endpoint else { return Ok(None) };
    let options = OtlpOptions {
        endpoint: endpoint.clone(),
        headers: settings.headers.as_ref().map(|headers| headers.expose().to_owned()).unwrap_or_default(),
        service: settings.service_name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance,
        started: SystemClock::new().now(),
    };
    let otlp = Otlp::start(options, runtime.handle().clone()).map_err(|error| {
        let fix = "correct telemetry.endpoint, telemetry.headers, or the variables that begin with OTEL_";
        Failure::new(Code::BadValue, "traces, metrics and logs cannot be sent", fix)
            .because(&error)
            .because_of(&error)
    })?;
    Ok(Some(otlp))
}

/// Starts to count, and sends the numbers again and again. The last ones are for [`stop_otlp`]. Needs a runtime.
pub(crate) fn run_otlp(otlp: Otlp, every: Duration) {
    // Not in the task, which may begin after the work that it counts.
    let Some(metrics) = start_metrics() else { return };
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(every).await;
            otlp.send_metrics(&metrics.render(), SystemClock::new().now()).await;
        }
    });
}

/// Sends what is left.
pub(crate) async fn stop_otlp(otlp: Otlp) {
    let metrics = start_metrics();
    let last = otlp.clone();
    let flushed = tokio::task::spawn_blocking(move || last.stop(LAST_WORDS));
    let counted = async {
        if let Some(metrics) = metrics {
            otlp.send_metrics(&metrics.render(), SystemClock::new().now()).await;
        }
    };
    let _dropped_otherwise = tokio::join!(tokio::time::timeout(LAST_WORDS, counted), flushed);
}

/// What was counted is told once in this time.
const PAUSE: Duration = Duration::from_secs(60);

/// Prints every minute, for as long as it is let. What is left at the end is for [`print_emf`].
pub(crate) async fn run_emf(pools: Pools) {
    loop {
        tokio::time::sleep(PAUSE).await;
        print_emf(&pools).await;
    }
}

pub(crate) async fn print_emf(pools: &Pools) {
    let levels = match gauge::levels(pools).await {
        Ok(levels) => levels,
        // What was counted is kept for the next time.
        Err(error) => return tracing::warn!(%error, "the metrics of pools were not printed; will try again"),
    };
    let (now, mut sums) = (SystemClock::new().now(), pools.take_sums());
    let mut text = String::new();
    for (seen, demand) in levels {
        let since = sums.remove(&seen.settings.name).unwrap_or_default();
        text.push_str(&emf::line(now, &seen, &since, &demand));
        text.push('\n');
    }
    let mut output = std::io::stdout().lock();
    if let Err(error) = output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        tracing::warn!(%error, "the metrics of pools could not be printed");
    }
}

/// The log layout that render farms read: `[time] LEVEL | Worker#1 | Job#1 | text`.
struct Columns;

impl<S, N> FormatEvent<S, N> for Columns
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = Line::default();
        event.record(&mut line);
        writeln!(writer, "{}", line.text(SystemClock::new().now(), *event.metadata().level()))
    }
}

#[derive(Debug, Default)]
struct Line {
    worker: Option<String>,
    job: Option<String>,
    message: String,
    others: String,
}

impl Line {
    fn text(&self, now: Timestamp, level: Level) -> String {
        let worker = self.worker.clone().unwrap_or_else(|| std::process::id().to_string());
        let text = format!("{}{}", self.message, self.others);
        // One event is one line, whatever it says.
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        format!("[{now}] {level:<5} | Worker#{worker} | Job#{} | {text}", self.job.as_deref().unwrap_or("-"))
    }

    fn note(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            "worker" => self.worker = Some(value),
            "render.id" => self.job = Some(value),
            name => {
                let _infallible = write!(self.others, " {name}={value}");
            }
        }
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.note(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.note(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::{Arc, Mutex};

    #[test]
    fn a_line_has_its_columns_and_stays_one_line() {
        let line = Line {
            worker: Some("3".into()),
            job: Some("17".into()),
            message: "render\nfailed".into(),
            others: " error=x".into(),
        };

        let text = line.text(Timestamp::EPOCH, Level::WARN);

        assert_eq!(text, "[1970-01-01T00:00:00.000000Z] WARN  | Worker#3 | Job#17 | render failed error=x");
        assert!(Line::default().text(Timestamp::EPOCH, Level::INFO).contains("| Job#- |"));
    }

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// With the names of fields that render workers use.
    #[test]
    fn a_render_and_its_worker_have_their_columns() {
        let written = Written::default();
        let writer = written.clone();
        let layer =
            tracing_subscriber::fmt::layer().event_format(Columns).with_writer(move || writer.clone());

        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info!(render.id = %17, worker = "worker-3", "render 17 is completed");
        });

        let line = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert!(line.ends_with("INFO  | Worker#worker-3 | Job#17 | render 17 is completed\n"), "{line}");
    }
}
