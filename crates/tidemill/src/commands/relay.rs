//! `tidemill relay`: publishes the outbox until told to stop.

use crate::commands::job::signals::Signals;
use crate::context::Context;
use crate::report::Failure;
use clap::Args;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::duration;
use tidemill_domain::outbox::exception::RetryPolicy;
use tidemill_domain::outbox::{BadInstance, Instance};
use tidemill_engine::outbox::{Relay, RelayError, RelayOptions, SinkOptions, sink};
use tidemill_engine::{EngineError, Process, ProcessOptions, SystemClock, reaper};
use tokio::sync::watch;

/// How to publish
#[derive(Args, Debug)]
pub(crate) struct RelayArguments {
    /// Where events go: file:PATH or stdout
    #[arg(long, value_name = "SINK")]
    sink: String,
    /// Most events that are read and published at once
    #[arg(long, value_name = "COUNT", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
    /// Which of a fixed number of relays this one is, from 0 on
    #[arg(long, value_name = "ID")]
    instance: Option<u32>,
    /// How many relays there are
    #[arg(long, value_name = "COUNT")]
    total: Option<u32>,
    /// How long a silent relay keeps its slots
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = lease)]
    lease: Duration,
    /// The longest record that the sink takes, in bytes
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    max_record: Option<u32>,
}

/// How long what is in hand may take to come to its end once we are asked to stop.
const GRACE: Duration = Duration::from_secs(20);

/// What is left of the 25 seconds for the last words of this process.
const GOODBYE: Duration = Duration::from_secs(2);

pub(super) async fn run(arguments: RelayArguments, context: &Context) -> Result<Exit, Failure> {
    let mut signals = Signals::new()?;
    let clock = Arc::new(SystemClock::new());
    let max_record_bytes = arguments.max_record.map(|bytes| bytes as usize);
    let publisher = sink::open(&arguments.sink, SinkOptions { clock: clock.clone(), max_record_bytes })?;
    let instance = Instance::from_settings(arguments.instance, arguments.total)?;
    let retry = RetryPolicy::standard().map_err(|error| Failure::unexpected("no backoff", &error))?;
    let store = context.store().await?;
    let options = ProcessOptions { identity: context.identity(), ttl: context.settings().process.lease };
    let process = Process::start(store.clone(), clock.clone(), options).await?;
    let mut options = RelayOptions::new(process.id(), context.identity(), retry);
    options.instance = instance;
    options.batch = NonZeroU32::new(arguments.batch).unwrap_or(NonZeroU32::MIN);
    options.lease = arguments.lease;
    let name = publisher.name();
    let relay = Relay::new(store.clone(), clock, publisher, options);
    let reaping = tokio::spawn(reaper::run(process.clone()));
    context.note(&format!("publishing to {name}; a signal ends it after the batch in hand"));
    let (stop, told) = watch::channel(false);
    let mut publishing = tokio::spawn(async move { relay.run(told).await });
    let ended = tokio::select! {
        () = signals.next() => None,
        _ended = process.ended() => Some(Err(EngineError::ProcessExpired { id: process.id() }.into())),
        ended = &mut publishing => Some(published(ended)),
    };
    stop.send_replace(true);
    let ended = match ended {
        // It ended by itself.
        Some(ended) if publishing.is_finished() => ended,
        other => {
            let drained = tokio::select! {
                drained = tokio::time::timeout(GRACE, &mut publishing) => drained.ok().map(published),
                () = signals.next() => None,
            };
            // What was not acknowledged is published again by whoever comes next.
            publishing.abort();
            other.or(drained).unwrap_or(Ok(()))
        }
    };
    reaping.abort();
    let _lapses_otherwise = tokio::time::timeout(GOODBYE, async {
        let stopped = process.stop().await;
        store.close().await;
        stopped
    })
    .await;
    ended.map(|()| Exit::Ok)
}

fn published(ended: Result<Result<(), RelayError>, tokio::task::JoinError>) -> Result<(), Failure> {
    match ended {
        Ok(ended) => ended.map_err(Failure::from),
        Err(error) => Err(Failure::unexpected("the relay ended", &error)),
    }
}

/// Renewing it takes a moment, so it cannot be very short.
fn lease(text: &str) -> Result<Duration, String> {
    let lease = duration::parse(text).map_err(|error| error.to_string())?;
    let allowed = Duration::from_secs(1)..=Duration::from_secs(3600);
    if allowed.contains(&lease) { Ok(lease) } else { Err("a lease is from 1s to 1h".to_owned()) }
}

impl From<RelayError> for Failure {
    fn from(error: RelayError) -> Self {
        Self::new(error.code(), error.to_string(), error.fix())
    }
}

impl From<BadInstance> for Failure {
    fn from(error: BadInstance) -> Self {
        Self::new(Code::RelayRefused, error.to_string(), error.fix())
    }
}
