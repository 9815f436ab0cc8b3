//! `tidemill outbox`: events that were committed together with the data, and what became of them.

mod verify;

use crate::context::Context;
use crate::report::Failure;
use clap::Subcommand;
use tidemill_domain::code::Exit;

/// Events that were committed together with the data
#[derive(Subcommand, Debug)]
pub(crate) enum OutboxCommand {
    /// Compare what was published with the table: what is lost, came twice or is out of order
    Verify(verify::Verify),
}

pub(super) async fn run(command: OutboxCommand, context: &Context) -> Result<Exit, Failure> {
    match command {
        OutboxCommand::Verify(arguments) => verify::run(arguments, context).await,
    }
}
