//! `tidemill run`: runs a command with units of pools, and gives them back at every end.
//!
//! Reading order: `request` (what is asked for), `wait` (until it is there), `child` (the command and its end).

mod child;
mod request;
mod wait;

use crate::commands::pool::{find, period};
use crate::context::Context;
use crate::report::Failure;
use child::{Signals, Variables};
use clap::Args;
use request::{PoolSpec, Request};
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::time::Duration;
use tidemill_domain::pool::Class;
use tidemill_domain::pool::estimate::Pace;
use tidemill_engine::pool::{Hold, PoolOptions, Pools};

/// How soon a process that waits promises to ask again. Soon, so that nothing is set aside for long for one that was
/// killed.
const ASKS_AGAIN: Duration = Duration::from_secs(30);

/// How long it tries to give units back to a database that does not answer.
const GIVES_BACK_FOR: Duration = Duration::from_secs(60);

/// Run a command with units of pools, and give them back at every end
#[derive(Args, Debug)]
pub(crate) struct Run {
    /// The pool, with units and the least that would do if they differ from --units and --min; repeat it for several
    /// pools: all or nothing
    #[arg(long = "pool", value_name = "NAME[=UNITS[:MIN]]", required = true)]
    pools: Vec<PoolSpec>,
    /// How many units; by the hint if one is given, or else the pool's default
    #[arg(long, value_name = "UNITS")]
    units: Option<NonZeroU32>,
    /// The least that would do; the pool's if it is not given
    #[arg(long, value_name = "UNITS")]
    min: Option<NonZeroU32>,
    /// How long to wait for them; 0 for not at all
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = patience)]
    wait: Duration,
    /// How urgent it is: critical, normal or bulk
    #[arg(long, default_value_t)]
    class: Class,
    /// An Oracle hint, which the command finds lowered to what was granted in TIDEMILL_HINT
    #[arg(long)]
    hint: Option<String>,
    /// What it is called, for lists and for how long such runs take; the command's name if it is not given
    #[arg(long)]
    name: Option<String>,
    /// The table that will be read; with the name it tells how long such runs take
    #[arg(long, default_value = "", hide_default_value = true)]
    table: String,
    /// After how long of silence its units are in doubt; it sends heartbeats four times as often
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = period)]
    lease: Duration,
    /// The command with its arguments, run without a shell
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

fn patience(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { period(text) }
}

/// Returns the number that the command ended with, or 128 and the signal that ended it.
#[crate::boxed(?Send)]
pub(super) async fn run(arguments: Run, context: &Context) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let store = context.store().await?;
    let mut tx = store.read().await?;
    let mut records = Vec::with_capacity(arguments.pools.len());
    for spec in &arguments.pools {
        records.push(find(&mut tx, &spec.pool).await?);
    }
    drop(tx);
    let request = Request::new(&arguments, records)?;
    let pace = Pace { most: context.pool_options().pace.most.min(ASKS_AGAIN), ..Pace::default() };
    let pools = Pools::start(store.clone(), PoolOptions { pace });
    match wait::for_units(&pools, &request, arguments.wait, &mut signals, context).await? {
        wait::Waited::Interrupted(signal) => Ok(child::number(signal)),
        wait::Waited::Held(hold) => {
            with_units(hold, &request, &arguments.command, &mut signals, context).await
        }
    }
}

async fn with_units(
    hold: Hold,
    request: &Request,
    command: &[OsString],
    signals: &mut Signals,
    context: &Context,
) -> Result<u8, Failure> {
    let ended = match Variables::of(request, hold.parts()) {
        Ok(told) => child::run(command, &told, &context.loaded().secret_variables, signals).await,
        Err(failure) => Err(failure),
    };
    give_back(hold, !matches!(ended, Ok(0)), context).await;
    ended
}

/// Gives the units back. Whatever becomes of that, the command's own end is what counts for the caller.
async fn give_back(hold: Hold, failed: bool, context: &Context) {
    if hold.is_lost() {
        return context.note("somebody had taken the units back before the command ended");
    }
    match tokio::time::timeout(GIVES_BACK_FOR, hold.release(failed)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            context.note(&format!("the units could not be given back, and lapse later: {error}"))
        }
        Err(_) => {
            context.note("the units could not be given back, and lapse later: the database does not answer")
        }
    }
}
