//! `tidemill relay`: publishes the outbox until told to stop. A server with a sink has such a relay too.

pub(crate) mod sink;

use crate::commands::shutdown::{self, Signals};
use crate::commands::{Flag, given};
use crate::context::Context;
use crate::report::Failure;
use clap::Args;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::backoff::Backoff;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::outbox::failed_event::RetryPolicy;
use tidemill_domain::outbox::relay::transactional_id;
use tidemill_domain::outbox::{BadInstance, Group, Instance};
use tidemill_engine::outbox::sink::SinkAddress;
use tidemill_engine::outbox::{KeeperOptions, Publisher, Relay, RelayError, RelayOptions};
use tidemill_engine::{EngineError, Process, SystemClock, reaper};
use tidemill_store::Store;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};

/// How to publish. Defaults are the configuration's
#[derive(Args, Debug)]
pub(crate) struct RelayArguments {
    /// Where events go: kafka, file:PATH or stdout; overrides outbox.sink
    #[arg(long, value_name = "SINK")]
    sink: Option<String>,
    /// Most events that are read and published at once, overrides outbox.batch_size
    #[arg(long, value_name = "COUNT")]
    batch: Option<String>,
    /// Which of a fixed number of relays this one is, from 0 on; overrides outbox.instance_id
    #[arg(long, value_name = "ID")]
    instance: Option<String>,
    /// How many relays there are, overrides outbox.total_instances
    #[arg(long, value_name = "COUNT")]
    total: Option<String>,
    /// How long a silent relay keeps its slots, overrides outbox.lease
    #[arg(long, value_name = "DURATION")]
    lease: Option<String>,
    /// The longest record that the sink takes, in bytes; overrides outbox.max_record
    #[arg(long, value_name = "BYTES")]
    max_record: Option<String>,
}

impl RelayArguments {
    pub(super) fn as_flags(&self) -> Vec<Flag> {
        given([
            ("outbox.sink", "--sink", &self.sink),
            ("outbox.batch_size", "--batch", &self.batch),
            ("outbox.instance_id", "--instance", &self.instance),
            ("outbox.total_instances", "--total", &self.total),
            ("outbox.lease", "--lease", &self.lease),
            ("outbox.max_record", "--max-record", &self.max_record),
        ])
    }
}

/// How long what is in hand may take to come to its end once we are asked to stop.
const GRACE: Duration = Duration::from_secs(20);

/// How long a server waits before its relay asks again to join others that have refused it.
const ASKING_AGAIN: Duration = Duration::from_secs(30);

#[crate::boxed(?Send)]
pub(super) async fn run(context: &Context) -> Result<Exit, Failure> {
    let mut signals = Signals::new()?;
    let clock = Arc::new(SystemClock::new());
    let Some(wanted) = RelaySetup::of(context, clock.clone())? else {
        let fix = "add --sink kafka, --sink file:PATH or --sink stdout, or set outbox.sink";
        return Err(Failure::new(Code::BadSink, "nobody said where to publish", fix));
    };
    // Whoever starts a relay can mend it. A server has more to do, and waits for what comes later.
    sink::check(context.settings())?;
    let store = context.store().await?;
    let process = Process::start(store.clone(), clock.clone(), context.process_options()).await?;
    let reaping = tokio::spawn(reaper::run(process.clone()));
    let name = wanted.publisher.name();
    let relay = wanted.relay(context, &store, clock, &process);
    context.note(&format!("publishing to {name}; a signal ends it after the batch in hand"));
    let ended = publish(relay, &process, &mut signals).await;
    reaping.abort();
    shutdown::stop(&process).await;
    ended.map(|()| Exit::Ok)
}

/// Publishes until a signal comes, and then to the end of what is in hand.
async fn publish(relay: Relay, process: &Process, signals: &mut Signals) -> Result<(), Failure> {
    let (stop, told) = watch::channel(false);
    let mut publishing: JoinHandle<_> = tokio::spawn(async move { relay.run(told).await });
    let was_told = tokio::select! {
        ended = &mut publishing => return outcome(ended),
        () = signals.next() => true,
        // A supervisor starts it again; it comes back as a new process.
        _ended = process.ended() => false,
    };
    stop.send_replace(true);
    let drained = tokio::select! {
        drained = tokio::time::timeout(GRACE, &mut publishing) => drained.map_or(Ok(()), outcome),
        () = signals.next() => Ok(()),
    };
    // What was not acknowledged is published again by whoever comes next.
    publishing.abort();
    if was_told { drained } else { Err(EngineError::ProcessExpired { id: process.id() }.into()) }
}

fn outcome(ended: Result<Result<(), RelayError>, JoinError>) -> Result<(), Failure> {
    match ended {
        Ok(ended) => ended.map_err(Failure::from),
        Err(error) => Err(Failure::unexpected("the relay ended", &error)),
    }
}

/// A relay as the configuration wants it, of which nothing runs yet.
#[derive(Debug)]
pub(super) struct RelaySetup {
    publisher: Arc<dyn Publisher>,
    instance: Option<Instance>,
    retry: RetryPolicy,
}

impl RelaySetup {
    /// None when there is no sink.
    pub(super) fn of(context: &Context, clock: Arc<SystemClock>) -> Result<Option<Self>, Failure> {
        let settings = &context.settings().outbox;
        let Some(publisher) = sink::open(context.settings(), clock)? else { return Ok(None) };
        let instance = Instance::from_settings(settings.instance_id, settings.total_instances)?;
        let is_transactional = transactional_id(&publisher.name()).is_some();
        if let Some(instance) = instance.filter(|one| is_transactional && one.total() as usize > Group::COUNT)
        {
            let what = format!("there are {} groups, and {} relays", Group::COUNT, instance.total());
            let fix = "set RELAY_TOTAL_INSTANCES to 16 at most, or unset outbox.kafka.transactional";
            return Err(Failure::new(Code::RelayRefused, what, fix));
        }
        let backoff = Backoff::new(settings.base_backoff, 2.0, settings.max_backoff, 0.1).map_err(|_| {
            let what = "outbox.max_backoff is shorter than outbox.base_backoff";
            Failure::new(Code::BadValue, what, "set outbox.max_backoff to at least outbox.base_backoff")
        })?;
        let retry = RetryPolicy { backoff, attempts_max: settings.max_attempts };
        Ok(Some(Self { publisher, instance, retry }))
    }

    /// Whether records go to the standard output.
    pub(super) fn takes_stdout(&self) -> bool {
        self.publisher.name() == SinkAddress::Stdout.to_string()
    }

    pub(super) fn relay(
        self,
        context: &Context,
        store: &Store,
        clock: Arc<SystemClock>,
        process: &Process,
    ) -> Relay {
        let settings = &context.settings().outbox;
        let options = RelayOptions {
            instance: self.instance,
            lease: settings.lease,
            batch: NonZeroU32::new(settings.batch_size).unwrap_or(NonZeroU32::MIN),
            senders: settings.senders as usize,
            timeout: settings.timeout,
            // Each look renews the lease.
            poll: settings.poll.min(settings.lease / 4),
            initial_delay: settings.initial_delay,
            slow: settings.slow_batch,
            keeper: KeeperOptions {
                partition_rows: settings.partition_rows.into(),
                keep_for: settings.keep_for,
                keep_seen_for: settings.keep_seen_for,
                ..KeeperOptions::default()
            },
            ..RelayOptions::new(process.id(), context.identity(), self.retry)
        };
        Relay::new(store.clone(), clock, self.publisher, options)
    }
}

/// The relay of a server: others that refuse it may be gone some time later.
pub(super) async fn stay(relay: Relay, mut stop: watch::Receiver<bool>) {
    while let Err(error) = relay.run(stop.clone()).await {
        let (code, fix) = (error.code(), error.fix());
        tracing::error!(%code, %fix, "{error}; this server publishes nothing, and asks again in {ASKING_AGAIN:?}");
        tokio::select! {
            () = tokio::time::sleep(ASKING_AGAIN) => {}
            _told = stop.wait_for(|stop| *stop) => return,
        }
    }
}

impl From<BadInstance> for Failure {
    fn from(error: BadInstance) -> Self {
        Self::new(Code::RelayRefused, error.to_string(), error.fix())
    }
}
