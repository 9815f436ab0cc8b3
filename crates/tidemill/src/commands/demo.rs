//! `tidemill demo`: on an embedded database of its own, an import that fails and goes on, a night of batches that share
//! two databases, events that two relays publish until one is killed, films that are rendered although a worker goes
//! away, and workers, one killed, one frozen; what is promised is then verified against what the database holds. Then all
//! of it goes on, for those who watch.

mod activity;
mod demo_workers;
mod import;
mod kill;
mod night;
mod processes;
pub(crate) mod relays;
mod renders;
mod verdict;
pub(crate) mod worker;

use crate::commands::serve::{ServeSetup, Serving, shutdown};
use crate::context::Context;
use crate::output::write_stdout;
use crate::report::Failure;
use activity::Activity;
use clap::Args;
use demo_workers::DemoWorkers;
use kill::KillWorker;
use processes::{Setup, Supervisor};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::process::ProcessId;
use tidemill_engine::pool::Pools;
use tidemill_server::access::Authentication;
use tidemill_server::action::ExtraAction;
use tidemill_store::Store;
use tokio::process::Child;
use tokio::sync::watch;
use verdict::Verdicts;

/// Show what is built, on a database of its own, and verify it
#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// End after the verification, instead of leaving the dashboard open
    #[arg(long)]
    exit: bool,
    /// Where the dashboard listens; any free port when that one is taken
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7790")]
    listen: SocketAddr,
}

/// Short, so that nobody has to wait for long.
const LEASE: Duration = Duration::from_secs(2);
/// Five seconds on top of the lease are promised; a machine that is busy with something else has more.
const GRACE: Duration = Duration::from_secs(30);
/// How long the demo waits for what takes seconds: so long that a busy machine makes nobody wait in vain.
const LIMIT: Duration = Duration::from_secs(120);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(100);
const WORKERS: usize = 3;
const THINGS: u32 = 6;

#[crate::boxed(?Send)]
pub(super) async fn run(arguments: &Demo, context: &Context) -> Result<Exit, Failure> {
    let failed = |error| Failure::unexpected("there is no place for temporary files", &error);
    let folder = tempfile::tempdir().map_err(failed)?;
    // Nobody is to be told of it whom the reader's own configuration names, and none of their schedules is to fire.
    let context = &context.unconfigured(folder.path())?;
    let url = format!("sqlite://{}/tidemill.db", folder.path().display());
    let store = Store::connect(&url).await?;
    let setup = Arc::new(Setup {
        url,
        folder: folder.path().to_owned(),
        workers: WORKERS,
        things: THINGS,
        lease: LEASE,
        log_level: context.settings().log.level,
    });
    let workers = Arc::new(Supervisor::new({
        let setup = Arc::clone(&setup);
        move |number| start_worker(&setup, number)
    }));
    let action: Arc<dyn ExtraAction> =
        Arc::new(KillWorker { workers: Arc::clone(&workers), store: store.clone() });
    let serving = serve(arguments, context, &store, &action).await?;
    let (server, pools) = (serving.process.id(), serving.pools.clone());
    context.note(&format!("the dashboard is at http://{}/", serving.server.address()));
    context.note(&format!(
        "{WORKERS} worker processes share {THINGS} things by leases of {LEASE:?}, on {}",
        setup.url
    ));
    let (_stop, told) = shutdown()?;
    let (end_serving, ended) = watch::channel(false);
    let served = tokio::spawn(serving.run(ended));
    let activity = Activity { context, setup: &setup, store: &store, server, workers: &workers };
    let stage = Stage { arguments, pools, activity };
    let outcome = stage.perform(told).await;
    end_serving.send_replace(true);
    let _ended = served.await;
    store.close().await;
    outcome
}

/// The dashboard of the demo, open to whoever sits at this host. The events of the demo are not for a sink that somebody has
/// configured.
async fn serve(
    arguments: &Demo,
    context: &Context,
    store: &Store,
    action: &Arc<dyn ExtraAction>,
) -> Result<Serving, Failure> {
    let listen = arguments.listen;
    let start = async |listen| {
        let wanted = ServeSetup { action: Some(Arc::clone(action)), ..ServeSetup::default() };
        Serving::start(context, store, listen, "", Authentication::None, wanted).await
    };
    match start(listen).await {
        Err(failure) if failure.code() == Code::CannotListen => {
            context.note(&format!("{listen} is taken, so another port is used"));
            start(SocketAddr::new(listen.ip(), 0)).await
        }
        other => other,
    }
}

fn start_worker(setup: &Setup, number: usize) -> Result<Child, Failure> {
    let failed = |error: std::io::Error| Failure::unexpected("a worker could not be started", &error);
    let mut command = setup.worker(number, activity::WORK).map_err(failed)?;
    command.stdout(Stdio::null()).spawn().map_err(failed)
}

struct Stage<'a> {
    arguments: &'a Demo,
    pools: Pools,
    activity: Activity<'a>,
}

impl Stage<'_> {
    async fn perform(&self, told: watch::Receiver<bool>) -> Result<Exit, Failure> {
        if self.arguments.exit {
            return self.verify_unless(told).await.map(|()| Exit::Ok);
        }
        night::create_live_pools(self.activity.store).await?;
        let nights = async {
            activity::nights(&self.pools).await;
            std::future::pending().await
        };
        tokio::select! {
            watched = self.show(told) => watched.map(|()| Exit::Ok),
            () = nights => Ok(Exit::Ok),
        }
    }

    /// Verifies, and then goes on until it is told to stop.
    async fn show(&self, mut told: watch::Receiver<bool>) -> Result<(), Failure> {
        let note = |text: &str| self.activity.context.note(text);
        self.verify_unless(told.clone()).await?;
        note("all of it goes on, for you to look at; end it with Ctrl-C");
        self.activity.play(told.clone()).await?;
        if !*told.borrow() {
            note(
                "nothing moves any more, so that the disk does not fill up; the dashboard stays open until Ctrl-C",
            );
        }
        drop(told.wait_for(|stop| *stop).await);
        Ok(())
    }

    async fn verify_unless(&self, mut told: watch::Receiver<bool>) -> Result<(), Failure> {
        tokio::select! {
            verified = self.verify() => verified,
            _told = told.wait_for(|stop| *stop) => {
                let what = "the demo was told to stop before it had verified everything";
                Err(Failure::new(Code::Unexpected, what, "let it run for a minute"))
            }
        }
    }

    /// Plays each part once, and says what was verified.
    async fn verify(&self) -> Result<(), Failure> {
        let Activity { context, setup, store, server, .. } = self.activity;
        let mut verdicts = Verdicts::default();
        import::perform(store, &setup.folder, context, &mut verdicts).await?;
        night::perform(context, &mut verdicts).await?;
        relays::perform(store, setup, context, &mut verdicts).await?;
        renders::perform(store, &setup.folder, server, context, &mut verdicts).await?;
        let mut workers = DemoWorkers::start(setup)?;
        let played = play(&mut workers, store, server, context, &mut verdicts).await;
        workers.end().await;
        played?;
        write_stdout(verdicts.text())?;
        if verdicts.all_hold() {
            return Ok(());
        }
        let fix = "run it again with -vv and report what you see";
        Err(Failure::new(Code::Unexpected, "the demo found that something does not hold", fix))
    }
}

async fn play(
    workers: &mut DemoWorkers,
    store: &Store,
    server: ProcessId,
    context: &Context,
    verdicts: &mut Verdicts,
) -> Result<(), Failure> {
    workers.until_all_work(LIMIT).await?;
    context.note("every thing is worked on; now one worker is killed (SIGKILL)");
    let (took, moved) = workers.kill_one(LIMIT).await?;
    verdicts.add(
        took <= LEASE + GRACE,
        format!("{moved} leases of a killed process moved to others after {:.1} s", took.as_secs_f64()),
    );
    context.note("another worker is frozen for three leases (SIGSTOP), then woken (SIGCONT)");
    let refused = workers.freeze_one(LEASE * 3, LIMIT).await?;
    verdicts.add(refused, "the frozen process came back as a ghost: its write was refused");
    let stopped = workers.stop_all(GRACE).await;
    verdicts.add(stopped, "the other processes ended in order at SIGTERM");
    verdicts.judge(store, THINGS, server).await
}

/// Looks again and again until there is what the demo waits for.
async fn until<T>(
    what: &str,
    mut look: impl AsyncFnMut() -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let looking = async {
        loop {
            if let Some(found) = look().await? {
                return Ok(found);
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(LIMIT, looking).await.unwrap_or_else(|_| Err(waited_in_vain(what)))
}

fn waited_in_vain(what: &str) -> Failure {
    let what = format!("the demo waited in vain for {what}");
    Failure::new(Code::Unexpected, what, "run it again with -vv and report what you see")
}
