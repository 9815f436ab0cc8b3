//! `render worker`: renders until told to stop. A server that knows where nexrender is has such a worker too.

use super::Setup;
use crate::commands::shutdown::{self, Signals};
use crate::commands::{Flag, given};
use crate::config::Render;
use crate::context::Context;
use crate::report::Failure;
use crate::telemetry;
use clap::Args;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::pool::PoolName;
use tidemill_domain::render::LocalPath;
use tidemill_domain::time::Clock;
use tidemill_engine::pool::Pools;
use tidemill_engine::render::{Backends, Licence, Worker, WorkerOptions};
use tidemill_engine::{EngineError, Process, SystemClock, reaper};
use tidemill_nexrender::{
    FarmOptions, FfmpegInspector, InspectorOptions, Mount, NasStorage, NexrenderFarm, Place, ShelfOptions,
};
use tidemill_server::health::WorkerHealth;
use tidemill_store::Store;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How to render. Defaults are the configuration's
#[derive(Args, Debug)]
pub(crate) struct WorkerArguments {
    /// Where nexrender is, overrides render.url
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Most renders at once, overrides render.capacity
    #[arg(long, value_name = "COUNT")]
    capacity: Option<String>,
    /// What this worker calls itself, overrides render.worker
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Where the NAS is mounted, overrides render.mount
    #[arg(long, value_name = "PATH")]
    mount: Option<String>,
    /// The pool of licences, overrides render.pool
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// Tell how it is to whoever asks for /health there, such as 127.0.0.1:8080; on this host also /metrics
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

/// How long what is about to be published may take once we are asked to stop; what a node renders goes on without us.
const DRAIN_FOR: Duration = Duration::from_secs(15);

/// How long all of a worker may take to stop.
const GRACE: Duration = Duration::from_secs(22);

pub(super) async fn run(arguments: &WorkerArguments, context: &Context) -> Result<Exit, Failure> {
    let mut signals = Signals::new()?;
    let clock = Arc::new(SystemClock::new());
    let started = clock.monotonic();
    let Some(wanted) = WorkerSetup::of(context, clock.clone())? else {
        let fix = "add --url http://HOST:3000, or set render.url or NEXRENDER_API_URL";
        return Err(Failure::new(Code::BadRenderSettings, "nobody said where nexrender is", fix));
    };
    let listener = match arguments.listen {
        Some(address) => Some(WorkerHealth::listen(address).await?),
        None => None,
    };
    let store = context.store().await?;
    let process = Process::start(store.clone(), clock.clone(), context.process_options()).await?;
    let reaping = tokio::spawn(reaper::run(process.clone()));
    let pools = Pools::start(store.clone(), context.pool_options());
    let farm = wanted.backends.farm.name();
    let worker = wanted.worker(context, &store, clock.clone(), &process, &pools);
    let lifecycle_events = listener.map(|listener| {
        let address = listener.local_addr().map_or_else(|_| "?".to_owned(), |address| address.to_string());
        context.note(&format!("how it is, is told at http://{address}/health"));
        // Nobody proves here who they are, so what is counted stays on this host.
        let is_local = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
        let metrics = if is_local { telemetry::start_metrics() } else { None };
        let health = WorkerHealth { worker: worker.handle(), process: process.id(), clock, started, metrics };
        tokio::spawn(health.answer(listener))
    });
    context.note(&format!(
        "rendering with {farm}; a signal ends it, and what is rendering there is left to others"
    ));
    let ended = render(worker, &process, &mut signals).await;
    reaping.abort();
    if let Some(lifecycle_events) = lifecycle_events {
        lifecycle_events.abort();
    }
    shutdown::stop(&process).await;
    ended.map(|()| Exit::Ok)
}

/// Renders until a signal comes, and then brings to its end what is about to be published. A second signal ends it at
/// once; leases of what it had then lapse by themselves.
async fn render(worker: Worker, process: &Process, signals: &mut Signals) -> Result<(), Failure> {
    let (stop, told) = watch::channel(false);
    let mut rendering: JoinHandle<()> = tokio::spawn(async move { worker.run(told).await });
    let was_told = tokio::select! {
        ended = &mut rendering => {
            let ended = ended.map_or_else(|error| error.to_string(), |()| "a loop of it has ended".to_owned());
            let what = "the render worker ended by itself";
            return Err(Failure::new(Code::Unexpected, what, "start it again, and see its log").because(&ended));
        }
        () = signals.next() => true,
        // A supervisor starts it again; it comes back as a new process.
        _ended = process.ended() => false,
    };
    stop.send_replace(true);
    tokio::select! {
        _drained = tokio::time::timeout(GRACE, &mut rendering) => {}
        () = signals.next() => {}
    }
    rendering.abort();
    if was_told { Ok(()) } else { Err(EngineError::ProcessExpired { id: process.id() }.into()) }
}

/// A worker as the configuration wants it, of which nothing runs yet.
#[derive(Debug)]
pub(crate) struct WorkerSetup {
    setup: Setup,
    backends: Backends,
    pool: Option<(PoolName, NonZeroU32)>,
}

impl WorkerSetup {
    /// None when nobody said where nexrender is.
    pub(crate) fn of(context: &Context, clock: Arc<SystemClock>) -> Result<Option<Self>, Failure> {
        let settings = &context.settings().render;
        let Some(url) = &settings.url else { return Ok(None) };
        let setup = Setup::read(settings)?;
        setup.check_nodes()?;
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
        let storage = NasStorage::new(storage(&setup, settings), clock);
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
        let Setup { places, allow, policy, clocks, polling, zone, tags, .. } = self.setup;
        let licence = self.pool.map(|(pool, units)| Licence { pools: pools.clone(), pool, units });
        let lease_quarter = policy.lease_for / 4;
        let usual = WorkerOptions::new(process.id(), &name, policy, places);
        let options = WorkerOptions {
            capacity: NonZeroUsize::new(settings.capacity as usize).unwrap_or(NonZeroUsize::MIN),
            licence,
            clocks,
            polling,
            allow,
            tags,
            zone,
            renew_pause: usual.renew_pause.min(lease_quarter),
            drain_for: DRAIN_FOR,
            ..usual
        };
        Worker::new(store.clone(), clock, self.backends, options)
    }

    /// Where it publishes, as this host sees it.
    pub(crate) fn output(&self) -> &LocalPath {
        &self.setup.output
    }

    /// What it acts on: for those who only want to know how that is.
    pub(crate) fn backends(&self) -> &Backends {
        &self.backends
    }
}

/// The NAS, as the configuration has it: where nodes leave files, and where these are published.
fn storage(setup: &Setup, settings: &Render) -> ShelfOptions {
    let at = |folder: &LocalPath| match (settings.mount_check, folder.is_in(&setup.mount)) {
        (true, true) => Mount::At(setup.mount.clone()),
        _ => Mount::Local,
    };
    // Where a mount cannot be told from a folder, the one file speaks for all of the NAS.
    let (staging, output) = match &settings.mount_sentinel {
        Some(name) => (Mount::Local, Mount::Sentinel(name.clone())),
        None => (at(&setup.staging), at(&setup.output)),
    };
    let staging = Place { folder: setup.staging.clone(), mount: staging };
    ShelfOptions::new(staging, Place { folder: setup.output.clone(), mount: output })
}

fn pool(name: &str, units: u32) -> Result<(PoolName, NonZeroU32), Failure> {
    let name: PoolName = name.parse().map_err(|bad| {
        let what = format!("render.pool: {bad}");
        Failure::new(Code::BadRenderSettings, what, "name a pool as `tidemill pool list` shows it")
    })?;
    Ok((name, NonZeroU32::new(units).unwrap_or(NonZeroU32::MIN)))
}

#[cfg(test)]
mod tests {
    use super::super::setup::tests::settings;
    use super::*;

    fn mounts(values: &[(&'static str, &str)]) -> (Mount, Mount) {
        let settings = settings(values);
        let options = storage(&Setup::read(&settings).unwrap(), &settings);
        (options.staging.mount, options.output.mount)
    }

    #[test]
    fn a_nas_is_known_by_its_mount_or_by_a_file_and_never_needs_both() {
        let mount = ("render.mount", "/mnt/nas");
        let at = Mount::At(LocalPath::parse("/mnt/nas").unwrap());
        let sentinel = Mount::Sentinel("this-is-the-nas".to_owned());

        assert_eq!(mounts(&[mount]), (at.clone(), at.clone()));
        assert_eq!(mounts(&[mount, ("render.staging_folder", "/srv/staging")]), (Mount::Local, at));
        assert_eq!(mounts(&[mount, ("render.mount_check", "false")]), (Mount::Local, Mount::Local));
        let by_file = mounts(&[mount, ("render.mount_sentinel", "this-is-the-nas")]);
        assert_eq!(by_file, (Mount::Local, sentinel));
    }
}
