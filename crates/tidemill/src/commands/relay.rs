//! `tidemill relay`: publishes events of the outbox until it is stopped. A server with a sink runs a relay too.

pub(crate) mod sink;

use crate::commands::prelude::*;
use crate::commands::shutdown::{signals, until_stopped, with_process};
use crate::commands::{Flag, given};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::backoff::Backoff;
use tidemill_domain::outbox::failed_event::RetryPolicy;
use tidemill_domain::outbox::relay::transactional_id;
use tidemill_domain::outbox::{Group, Instance};
use tidemill_engine::outbox::sink::SinkAddress;
use tidemill_engine::outbox::{KeeperOptions, Publisher, Relay, RelayOptions};
use tidemill_engine::{Process, SystemClock};
use tidemill_store::Store;
use tokio::sync::watch;

#[derive(Args, Debug)]
pub(crate) struct RelayArguments {
    /// Where to publish: kafka, file:PATH or stdout; overrides outbox.sink
    #[arg(long, value_name = "SINK")]
    sink: Option<String>,
    /// Maximum number of events per batch; overrides outbox.batch_size
    #[arg(long, value_name = "COUNT")]
    batch: Option<String>,
    /// Number of this relay among a fixed number of relays, from 0; overrides outbox.instance_id
    #[arg(long, value_name = "ID")]
    instance: Option<String>,
    /// Number of relays; overrides outbox.total_instances
    #[arg(long, value_name = "COUNT")]
    total: Option<String>,
    /// How long a relay without heartbeat keeps its slots; overrides outbox.lease
    #[arg(long, value_name = "DURATION")]
    lease: Option<String>,
    /// Maximum size of a record in bytes; overrides outbox.max_record
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

/// How long the current batch may take after the relay was stopped.
const GRACE: Duration = Duration::from_secs(20);

/// Pause of a server before its relay tries again to join relays that refused it.
const REJOIN_PAUSE: Duration = Duration::from_secs(30);

#[crate::boxed(?Send)]
pub(super) async fn run(context: &Context) -> Result<Exit> {
    let mut signals = signals()?;
    let clock = Arc::new(SystemClock::new());
    let Some(setup) = RelaySetup::of(context, clock.clone())? else {
        let fix = "add --sink kafka, --sink file:PATH or --sink stdout, or set outbox.sink";
        return Err(Failure::new(Code::BadSink, "no sink is configured", fix));
    };
    // A server does not check the sink: it starts anyway, and its relay retries.
    sink::check(context.settings())?;
    with_process(context, clock.clone(), async |store, process| {
        let name = setup.publisher.name();
        let relay = setup.relay(context, store, clock, process);
        context.note(&format!("publishing to {name}; SIGTERM or Ctrl-C stops it after the current batch"));
        let (stop, stopped) = watch::channel(false);
        let publishing = tokio::spawn(async move { relay.run(stopped).await });
        match until_stopped(publishing, &stop, GRACE, process, &mut signals).await? {
            Some(Ok(ended)) => ended?,
            Some(Err(error)) => return Err(Failure::unexpected("the relay failed", &error)),
            // The next relay publishes again whatever was not acknowledged.
            None => {}
        }
        Ok(Exit::Ok)
    })
    .await
}

#[derive(Debug)]
pub(super) struct RelaySetup {
    publisher: Arc<dyn Publisher>,
    instance: Option<Instance>,
    retry: RetryPolicy,
}

impl RelaySetup {
    /// None if no sink is configured.
    pub(super) fn of(context: &Context, clock: Arc<SystemClock>) -> Result<Option<Self>> {
        let settings = &context.settings().outbox;
        let Some(publisher) = sink::open(context.settings(), clock)? else { return Ok(None) };
        let instance = Instance::from_settings(settings.instance_id, settings.total_instances)
            .map_err(|bad| Failure::new(Code::RelayRefused, bad.to_string(), bad.fix()))?;
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
            // Each poll renews the lease.
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

/// Runs the relay of a server. If other relays refuse it, it tries again later.
pub(super) async fn stay(relay: Relay, mut stop: watch::Receiver<bool>) {
    while let Err(error) = relay.run(stop.clone()).await {
        let (code, fix) = (error.code(), error.fix());
        tracing::error!(%code, %fix, "{error}; this server publishes nothing and tries again in {REJOIN_PAUSE:?}");
        tokio::select! {
            () = tokio::time::sleep(REJOIN_PAUSE) => {}
            _stopped = stop.wait_for(|stop| *stop) => return,
        }
    }
}
