//! `tidemill demo`: real processes on an embedded database of their own, one killed, one frozen; what the
//! foundation promises is then verified against what the database holds.

mod crew;
mod verdict;
pub(crate) mod worker;

use crate::context::Context;
use crate::output::write_stdout;
use crate::report::Failure;
use clap::Args;
use crew::{Crew, Setup};
use std::time::Duration;
use tidemill_domain::code::{Code, Exit};
use tidemill_store::Store;
use verdict::Verdicts;

/// Show what is built, on a database of its own, and verify it
#[derive(Args, Debug)]
pub(crate) struct Demo {}

/// Short, so that nobody has to wait for long.
const LEASE: Duration = Duration::from_secs(2);
/// What the foundation promises on top of the lease.
const GRACE: Duration = Duration::from_secs(5);
const WORKERS: usize = 3;
const THINGS: u32 = 6;

pub(super) async fn run(_arguments: &Demo, context: &Context) -> Result<Exit, Failure> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite://{}/tidemill.db", folder.path().display());
    context
        .note(&format!("{WORKERS} worker processes share {THINGS} things by leases of {LEASE:?}, on {url}"));
    let mut crew = Crew::start(&Setup {
        url: url.clone(),
        folder: folder.path().to_owned(),
        workers: WORKERS,
        things: THINGS,
        lease: LEASE,
        log_level: context.settings().log.level,
    })?;
    let verdicts = play(&mut crew, &url, context).await;
    crew.end().await;
    let verdicts = verdicts?;
    write_stdout(verdicts.text().as_bytes())?;
    if verdicts.all_hold() {
        return Ok(Exit::Ok);
    }
    let fix = "run it again with -vv and report what you see";
    Err(Failure::new(Code::Unexpected, "the demo found that something does not hold", fix))
}

async fn play(crew: &mut Crew, url: &str, context: &Context) -> Result<Verdicts, Failure> {
    let mut verdicts = Verdicts::default();
    crew.until_all_held(LEASE + GRACE).await?;
    context.note("every thing has an owner; now one worker is killed (SIGKILL)");
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

    let store = Store::connect(url).await?;
    verdicts.judge(&store, THINGS).await?;
    store.close().await;
    Ok(verdicts)
}
