//! `tidemill outbox`: events that are committed with your data, and how they are published.

mod add;
mod attach;
mod failed_event;
mod look;
mod operate;
mod verify;

use super::examples;
use crate::commands::prelude::*;
use operate::RedirectArguments;
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::failed_event::Verb;

#[derive(Subcommand, Debug)]
pub(crate) enum OutboxCommand {
    /// Add an event by hand
    Add(add::Add),
    /// List events, the newest first
    List(look::List),
    /// Show an event with its payload and state
    Show {
        /// Id of the event
        #[arg(value_name = "EVENT_ID")]
        id: EventId,
    },
    /// List live relays with their slots
    Relays,
    /// Compare the published records with the event table: lost, duplicated or out of order
    Verify(verify::Verify),
    /// List failed events that are not retried any more, or show one of them
    #[command(alias = "dead")]
    Failed(failed_event::Failed),
    /// Never publish failed events, so that later events of their aggregates continue
    Skip(operate::Many),
    /// Retry failed events now
    Replay(operate::Many),
    /// Publish failed events to another topic
    Redirect(RedirectArguments),
    /// Change the payload or headers of failed events
    Edit(operate::EditArguments),
    /// Show unpublished events, failed events and relays
    Stats(look::Stats),
    /// Wake relays at once when other programs write events
    #[command(subcommand, alias = "notice", after_help = examples(&["outbox notify on"]))]
    Notify(look::NotifyCommand),
    /// Attach an existing table, so that relays publish from it
    #[command(alias = "adopt")]
    Attach(attach::Attach),
    /// List attached tables
    #[command(alias = "adopted")]
    Attached,
    /// Detach a table
    #[command(alias = "unadopt")]
    Detach(attach::Detach),
}

#[crate::boxed(?Send)]
pub(super) async fn run(command: OutboxCommand, context: &Context) -> Result<Exit> {
    match command {
        OutboxCommand::Add(arguments) => add::run(arguments, context).await,
        OutboxCommand::List(arguments) => look::list(arguments, context).await,
        OutboxCommand::Show { id } => look::show(id, context).await,
        OutboxCommand::Relays => look::relays(context).await,
        OutboxCommand::Verify(arguments) => verify::run(arguments, context).await,
        OutboxCommand::Failed(arguments) => failed_event::run(arguments, context).await,
        OutboxCommand::Skip(arguments) => operate::many(arguments, &Verb::Skip, context).await,
        OutboxCommand::Replay(arguments) => operate::many(arguments, &Verb::Replay, context).await,
        OutboxCommand::Redirect(RedirectArguments { to, events }) => {
            operate::many(events, &Verb::Redirect(to), context).await
        }
        OutboxCommand::Edit(arguments) => operate::edit(arguments, context).await,
        OutboxCommand::Stats(arguments) => look::stats(&arguments, context).await,
        OutboxCommand::Attach(arguments) => attach::attach(arguments, context).await,
        OutboxCommand::Attached => attach::list(context).await,
        OutboxCommand::Detach(arguments) => attach::detach(arguments, context).await,
        OutboxCommand::Notify(notify) => look::notify(&notify, context).await,
    }
}
