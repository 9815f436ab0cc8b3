//! `tidemill process` and `tidemill lease`.

use crate::commands::prelude::*;
use tidemill_api::process::{Lease, Process};

#[derive(Subcommand, Debug)]
pub(crate) enum ProcessCommand {
    /// List live processes, then those that ended in the last week
    List {
        /// Maximum number of processes
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
}

#[derive(Subcommand, Debug)]
pub(crate) enum LeaseCommand {
    /// List leases, held ones first
    List {
        /// Maximum number of leases
        #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
}

#[crate::boxed(?Send)]
pub(super) async fn run(ProcessCommand::List { limit }: &ProcessCommand, context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let now = tx.now().await?;
    let processes = tx.processes().list(*limit + 1).await?;
    let processes = processes.iter().map(|process| (process, now));
    let columns = "id?? name host? pid? version? state started_at? heartbeat_at";
    context.print_page::<Process, _>("tidemill.process/v1", "No processes.", processes, columns, *limit, "")
}

#[crate::boxed(?Send)]
pub(super) async fn leases(LeaseCommand::List { limit }: &LeaseCommand, context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let leases = tx.leases().list(*limit + 1).await?;
    let columns = "kind name state epoch? owner?? acquired_at? until";
    context.print_page::<Lease, _>("tidemill.lease/v1", "No leases.", &leases, columns, *limit, "")
}
