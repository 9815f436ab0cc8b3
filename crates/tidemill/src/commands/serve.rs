//! `tidemill serve`: the server, this process's heartbeat, and the loops that belong to every server.

mod background;

use crate::commands::prelude::*;
use crate::commands::render::{Setup, worker as render_worker};
use crate::commands::shutdown::{self, signals};
use crate::commands::{Flag, given, relay, render};
use crate::config::{Auth, Settings, Tls, Value};
use crate::telemetry;
use background::Background;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::alert::Rule;
use tidemill_domain::audit::Actor;
use tidemill_engine::job::Launcher;
use tidemill_engine::outbox::Relay;
use tidemill_engine::pool::Pools;
use tidemill_engine::process::End;
use tidemill_engine::render::Worker;
use tidemill_engine::{Process, SystemClock, schedule};
use tidemill_server::access::Authentication;
use tidemill_server::access::limit::Rates;
use tidemill_server::action::ExtraAction;
use tidemill_server::api::pool::emr_agent::EmrAgentOptions;
use tidemill_server::lambda::LambdaOptions;
use tidemill_server::{ConfigLine, Parts, RenderPart, Server, ServerOptions};
use tidemill_store::Store;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Where to listen, overrides server.listen
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// What stands before every path, such as /tidemill; overrides server.base_path
    #[arg(long, value_name = "PATH")]
    base_path: Option<String>,
    /// Serve the jobs of all job files of this folder, overrides jobs.folder
    #[arg(long, value_name = "DIR")]
    jobs: Option<String>,
    /// Print the metrics of pools in CloudWatch's embedded metric format, overrides server.emf
    #[arg(long)]
    emf: bool,
}

impl Serve {
    pub(super) fn as_flags(&self) -> Vec<Flag> {
        let emf = self.emf.then(|| "true".to_owned());
        given([
            ("server.listen", "--listen", &self.listen),
            ("server.base_path", "--base-path", &self.base_path),
            ("jobs.folder", "--jobs", &self.jobs),
            ("server.emf", "--emf", &emf),
        ])
    }
}

/// How long executions may take to come to the end of their chunks once we are asked to stop; the requests in hand
/// have as long.
const GRACE: Duration = Duration::from_secs(20);

/// After so long of the 25 seconds nobody waits for executions any more; what they have committed stands.
const STOPPING_MAX: Duration = Duration::from_millis(22_500);

#[crate::boxed(?Send)]
pub(super) async fn run(context: &Context) -> Result<Exit> {
    let settings = &context.settings().server;
    let listen = settings.listen;
    let is_open = match settings.auth {
        Auth::None => true,
        Auth::Required => false,
        Auth::Auto => listen.ip().is_loopback(),
    };
    let authentication =
        if is_open { Authentication::None } else { Authentication::Required { issuers: context.issuers()? } };
    let clock = Arc::new(SystemClock::new());
    let relay = relay::RelaySetup::of(context, clock.clone())?;
    let renders = render_worker::WorkerSetup::of(context, clock)?;
    if renders.is_some() {
        render::refuse_supabase(context)?;
    }
    if settings.emf && relay.as_ref().is_some_and(relay::RelaySetup::takes_stdout) {
        let fix = "publish to file:PATH, leave out --emf and server.emf, or run `tidemill relay --sink stdout` beside the server";
        let what = "events and metrics would both go to the standard output";
        return Err(Failure::new(Code::BadSink, what, fix));
    }
    let store = context.store().await?;
    let (_stop, shutdown) = shutdown()?;
    let wanted = ServeSetup { relay, renders, action: None };
    let serving = Serving::start(context, &store, listen, authentication, wanted).await?;
    context.note(&format!("serving http://{}{}", serving.server.address(), settings.base_path));
    if !is_open && store.read().await?.tokens().list(1).await?.is_empty() {
        context.note("no token was created yet: `tidemill token create NAME --role admin` makes one");
    }
    serving.run(shutdown).await.map(|()| Exit::Ok)
}

pub(super) struct Serving {
    pub(super) server: Server,
    pub(super) process: Process,
    launcher: Launcher,
    pub(super) pools: Pools,
    background: Background,
    relay: Option<Relay>,
    renders: Option<Worker>,
}

/// What else a server is to do. Without a relay it publishes nothing, without a worker it renders nothing, whatever is
/// configured; without an action its dashboard is that of every server.
#[derive(Debug, Default)]
pub(super) struct ServeSetup {
    pub(super) relay: Option<relay::RelaySetup>,
    pub(super) renders: Option<render_worker::WorkerSetup>,
    pub(super) action: Option<Arc<dyn ExtraAction>>,
}

impl Serving {
    pub(super) async fn start(
        context: &Context,
        store: &Store,
        listen: SocketAddr,
        authentication: Authentication,
        wanted: ServeSetup,
    ) -> Result<Self> {
        let Settings { server: settings, pools: pool, lambda, lambda_keys, .. } = context.settings();
        let clock = Arc::new(SystemClock::new());
        let background = Background::of(context, clock.clone())?;
        let policy = Setup::policy(&context.settings().render)?;
        let zone = Setup::zone(&context.settings().render)?;
        let process = Process::start(store.clone(), clock.clone(), context.process_options()).await?;
        let jobs = context.definitions.jobs.clone();
        context.definitions.warnings().for_each(|warning| tracing::error!("{warning}"));
        // A server may work without being allowed to make views; who migrates is told.
        if let Err(failure) = context.make_pool_views(store).await {
            tracing::warn!(code = %failure.code, ?failure, "the views of the pools were not made");
        }
        let pools = Pools::start(store.clone(), context.pool_options());
        let launcher = Launcher::new(store.clone(), process.clone(), clock.clone(), jobs)
            .max_running(context.settings().jobs.max_running as usize)
            .pools(pools.clone())
            .logs(context.log_folder()?);
        let relay = wanted.relay.map(|wanted| wanted.relay(context, store, clock.clone(), &process));
        let renders =
            wanted.renders.map(|wanted| wanted.worker(context, store, clock.clone(), &process, &pools));
        let (posters, staging) = Setup::shown(&context.settings().render).unzip();
        let targets = Setup::targets_if_known(&context.settings().render)?;
        let render = RenderPart { policy, worker: renders.clone(), posters, staging, zone, targets };
        let parts = Parts {
            store: store.clone(),
            process: process.clone(),
            launcher: launcher.clone(),
            pools: pools.clone(),
            render,
            action: wanted.action,
            rules: rules(context),
            clock,
            metrics: telemetry::start_metrics(),
            configuration: configuration(context),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let options = ServerOptions {
            listen,
            base_path: settings.base_path.clone(),
            instance: settings.instance.clone(),
            authentication,
            rates: Rates::default(),
            connections_per_address: settings.max_connections_per_address,
            is_behind_tls: settings.tls == Tls::Proxy,
            emr_agent: EmrAgentOptions { compat_available: pool.compat_available, unknown: pool.unknown },
            lambda: LambdaOptions {
                function: lambda.function.clone(),
                signature: lambda.signature,
                keys: lambda_keys.clone(),
            },
        };
        let bound = async {
            let server = Server::bind(options, parts).await?;
            schedule::register(store, &context.definitions.schedules, &Actor::system()).await?;
            Ok(server)
        };
        match bound.await {
            Ok(server) => Ok(Self { server, process, launcher, pools, background, relay, renders }),
            Err(failure) => {
                // Why it does not start is what has to be told, whatever else goes wrong by then.
                if let Err(error) = process.stop().await {
                    tracing::warn!(%error, "this process could not say that it ends; others find out");
                }
                Err(failure)
            }
        }
    }

    /// Serves until told to stop; an error when the process ended by itself: a supervisor has to start it again.
    pub(super) async fn run(self, mut shutdown: watch::Receiver<bool>) -> Result<()> {
        let Self { server, process, launcher, pools, background, relay, renders } = self;
        let prints_emf = background.settings.server.emf;
        let (loops, launching) = background.start(&process, &launcher, &pools);
        let (expired, mut told) = (process.clone(), shutdown.clone());
        let (stop, mut stopped) = watch::channel(false);
        let mut relaying = beside(relay.map(|relay| relay::stay(relay, stopped.clone())));
        let mut rendering = beside(renders.map(|worker| worker.run(stopped.clone())));
        let serving = server.run(async move {
            tokio::select! {
                _told = told.wait_for(|stop| *stop) => {}
                end = expired.ended() => tracing::error!("this process has ended ({end:?}), so the server ends too"),
            }
            stop.send_replace(true);
        });
        let mut late = stopped.clone();
        let ending = async {
            // While the requests in hand come to their end, so do the executions. If the process has ended, they have
            // lost their leases and end by themselves.
            let stopping = async {
                drop(stopped.wait_for(|stop| *stop).await);
                launching.iter().for_each(AbortHandle::abort);
                launcher.stop_all(GRACE).await;
            };
            let _panicked = tokio::join!(serving, stopping, &mut relaying, &mut rendering);
            // Those that the last requests have launched.
            launcher.stop_all(Duration::ZERO).await;
        };
        tokio::select! {
            () = ending => {}
            () = async {
                drop(late.wait_for(|stop| *stop).await);
                tokio::time::sleep(STOPPING_MAX).await;
            } => tracing::warn!("executions have not ended within {STOPPING_MAX:?}; they are left to be recovered"),
        }
        drop(loops);
        relaying.abort();
        rendering.abort();
        let last_words = async {
            if prints_emf {
                telemetry::print_emf(&pools).await;
            }
        };
        let stopping = async { tokio::join!(last_words, process.stop()) };
        let _lapses_otherwise = tokio::time::timeout(shutdown::STOP_TIME, stopping).await;
        if process.ended().await == End::Stopped || *shutdown.borrow_and_update() {
            return Ok(());
        }
        Err(tidemill_engine::EngineError::ProcessExpired { id: process.id() }.into())
    }
}

/// Work that is done beside the server, if there is any.
fn beside(work: Option<impl Future<Output = ()> + Send + 'static>) -> JoinHandle<()> {
    tokio::spawn(async move {
        if let Some(work) = work {
            work.await;
        }
    })
}

fn rules(context: &Context) -> Vec<Rule> {
    let all = context.settings().alert.rules.iter();
    all.filter(|rule| rule.is_enabled).map(|rule| rule.rule.clone()).collect()
}

fn configuration(context: &Context) -> Vec<ConfigLine> {
    let loaded = &context.loaded;
    let line = |value: &Value| ConfigLine {
        key: value.path.clone(),
        value: value.shown.clone(),
        origin: value.origin.to_string(),
    };
    loaded.values.iter().chain(&loaded.sections).map(line).collect()
}

/// Becomes true at SIGTERM or SIGINT, or when the sender says so.
pub(super) fn shutdown() -> Result<(watch::Sender<bool>, watch::Receiver<bool>)> {
    let (sender, receiver) = watch::channel(false);
    let (on_signal, mut signals) = (sender.clone(), signals()?);
    tokio::spawn(async move {
        signals.next().await;
        on_signal.send_replace(true);
    });
    Ok((sender, receiver))
}
