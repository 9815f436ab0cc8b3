//! `tidemill process`: the processes that use this database.

use crate::context::Context;
use crate::report::Failure;
use clap::Subcommand;
use serde_json::json;
use tidemill_domain::code::Exit;

/// The processes that use this database
#[derive(Subcommand, Debug)]
pub(crate) enum ProcessCommand {
    /// The living first, then those that ended in the last week
    List {
        /// At most so many processes
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
}

#[crate::boxed(?Send)]
pub(super) async fn run(
    ProcessCommand::List { limit }: &ProcessCommand,
    context: &Context,
) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let now = tx.now().await?;
    let processes = tx.processes().list(*limit).await?;
    let processes: Vec<_> = processes.iter().map(|process| (process, now)).collect();
    let empty = "No process has used this database yet.";
    context.list("tidemill.process/v1", empty, &processes).columns(&[
        ("id", |(process, _)| json!(process.id.to_string())),
        ("name", |(process, _)| json!(process.identity.name)),
        ("host", |(process, _)| json!(process.identity.host)),
        ("pid", |(process, _)| json!(process.identity.pid)),
        ("version", |(process, _)| json!(process.identity.version)),
        ("state", |(process, now)| json!(process.state.word(*now))),
        ("started_at", |(process, _)| json!(process.started_at.to_string())),
        ("heartbeat_age_seconds", |(process, now)| {
            let age = now.since(process.heartbeat_at);
            json!((age.as_secs_f64() * 10.0).round() / 10.0)
        }),
    ])
}
