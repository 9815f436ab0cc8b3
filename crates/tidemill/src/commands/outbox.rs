//! `tidemill outbox`: events that were committed together with the data, and what became of them.

mod add;
mod attach;
mod failed_event;
mod failed_row;
mod filter;
mod look;
mod notify;
mod operate;
mod stats;
mod verify;

use crate::context::Context;
use crate::report::Failure;
use clap::Subcommand;
use tidemill_domain::code::Exit;
use tidemill_domain::outbox::EventId;

/// Events that were committed together with the data
#[derive(Subcommand, Debug)]
pub(crate) enum OutboxCommand {
    /// Write one event by hand
    Add(add::Add),
    /// The events, the newest first
    List(look::List),
    /// All about one event: what it says, and what became of it
    Show {
        /// Its id
        #[arg(value_name = "EVENT_ID")]
        id: EventId,
    },
    /// The relays that publish, with their slots
    Relays,
    /// Compare what was published with the table: what is lost, came twice or is out of order
    Verify(verify::Verify),
    /// The events that a sink refused and nobody tries any more; with an id, all about one
    #[command(alias = "dead")]
    Failed(failed_event::Failed),
    /// Never publish events that were refused; those behind them go on
    Skip(operate::Many),
    /// Try events that were refused again at once
    Replay(operate::Many),
    /// Publish events that were refused to another topic
    Redirect(operate::RedirectArguments),
    /// Publish something else in place of events that were refused
    Edit(operate::EditArguments),
    /// What was not published yet, what has failed, and who relays
    Stats(stats::Stats),
    /// Whether relays are woken at once when other programs write events
    #[command(subcommand, alias = "notice")]
    Notify(notify::NotifyCommand),
    /// Let relays serve a table that was there before
    #[command(alias = "adopt")]
    Attach(attach::Attach),
    /// The tables that relays serve beside the outbox
    #[command(alias = "adopted")]
    Attached,
    /// Stop serving a table
    #[command(alias = "unadopt")]
    Detach(attach::Detach),
}

#[crate::boxed(?Send)]
pub(super) async fn run(command: OutboxCommand, context: &Context) -> Result<Exit, Failure> {
    match command {
        OutboxCommand::Add(arguments) => add::run(arguments, context).await,
        OutboxCommand::List(arguments) => look::list(arguments, context).await,
        OutboxCommand::Show { id } => look::show(id, context).await,
        OutboxCommand::Relays => look::relays(context).await,
        OutboxCommand::Verify(arguments) => verify::run(arguments, context).await,
        OutboxCommand::Failed(arguments) => failed_event::run(arguments, context).await,
        OutboxCommand::Skip(arguments) => operate::skip(arguments, context).await,
        OutboxCommand::Replay(arguments) => operate::replay(arguments, context).await,
        OutboxCommand::Redirect(arguments) => operate::redirect(arguments, context).await,
        OutboxCommand::Edit(arguments) => operate::edit(arguments, context).await,
        OutboxCommand::Stats(arguments) => stats::run(&arguments, context).await,
        OutboxCommand::Attach(arguments) => attach::attach(arguments, context).await,
        OutboxCommand::Attached => attach::list(context).await,
        OutboxCommand::Detach(arguments) => attach::detach(arguments, context).await,
        OutboxCommand::Notify(notify) => notify::run(&notify, context).await,
    }
}
