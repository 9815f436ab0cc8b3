//! The log and the metrics of this program.

mod columns;
pub(crate) mod emf;

use crate::config::{ColorChoice, Log, LogFormat, LogLevel};
use columns::Columns;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use std::time::Duration;
use tidemill_engine::outbox::relay::BATCHES;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

/// Starts to log to standard error. Only the first call of a process counts.
pub(crate) fn start_log(log: &Log, color: ColorChoice) {
    let level = match log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // What a relay with a fixed share processes is what its user wants to see, unless it is to be errors only.
    let batches = if level < LevelFilter::WARN { level } else { level.max(LevelFilter::INFO) };
    let shown = Targets::new().with_default(level).with_target(BATCHES, batches);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let layer = match log.format {
        LogFormat::Json => layer.json().with_filter(shown).boxed(),
        LogFormat::Pretty => layer.with_ansi(is_coloured(color)).with_filter(shown).boxed(),
        LogFormat::Columns => layer.event_format(Columns).with_filter(shown).boxed(),
    };
    let _already_started = tracing_subscriber::registry().with(layer).try_init();
}

fn is_coloured(color: ColorChoice) -> bool {
    match color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never,
    }
}

/// Bounds of all histograms, in seconds: from a chunk or an answer to a render that takes half an hour.
const BUCKETS: [f64; 11] = [0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0, 7_200.0];

/// How often what was recorded is added up; until then every single value is kept.
const ADDED_UP_EVERY: Duration = Duration::from_secs(5);

/// Starts to count; none when this process counts already. Needs a runtime.
pub(crate) fn start_metrics() -> Option<PrometheusHandle> {
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
