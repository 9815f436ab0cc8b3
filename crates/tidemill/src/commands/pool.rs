//! `tidemill pool`: manage pools and their leases. Commands take the name of a pool or its external id.

mod dynamo;
mod import;
mod limits;
mod look;
mod operate;
mod registry;
mod simulate;

use super::examples;
use crate::commands::job::reason;
use crate::commands::prelude::*;
pub(super) use operate::period;

use clap::{Args, Subcommand};
use operate::Changes;
use std::path::PathBuf;
use tidemill_domain::code::Exit;
use tidemill_domain::pool::{PoolName, ReleaseOutcome, TicketId};
use tidemill_server::api::pool::no_such_pool;
use tidemill_store::Tx;
use tidemill_store::pool::PoolRecord;

/// More pools than anyone has.
const POOLS_MAX: u32 = 100_000;

#[derive(Subcommand, Debug)]
pub(crate) enum PoolCommand {
    /// Create a pool
    Create {
        /// Name of the pool
        name: PoolName,
        /// Capacity in units
        #[arg(long, value_name = "UNITS")]
        max: u32,
        #[command(flatten)]
        changes: Changes,
    },
    /// Change settings of a pool
    Set(operate::Set),
    /// List pools
    List {
        /// Maximum number of pools
        #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
    /// Show a pool: its settings, usage, and the first request in its queue
    Show {
        /// Name or external id of the pool
        pool: String,
    },
    /// Delete a pool and its history; it must have no leases and no waiting requests
    #[command(aliases = ["rm", "remove"])]
    Delete {
        /// Name or external id of the pool
        pool: String,
        /// Reason, kept in the audit log
        #[arg(long, value_parser = reason)]
        reason: Option<String>,
    },
    /// Pause a pool: no request starts, and holders keep their units
    Pause {
        /// Name or external id of the pool
        pool: String,
        /// Reason, kept in the audit log
        #[arg(long, value_parser = reason)]
        reason: String,
    },
    /// Resume a paused pool
    Resume {
        /// Name or external id of the pool
        pool: String,
        /// Reason, kept in the audit log
        #[arg(long, value_parser = reason)]
        reason: Option<String>,
    },
    /// Open or close the circuit breaker of a pool
    #[command(subcommand, after_help = examples(&["pool breaker open ADW --reason 'patch day'"]))]
    Breaker(BreakerCommand),
    /// List the leases of a pool, the oldest first
    Holders(Of),
    /// List waiting requests in the order of the queue
    Queue(Of),
    /// Show how many units pools need now, in 5 and in 15 minutes
    Demand {
        /// Name or external id of the pool [default: all pools]
        pool: Option<String>,
    },
    /// Release a lease of any holder, or take its request out of the queue
    Release {
        /// Id of the lease or request
        lease: TicketId,
        /// Reason, kept in the audit log
        #[arg(long, value_parser = reason)]
        reason: String,
        /// Outcome of the work of the holder: completed, failed or refused; `refused`, or `failed` with an --error by which
        /// databases refuse connections, opens the circuit breaker; other outcomes are not recorded
        #[arg(long)]
        outcome: Option<ReleaseOutcome>,
        /// Error of the work; a failure with a code by which databases refuse connections counts as refused
        #[arg(long, value_name = "TEXT", requires = "outcome")]
        error: Option<String>,
    },
    /// List decisions about pools, the newest first
    Events {
        /// Name or external id of the pool [default: all pools]
        pool: Option<String>,
        /// Maximum number of events
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
    /// Replay the log of a pool and compare the result with what is stored
    Verify {
        /// Name or external id of the pool [default: all pools]
        pool: Option<String>,
    },
    /// Simulate nights of batches and print their waits and SLA misses
    Simulate(simulate::Simulate),
    /// Simulate the past of a pool again with other settings, and compare it with what happened
    Replay(simulate::Replay),
    /// Propose settings and cron times that would have made the past nights of a pool better
    Advise {
        /// Name or external id of the pool
        pool: String,
    },
    /// Import the tables of an EMR Batch Agent: its limits and its running batches
    Import {
        /// File with items in DynamoDB JSON or plain JSON, or - for standard input
        file: PathBuf,
    },
    /// Export pools or leases as items of the tables of an EMR Batch Agent, in DynamoDB JSON
    Export(import::Export),
}

#[derive(Subcommand, Debug)]
pub(crate) enum BreakerCommand {
    /// Open the circuit breaker: nothing starts until you close it
    Open(BreakerOrder),
    /// Close the circuit breaker: the whole limit applies at once
    Close(BreakerOrder),
}

#[derive(Args, Debug)]
pub(crate) struct BreakerOrder {
    /// Name or external id of the pool
    pool: String,
    /// Reason, kept in the audit log
    #[arg(long, value_parser = reason)]
    reason: String,
}

#[derive(Args, Debug)]
pub(crate) struct Of {
    /// Name or external id of the pool
    pool: String,
    /// Maximum number of rows
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

#[crate::boxed(?Send)]
pub(super) async fn run(command: PoolCommand, context: &Context) -> Result<Exit> {
    match command {
        PoolCommand::Create { name, max, changes } => operate::create(name, max, changes, context).await,
        PoolCommand::Set(set) => operate::set(set, context).await,
        PoolCommand::List { limit } => look::list(limit, context).await,
        PoolCommand::Show { pool } => look::show(&pool, context).await,
        PoolCommand::Delete { pool, reason } => operate::delete(&pool, reason.as_deref(), context).await,
        PoolCommand::Pause { pool, reason } => operate::pause(&pool, &reason, context).await,
        PoolCommand::Resume { pool, reason } => operate::resume(&pool, reason.as_deref(), context).await,
        PoolCommand::Breaker(command) => operate::breaker(command, context).await,
        PoolCommand::Holders(of) => look::holders(&of, context).await,
        PoolCommand::Queue(of) => look::queue(&of, context).await,
        PoolCommand::Demand { pool } => look::demand(pool.as_deref(), context).await,
        PoolCommand::Release { lease, reason, outcome, error } => {
            let end = outcome.map(|outcome| outcome.end(error.as_deref()));
            operate::release(lease, &reason, end, context).await
        }
        PoolCommand::Events { pool, limit } => look::events(pool.as_deref(), limit, context).await,
        PoolCommand::Verify { pool } => look::verify(pool.as_deref(), context).await,
        PoolCommand::Simulate(arguments) => simulate::simulate(&arguments, context),
        PoolCommand::Replay(arguments) => simulate::replay(&arguments, context).await,
        PoolCommand::Advise { pool } => simulate::advise(&pool, context).await,
        PoolCommand::Import { file } => import::run(&file, context).await,
        PoolCommand::Export(export) => import::export(&export, context).await,
    }
}

/// The pool with this name, or else with this external id.
pub(super) async fn find(tx: &mut Tx, text: &str) -> Result<PoolRecord> {
    if let Ok(name) = text.parse::<PoolName>()
        && let Some(found) = tx.pools().find(&name).await?
    {
        return Ok(found);
    }
    if let Ok(external_id) = text.parse::<i64>()
        && let Some(found) = tx.pools().find_external(external_id).await?
    {
        return Ok(found);
    }
    Err(no_such_pool(tx, text).await?.into())
}
