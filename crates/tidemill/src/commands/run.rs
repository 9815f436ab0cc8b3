//! `tidemill run`: runs a command with units of pools, and releases them whenever it ends.
//!
//! Reading order: `request` (the request for units), `wait` (waiting for them), `child` (the command).

mod child;
mod request;
mod wait;

use crate::commands::pool::{find, period};
use crate::commands::prelude::*;
use crate::commands::shutdown::{Signals, received};
use request::{PoolSpec, Request};
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::time::Duration;
use tidemill_domain::pool::Class;
use tidemill_domain::pool::estimate::Pace;
use tidemill_engine::pool::{Hold, PoolOptions, Pools};

/// Maximum interval of repeated requests. Short, so that units are not reserved for long for a process that was killed.
const REPEAT_WITHIN: Duration = Duration::from_secs(30);

/// How long to try to release units while the database does not answer.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Args, Debug)]
pub(crate) struct Run {
    /// Pool, with its own units and minimum if they differ from --units and --min; repeat it to get units of several
    /// pools, all or none
    #[arg(long = "pool", value_name = "NAME[=UNITS[:MIN]]", required = true)]
    pools: Vec<PoolSpec>,
    /// Number of units [default: that of the hint, then that of the pool]
    #[arg(long, value_name = "UNITS")]
    units: Option<NonZeroU32>,
    /// Minimum number of units that you accept [default: that of the pool]
    #[arg(long, value_name = "UNITS")]
    min: Option<NonZeroU32>,
    /// Maximum time to wait for units; 0 does not wait
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = wait_time)]
    wait: Duration,
    /// Priority class: critical, normal or bulk
    #[arg(long, default_value_t)]
    class: Class,
    /// Oracle hint; the command gets it in TIDEMILL_HINT, lowered to the granted degree
    #[arg(long)]
    hint: Option<String>,
    /// Name of the run in lists and for estimates [default: name of the command]
    #[arg(long)]
    name: Option<String>,
    /// Table that the command reads, for estimates
    #[arg(long, default_value = "", hide_default_value = true)]
    table: String,
    /// Heartbeat timeout; heartbeats are sent four times as often
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = period)]
    lease: Duration,
    /// Command and arguments, run without a shell
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

fn wait_time(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { period(text) }
}

/// Returns the exit code of the command, or 128 plus the signal that ended it.
#[crate::boxed(?Send)]
pub(super) async fn run(arguments: Run, context: &Context) -> Result<u8> {
    let mut signals = received(Signals::of(&child::FORWARDED))?;
    let store = context.store().await?;
    let mut tx = store.read().await?;
    let mut records = Vec::with_capacity(arguments.pools.len());
    for spec in &arguments.pools {
        records.push(find(&mut tx, &spec.pool).await?);
    }
    drop(tx);
    let request = Request::new(&arguments, records)?;
    request.warn(context);
    let pace = Pace { most: context.pool_options().pace.most.min(REPEAT_WITHIN), ..Pace::default() };
    let pools = Pools::start(store.clone(), PoolOptions { pace });
    match wait::for_units(&pools, &request, arguments.wait, &mut signals, context).await? {
        wait::Waited::Interrupted(signal) => Ok(child::number(signal)),
        wait::Waited::Held(hold) => {
            let secrets = &context.loaded.secret_variables;
            let ended = match child::variables(&request, hold.parts()) {
                Ok(variables) => child::run(&arguments.command, variables, secrets, &mut signals).await,
                Err(failure) => Err(failure),
            };
            release(hold, !matches!(ended, Ok(0)), context).await;
            ended
        }
    }
}

/// Releases the units. A failure is only noted: the caller gets the exit code of the command.
async fn release(hold: Hold, failed: bool, context: &Context) {
    if hold.is_lost() {
        return context.note("the lease ended before the command did");
    }
    match tokio::time::timeout(RELEASE_TIMEOUT, hold.release(failed)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => context.note(&format!("the units could not be released and will expire: {error}")),
        Err(_) => {
            context.note("the units could not be released and will expire: the database does not answer")
        }
    }
}
