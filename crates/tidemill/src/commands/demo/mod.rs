//! `tidemill demo`: on an embedded database of its own, an import that fails and goes on, a night of batches that share
//! two databases, events that two relays publish until one is killed, films that are rendered although a worker goes
//! away, and workers, one killed, one frozen; what is promised is then verified against what the database holds, and
//! all of it can be watched.

mod crew;
mod import;
mod night;
mod relays;
mod renders;
mod verdict;
pub(crate) mod worker;

use crate::commands::serve::{Serving, Wanted, shutdown};
use crate::context::Context;
use crate::output::write_stdout;
use crate::report::Failure;
use clap::Args;
use crew::{Crew, Setup};
use std::net::SocketAddr;
use std::time::Duration;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::process::ProcessId;
use tidemill_server::access::Authentication;
use tidemill_store::Store;
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
/// What the foundation promises on top of the lease.
const GRACE: Duration = Duration::from_secs(5);
const WORKERS: usize = 3;
const THINGS: u32 = 6;

pub(super) async fn run(arguments: &Demo, context: &Context) -> Result<Exit, Failure> {
    let failed = |error| Failure::unexpected("there is no place for temporary files", &error);
    let folder = tempfile::tempdir().map_err(failed)?;
    let url = format!("sqlite://{}/tidemill.db", folder.path().display());
    let store = Store::connect(&url).await?;
    let serving = serve(arguments, context, &store).await?;
    let server = serving.process.id();
    context.note(&format!("the dashboard is at http://{}/", serving.server.address()));
    context
        .note(&format!("{WORKERS} worker processes share {THINGS} things by leases of {LEASE:?}, on {url}"));
    let (stop, told) = watch::channel(false);
    let served = tokio::spawn(serving.run(told));
    let setup = Setup {
        url,
        folder: folder.path().to_owned(),
        workers: WORKERS,
        things: THINGS,
        lease: LEASE,
        log_level: context.settings().log.level,
    };
    let outcome = perform(arguments, context, &setup, &store, server).await;
    stop.send_replace(true);
    let _ended = served.await;
    store.close().await;
    outcome
}

/// The dashboard of the demo, open to whoever sits at this host. The events of the demo are not for a sink that somebody has
/// configured.
async fn serve(arguments: &Demo, context: &Context, store: &Store) -> Result<Serving, Failure> {
    let listen = arguments.listen;
    match Serving::start(context, store, listen, "", Authentication::None, Wanted::default()).await {
        Err(failure) if failure.code() == Code::CannotListen => {
            context.note(&format!("{listen} is taken, so another port is used"));
            let listen = SocketAddr::new(listen.ip(), 0);
            Serving::start(context, store, listen, "", Authentication::None, Wanted::default()).await
        }
        other => other,
    }
}

async fn perform(
    arguments: &Demo,
    context: &Context,
    setup: &Setup,
    store: &Store,
    server: ProcessId,
) -> Result<Exit, Failure> {
    let mut verdicts = Verdicts::default();
    import::perform(store, &setup.folder, context, &mut verdicts).await?;
    night::perform(context, &mut verdicts).await?;
    relays::perform(store, setup, context, &mut verdicts).await?;
    renders::perform(store, &setup.folder, server, context, &mut verdicts).await?;
    let mut crew = Crew::start(setup)?;
    let played = play(&mut crew, store, server, context, &mut verdicts).await;
    crew.end().await;
    played?;
    write_stdout(verdicts.text().as_bytes())?;
    if !verdicts.all_hold() {
        let fix = "run it again with -vv and report what you see";
        return Err(Failure::new(Code::Unexpected, "the demo found that something does not hold", fix));
    }
    if !arguments.exit {
        context.note("the dashboard stays open, with new workers to look at; end it with Ctrl-C");
        let crew = Crew::start(setup)?;
        let (_stop, mut told) = shutdown()?;
        drop(told.wait_for(|stop| *stop).await);
        crew.end().await;
    }
    Ok(Exit::Ok)
}

async fn play(
    crew: &mut Crew,
    store: &Store,
    server: ProcessId,
    context: &Context,
    verdicts: &mut Verdicts,
) -> Result<(), Failure> {
    crew.until_all_work(LEASE + GRACE).await?;
    context.note("every thing is worked on; now one worker is killed (SIGKILL)");
    let (took, moved) = crew.kill_one(LEASE + GRACE).await?;
    verdicts.add(
        took <= LEASE + GRACE,
        format!("{moved} leases of a killed process moved to others after {:.1} s", took.as_secs_f64()),
    );
    context.note("another worker is frozen for three leases (SIGSTOP), then woken (SIGCONT)");
    let refused = crew.freeze_one(LEASE * 3, LEASE + GRACE).await?;
    verdicts.add(refused, "the frozen process came back as a ghost: its write was refused");
    let stopped = crew.stop_all(GRACE).await;
    verdicts.add(stopped, "the other processes ended in order at SIGTERM");
    verdicts.judge(store, THINGS, server).await
}
