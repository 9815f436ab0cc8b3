//! `tidemill demo`: runs every part of Tidemill on its own embedded database, kills and freezes processes, and verifies
//! the result against the database. Then everything continues, so that you can watch the dashboard.

mod demo_workers;
mod import;
mod night;
mod processes;
pub(crate) mod relays;
mod renders;
pub(crate) mod worker;

use crate::commands::prelude::*;
use crate::commands::serve::{ServeSetup, Serving, shutdown};
use demo_workers::DemoWorkers;
use import::Imports;
use processes::{KillWorker, Setup, Supervisor};
use renders::Films;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::process::ProcessId;
use tidemill_engine::pool::Pools;
use tidemill_server::access::Authentication;
use tidemill_server::action::ExtraAction;
use tidemill_store::Store;
use tokio::sync::watch;

#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// Exit after the verification instead of keeping the dashboard open
    #[arg(long)]
    exit: bool,
    /// Address of the dashboard; if it is in use, any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7790")]
    listen: SocketAddr,
}

/// Lease of workers. Short, so that a takeover takes seconds.
const LEASE: Duration = Duration::from_secs(2);
/// Takeover is promised 5 seconds after the lease; a busy machine gets more.
const GRACE: Duration = Duration::from_secs(30);
/// How long the demo waits for anything. Long enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
/// How long processes and renders may take to stop.
const STOP_TIME: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);
const WORKERS: usize = 3;
const THINGS: u32 = 6;

#[crate::boxed(?Send)]
pub(super) async fn run(arguments: &Demo, context: &Context) -> Result<Exit> {
    let folder = tempfile::tempdir().map_err(unexpected)?;
    // The demo must not notify your receivers or fire your schedules.
    let url = format!("sqlite://{}/tidemill.db", folder.path().display());
    let set = [
        ("database.url", url.clone()),
        ("server.listen", arguments.listen.to_string()),
        ("server.auth", "none".to_owned()),
    ];
    let context = &context.for_demo(folder.path(), set)?;
    let store = Store::connect(&url).await?;
    let log_level = context.settings().log.level;
    let setup = Arc::new(Setup { url, folder: folder.path().to_owned(), log_level });
    let workers = Arc::new(Supervisor::new(&setup, Setup::start_worker));
    let action: Arc<dyn ExtraAction> =
        Arc::new(KillWorker { workers: Arc::clone(&workers), store: store.clone() });
    let serving = serve(arguments.listen, context, &store, &action).await?;
    context.note(&format!("the dashboard is at http://{}/", serving.server.address()));
    context.note(&format!("{WORKERS} workers share {THINGS} leases of {LEASE:?} on {}", setup.url));
    let (server, pools) = (serving.process.id(), serving.pools.clone());
    let (_stop, stopped) = shutdown()?;
    let (end_serving, ended) = watch::channel(false);
    let served = tokio::spawn(serving.run(ended));
    let stage = Stage { context, setup: &setup, store: &store, server, pools, workers: &workers };
    let outcome = match arguments.exit {
        true => stage.verify_unless(stopped).await,
        false => stage.show(stopped).await,
    };
    end_serving.send_replace(true);
    let _ended = served.await;
    store.close().await;
    outcome.map(|()| Exit::Ok)
}

/// Starts the dashboard, without authentication and without a sink.
async fn serve(
    listen: SocketAddr,
    context: &Context,
    store: &Store,
    action: &Arc<dyn ExtraAction>,
) -> Result<Serving> {
    let start = async |listen| {
        let setup = ServeSetup { action: Some(Arc::clone(action)), ..ServeSetup::default() };
        Serving::start(context, store, listen, Authentication::None, setup).await
    };
    match start(listen).await {
        Err(failure) if failure.code == Code::CannotListen => {
            context.note(&format!("{listen} is in use, so the dashboard uses another port"));
            start(SocketAddr::new(listen.ip(), 0)).await
        }
        other => other,
    }
}

struct Stage<'a> {
    context: &'a Context,
    setup: &'a Arc<Setup>,
    store: &'a Store,
    server: ProcessId,
    pools: Pools,
    workers: &'a Supervisor,
}

impl Stage<'_> {
    /// Verifies everything, and then continues until it is stopped. Pools are busy from the start.
    async fn show(&self, stopped: watch::Receiver<bool>) -> Result<()> {
        night::create_pools(self.store, night::DIVISOR).await?;
        let (end, ended) = watch::channel(false);
        let nights = rounds("the night", &ended, async |round| night::play(&self.pools, round, &ended).await);
        let shown = async {
            let shown = self.verify_and_continue(stopped).await;
            end.send_replace(true);
            shown
        };
        tokio::join!(shown, nights).0
    }

    async fn verify_and_continue(&self, mut stopped: watch::Receiver<bool>) -> Result<()> {
        self.verify_unless(stopped.clone()).await?;
        self.context.note("the demo continues, so that you can watch the dashboard; stop it with Ctrl-C");
        self.play(stopped.clone()).await?;
        if !*stopped.borrow() {
            self.context.note("the demo pauses to save disk space; the dashboard stays open until Ctrl-C");
        }
        drop(stopped.wait_for(|stop| *stop).await);
        Ok(())
    }

    async fn verify_unless(&self, mut stopped: watch::Receiver<bool>) -> Result<()> {
        tokio::select! {
            verified = self.verify() => verified,
            _stopped = stopped.wait_for(|stop| *stop) => {
                let what = "the demo was stopped before it had verified everything";
                Err(Failure::new(Code::Unexpected, what, "let it run for a minute"))
            }
        }
    }

    /// Runs each part once, and prints the verdicts.
    async fn verify(&self) -> Result<()> {
        let mut verdicts = Verdicts::default();
        import::perform(self, &mut verdicts).await?;
        night::perform(self, &mut verdicts).await?;
        relays::perform(self, &mut verdicts).await?;
        renders::perform(self, &mut verdicts).await?;
        let mut workers = DemoWorkers::start(self.setup)?;
        let performed = self.disturb(&mut workers, &mut verdicts).await;
        workers.end().await;
        performed?;
        write_stdout(verdicts.text())?;
        if verdicts.all_hold() {
            return Ok(());
        }
        Err(failure("the demo found a broken promise"))
    }

    async fn disturb(&self, workers: &mut DemoWorkers, verdicts: &mut Verdicts) -> Result<()> {
        workers.until_all_work().await?;
        self.context.note("every lease is in use; now one worker is killed (SIGKILL)");
        let (took, moved) = workers.kill_one().await?;
        verdicts.add(
            took <= LEASE + GRACE,
            format!("{moved} leases of a killed process moved to others after {:.1} s", took.as_secs_f64()),
        );
        self.context.note("another worker is frozen for three leases (SIGSTOP), then resumed (SIGCONT)");
        workers.freeze_one(LEASE * 3).await?;
        verdicts.add(true, "a frozen process resumed after its lease: its write was refused");
        verdicts.add(workers.stop_all().await, "the other processes stopped cleanly at SIGTERM");
        demo_workers::judge(self, verdicts).await
    }
}

/// Claims, and whether each holds.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    lines: Vec<(bool, String)>,
}

impl Verdicts {
    pub(super) fn add(&mut self, holds: bool, claim: impl Into<String>) {
        self.lines.push((holds, claim.into()));
    }

    pub(super) fn all_hold(&self) -> bool {
        !self.lines.is_empty() && self.lines.iter().all(|(holds, _)| *holds)
    }

    pub(super) fn text(&self) -> String {
        let line = |(holds, claim): &(bool, String)| format!("{} {claim}\n", if *holds { "✓" } else { "✗" });
        self.lines.iter().map(line).collect()
    }
}

/// Polls until `poll` returns something, at most for [`LIMIT`].
async fn until<T>(what: &str, mut poll: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let polling = async {
        loop {
            if let Some(found) = poll().await? {
                return Ok(found);
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(LIMIT, polling).await.unwrap_or_else(|_| Err(timed_out(what)))
}

fn timed_out(what: &str) -> Failure {
    failure(&format!("the demo waited too long for {what}"))
}

fn failure(what: &str) -> Failure {
    Failure::new(Code::Unexpected, what, "run it again with -vv and report what you see")
}

fn unexpected(error: impl std::error::Error) -> Failure {
    Failure::unexpected("the demo cannot continue", &error)
}

/// Rounds of activity after the verification. They end and their pauses grow, so that a forgotten demo does not fill
/// the disk.
const ROUNDS_MAX: u32 = 200;

/// Rounds with short pauses: about half an hour.
const ROUNDS_QUICK: u32 = 40;

const PAUSE_SHORT: Duration = Duration::from_secs(5);
const PAUSE_LONG: Duration = Duration::from_secs(60);

impl Stage<'_> {
    /// Runs rounds until it is stopped or all rounds are over.
    async fn play(&self, mut stopped: watch::Receiver<bool>) -> Result<()> {
        let Self { setup, store, workers, .. } = *self;
        // Numbers continue after those of the verification.
        workers.begin(WORKERS + 1..=WORKERS * 2)?;
        let relays = Supervisor::new(setup, Setup::start_relay);
        relays.begin(relays::RELAYS + 1..=relays::RELAYS * 2)?;
        let imports = Imports::start(self, import::SMALL).await?;
        let films = Films::start_slow(self)?;
        let ended = stopped.clone();
        let playing = async {
            tokio::join!(
                rounds("the import", &ended, async |round| imports.play(round).await),
                rounds("the outbox", &ended, async |round| relays::play(store, &relays, round).await),
                rounds("the renders", &ended, async |_| films.play().await),
            );
        };
        tokio::select! {
            () = playing => {}
            () = workers.keep() => {}
            () = relays.keep() => {}
            _stopped = stopped.wait_for(|stop| *stop) => {}
        }
        relays.end().await;
        workers.end().await;
        films.end().await;
        imports.end().await
    }
}

/// A failed round is logged, and the next one starts.
async fn rounds(what: &str, ended: &watch::Receiver<bool>, play: impl AsyncFn(u32) -> Result<()>) {
    let mut ended = ended.clone();
    for round in 1..=ROUNDS_MAX {
        if let Err(failure) = play(round).await {
            tracing::warn!(?failure, "round {round} of {what} did not finish");
        }
        tokio::select! {
            () = tokio::time::sleep(pause_after(round)) => {}
            _ended = ended.wait_for(|ended| *ended) => return,
        }
    }
}

fn pause_after(round: u32) -> Duration {
    if round < ROUNDS_QUICK { PAUSE_SHORT } else { PAUSE_LONG }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_verified_is_not_a_success() {
        assert!(!Verdicts::default().all_hold());
    }

    #[test]
    fn it_moves_for_hours_and_comes_to_its_end() {
        let pauses: Duration = (1..=ROUNDS_MAX).map(pause_after).sum();

        assert!(pauses > Duration::from_secs(2 * 3_600) && pauses < Duration::from_secs(4 * 3_600));
        assert!((1..ROUNDS_MAX).all(|round| pause_after(round) <= pause_after(round + 1)));
    }
}
