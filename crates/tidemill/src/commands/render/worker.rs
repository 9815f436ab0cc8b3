//! `render worker`: renders until it is stopped. A server with `render.url` runs such a worker too.

use super::Setup;
use crate::commands::prelude::*;
use crate::commands::shutdown::{signals, until_stopped, with_process};
use crate::commands::{Flag, given};
use crate::telemetry;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::pool::PoolName;
use tidemill_domain::time::Clock;
use tidemill_engine::item::storage;
use tidemill_engine::pool::Pools;
use tidemill_engine::render::{Backends, Licence, Worker, WorkerOptions};
use tidemill_engine::{Process, SystemClock};
use tidemill_nexrender::{FarmOptions, FfmpegInspector, InspectorOptions, NasStorage, NexrenderFarm};
use tidemill_server::health::WorkerHealth;
use tidemill_store::Store;
use tokio::sync::watch;
use tokio::task::JoinSet;

#[derive(Args, Debug)]
pub(crate) struct WorkerArguments {
    /// URL of nexrender, overrides render.url
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Maximum number of renders at once, overrides render.capacity
    #[arg(long, value_name = "COUNT")]
    capacity: Option<String>,
    /// Name of the worker, overrides render.worker
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Mount point of the NAS, overrides render.mount
    #[arg(long, value_name = "PATH")]
    mount: Option<String>,
    /// Pool of licences, overrides render.pool
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// Serve /health at this address, such as 127.0.0.1:8080; on a loopback address also /metrics
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

impl WorkerArguments {
    pub(super) fn as_flags(&self) -> Vec<Flag> {
        given([
            ("render.url", "--url", &self.url),
            ("render.capacity", "--capacity", &self.capacity),
            ("render.worker", "--name", &self.name),
            ("render.mount", "--mount", &self.mount),
            ("render.pool", "--pool", &self.pool),
        ])
    }
}

/// How long files may take to be published after a signal. Nodes go on rendering without the worker.
const DRAIN_FOR: Duration = Duration::from_secs(15);

/// How long the whole worker may take to stop.
const GRACE: Duration = Duration::from_secs(22);

pub(super) async fn run(arguments: &WorkerArguments, context: &Context) -> Result<Exit> {
    let mut signals = signals()?;
    let clock = Arc::new(SystemClock::new());
    let started = clock.monotonic();
    let Some(setup) = WorkerSetup::of(context, clock.clone())? else {
        let fix = "add --url http://HOST:3000, or set render.url or NEXRENDER_API_URL";
        return Err(Failure::new(Code::BadRenderSettings, "no URL of nexrender is configured", fix));
    };
    let listener = match arguments.listen {
        Some(address) => Some(WorkerHealth::listen(address).await?),
        None => None,
    };
    with_process(context, clock.clone(), async |store, process| {
        let pools = Pools::start(store.clone(), context.pool_options());
        let farm = setup.backends.farm.name();
        let worker = setup.worker(context, store, clock.clone(), process, &pools);
        let mut health = JoinSet::new();
        if let Some(listener) = listener {
            let address = listener.local_addr();
            let shown = address.as_ref().map_or_else(|_| "?".to_owned(), ToString::to_string);
            context.note(&format!("health checks: http://{shown}/health"));
            // This address has no authentication, so metrics are served only on loopback.
            let is_local = address.is_ok_and(|address| address.ip().is_loopback());
            let metrics = if is_local { telemetry::start_metrics() } else { None };
            let (worker, process) = (worker.clone(), process.id());
            health.spawn(WorkerHealth { worker, process, clock, started, metrics }.answer(listener));
        }
        context.note(&format!(
            "rendering with {farm}; stop with a signal, other workers take over what is rendering"
        ));
        // What is being published is finished after a signal. If that takes too long, the leases expire.
        let (stop, stopping) = watch::channel(false);
        let rendering = tokio::spawn(async move { worker.run(stopping).await });
        match until_stopped(rendering, &stop, GRACE, process, &mut signals).await? {
            Some(ended) if !*stop.borrow() => {
                let ended =
                    ended.map_or_else(|error| error.to_string(), |()| "one of its loops ended".into());
                let what = "the render worker stopped unexpectedly";
                Err(Failure::new(Code::Unexpected, what, "see its log and start it again").because(ended))
            }
            _ => Ok(Exit::Ok),
        }
    })
    .await
}

/// A configured worker that is not running yet.
#[derive(Debug)]
pub(crate) struct WorkerSetup {
    pub(crate) setup: Setup,
    pub(crate) backends: Backends,
    pool: Option<(PoolName, NonZeroU32)>,
}

impl WorkerSetup {
    /// None when `render.url` is not set.
    pub(crate) fn of(context: &Context, clock: Arc<SystemClock>) -> Result<Option<Self>> {
        let settings = &context.settings().render;
        let Some(url) = &settings.url else { return Ok(None) };
        let setup = Setup::read(settings)?;
        setup.check_nodes()?;
        if let Some(error) = storage::installed().err().filter(|_| !setup.targets.is_empty()) {
            let fix = "use such a program, or remove render.targets";
            return Err(Failure::new(Code::BadRenderSettings, format!("render.targets: {error}"), fix));
        }
        let farm = FarmOptions {
            secret: settings.secret.as_ref().map(|secret| secret.expose().to_owned()),
            dialect: settings.dialect,
            ..FarmOptions::new(url.expose())
        };
        let farm = NexrenderFarm::new(&farm).map_err(|bad| {
            let fix = "correct render.url and render.secret";
            Failure::new(Code::BadRenderSettings, bad.to_string(), fix)
        })?;
        let inspector = FfmpegInspector::new(InspectorOptions {
            ffprobe: settings.ffprobe.clone().into(),
            ffmpeg: settings.ffmpeg.clone().into(),
            ..InspectorOptions::default()
        });
        let storage = NasStorage::new(setup.storage(settings), clock);
        let backends =
            Backends { farm: Arc::new(farm), inspector: Arc::new(inspector), storage: Arc::new(storage) };
        let pool = settings.pool.as_deref().map(|name| pool(name, settings.pool_units)).transpose()?;
        Ok(Some(Self { setup, backends, pool }))
    }

    pub(crate) fn worker(
        self,
        context: &Context,
        store: &Store,
        clock: Arc<SystemClock>,
        process: &Process,
        pools: &Pools,
    ) -> Worker {
        let settings = &context.settings().render;
        let name = settings.worker.clone().unwrap_or_else(|| context.identity().name);
        let Setup { places, targets, allow, policy, clocks, polling, zone, tags, .. } = self.setup;
        let licence = self.pool.map(|(pool, units)| Licence { pools: pools.clone(), pool, units });
        let usual = WorkerOptions::new(process.id(), &name, policy, places);
        let options = WorkerOptions {
            capacity: NonZeroUsize::new(settings.capacity as usize).unwrap_or(NonZeroUsize::MIN),
            licence,
            targets,
            clocks,
            polling,
            allow,
            tags,
            zone,
            drain_for: DRAIN_FOR,
            ..usual
        };
        Worker::new(store.clone(), clock, self.backends, options)
    }
}

fn pool(name: &str, units: u32) -> Result<(PoolName, NonZeroU32)> {
    let name: PoolName = name.parse().map_err(|bad| {
        let what = format!("render.pool: {bad}");
        Failure::new(Code::BadRenderSettings, what, "use a pool of `tidemill pool list`")
    })?;
    Ok((name, NonZeroU32::new(units).unwrap_or(NonZeroU32::MIN)))
}
