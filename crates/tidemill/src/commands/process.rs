//! `tidemill process`: the processes that use this database.

use crate::context::Context;
use crate::output::Listing;
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

pub(super) async fn run(
    ProcessCommand::List { limit }: &ProcessCommand,
    context: &Context,
) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let now = tx.now().await?;
    let processes = tx.processes().list(*limit).await?;
    let columns = &["id", "name", "host", "pid", "version", "state", "started_at", "heartbeat_age_seconds"];
    let mut listing = Listing::new("tidemill.process/v1", columns, "No process has used this database yet.");
    for process in processes {
        let age = now.since(process.heartbeat_at);
        listing.push(vec![
            json!(process.id.to_string()),
            json!(process.identity.name),
            json!(process.identity.host),
            json!(process.identity.pid),
            json!(process.identity.version),
            json!(process.state.word(now)),
            json!(process.started_at.to_string()),
            json!((age.as_secs_f64() * 10.0).round() / 10.0),
        ]);
    }
    listing.print(context.output())
}
