//! `tidemill pool`: scarce units, who has them, who waits for them, and what operators do about it.
//!
//! Wherever a pool is named, its external id does as well.

mod change;
mod dynamo;
mod export;
mod import;
mod limits;
mod look;
mod operate;
mod registry;

use crate::commands::job::reason;
use crate::context::Context;
use crate::report::Failure;
pub(super) use change::period;

use change::Changes;
use clap::{Args, Subcommand};
use export::Table;
use std::path::PathBuf;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::pool::settings::BadSettings;
use tidemill_domain::pool::{PoolName, TicketId};
use tidemill_engine::pool::PoolError;
use tidemill_store::Tx;
use tidemill_store::pool::{Defined, PoolRecord};

/// Scarce units: pools, who has them and who waits
#[derive(Subcommand, Debug)]
pub(crate) enum PoolCommand {
    /// Make a pool
    Create {
        /// Its name
        name: PoolName,
        /// How many units there are
        #[arg(long, value_name = "UNITS")]
        max: u32,
        #[command(flatten)]
        changes: Changes,
    },
    /// Change what is given, and leave the rest as it is
    Set {
        /// Its name or external id
        pool: String,
        /// How many units there are; fewer than are in use takes nothing from anybody
        #[arg(long, value_name = "UNITS")]
        max: Option<u32>,
        /// Take away the other numbers of units at other times of day
        #[arg(long, conflicts_with = "capacity")]
        no_capacity: bool,
        #[command(flatten)]
        changes: Changes,
        /// Why, for those who wonder later
        #[arg(long, value_parser = reason)]
        reason: Option<String>,
    },
    /// The pools, and how full they are
    List {
        /// At most so many pools
        #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
    /// One pool: its settings, how full it is, and who is first in its queue
    Show {
        /// Its name or external id
        pool: String,
    },
    /// Remove a pool that nobody uses or waits for, with all that is known of its past
    Rm {
        /// Its name or external id
        pool: String,
        /// Why, for those who wonder later
        #[arg(long, value_parser = reason)]
        reason: Option<String>,
    },
    /// Let nothing start until the pool is resumed; who has units keeps them
    Pause {
        /// Its name or external id
        pool: String,
        /// Why, for those who wonder later
        #[arg(long, value_parser = reason)]
        reason: String,
    },
    /// Let a pool that is paused go on with its queue
    Resume {
        /// Its name or external id
        pool: String,
        /// Why, for those who wonder later
        #[arg(long, value_parser = reason)]
        reason: Option<String>,
    },
    /// Who has units of a pool, the oldest first
    Holders(Of),
    /// Who waits for units of a pool, in the order of the queue, and why
    Queue(Of),
    /// Give the units of a lease back, or take a request out of the queue, whoever its holder is
    Release {
        /// Its id
        lease: TicketId,
        /// Why, for those who wonder later
        #[arg(long, value_parser = reason)]
        reason: String,
    },
    /// What has happened, the newest first
    Events {
        /// Its name or external id; all pools if it is not given
        pool: Option<String>,
        /// At most so many events
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
    /// Follow the log of a pool and compare what follows from it with what is stored
    Verify {
        /// Its name or external id; all pools if it is not given
        pool: Option<String>,
    },
    /// Make or change pools by the items of the document's tables, and take over its running batches
    Import {
        /// A file of items in DynamoDB's or plain JSON; standard input if it is -
        file: PathBuf,
    },
    /// Pools or tickets as items of the document's tables, in DynamoDB's JSON
    Export {
        /// Which of its tables
        #[arg(long, default_value = "limits")]
        table: Table,
        /// Only who has units now; of the registry
        #[arg(long)]
        running: bool,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Of {
    /// Its name or external id
    pool: String,
    /// At most so many
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

#[crate::boxed(?Send)]
pub(super) async fn run(command: PoolCommand, context: &Context) -> Result<Exit, Failure> {
    match command {
        PoolCommand::Create { name, max, changes } => change::create(name, max, changes, context).await,
        PoolCommand::Set { pool, max, no_capacity, changes, reason } => {
            let order = change::Order { max, no_capacity, changes, reason };
            change::set(&pool, order, context).await
        }
        PoolCommand::List { limit } => look::list(limit, context).await,
        PoolCommand::Show { pool } => look::show(&pool, context).await,
        PoolCommand::Rm { pool, reason } => operate::remove(&pool, reason.as_deref(), context).await,
        PoolCommand::Pause { pool, reason } => operate::pause(&pool, &reason, context).await,
        PoolCommand::Resume { pool, reason } => operate::resume(&pool, reason.as_deref(), context).await,
        PoolCommand::Holders(of) => look::holders(&of, context).await,
        PoolCommand::Queue(of) => look::queue(&of, context).await,
        PoolCommand::Release { lease, reason } => operate::release(lease, &reason, context).await,
        PoolCommand::Events { pool, limit } => look::events(pool.as_deref(), limit, context).await,
        PoolCommand::Verify { pool } => look::verify(pool.as_deref(), context).await,
        PoolCommand::Import { file } => import::run(&file, context).await,
        PoolCommand::Export { table, running } => {
            export::run(export::Order { table, running }, context).await
        }
    }
}

/// The pool of this name, or else with this external id.
pub(super) async fn find(tx: &mut Tx, text: &str) -> Result<PoolRecord, Failure> {
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
    Err(unknown(text))
}

/// There is no such pool.
pub(super) fn unknown(text: &str) -> Failure {
    let what = format!("there is no pool {:?}", text.chars().take(100).collect::<String>());
    Failure::new(Code::PoolNotFound, what, "see `tidemill pool list`, or make it: `tidemill pool create`")
}

/// What became of settings, if they are not in place.
fn done(defined: Defined, name: &PoolName) -> Result<(), Failure> {
    Err(match defined {
        Defined::Done => return Ok(()),
        Defined::NoSuchPool => unknown(name.as_str()),
        Defined::NameTaken => {
            let fix = format!("change it with `tidemill pool set {name}`, or choose another name");
            Failure::new(Code::PoolTaken, format!("there is already a pool {name}"), fix)
        }
        Defined::ExternalIdTaken(other) => {
            let what = format!("the external id is that of the pool {other}");
            let fix = format!("give {name} another --id, or remove {other}");
            Failure::new(Code::PoolTaken, what, fix)
        }
        Defined::InUse { tickets } => {
            let what = format!("the pool {name} has {tickets} leases and requests");
            let fix = format!(
                "pause it and wait for them, or release them: `tidemill pool holders {name}`, `tidemill pool queue {name}`"
            );
            Failure::new(Code::PoolInUse, what, fix)
        }
    })
}

impl From<BadSettings> for Failure {
    fn from(bad: BadSettings) -> Self {
        let fix = format!("correct {}; see `tidemill pool create --help`", bad.field);
        Self::new(Code::BadPoolSettings, bad.to_string(), fix)
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        let failure = Self::new(error.code(), error.to_string(), error.fix());
        match &error {
            PoolError::Store(inner) => failure.because_of(inner.as_ref()),
            _ => failure,
        }
    }
}
