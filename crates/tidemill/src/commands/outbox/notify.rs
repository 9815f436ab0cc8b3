//! `outbox notify`: a trigger that wakes relays when other programs write events.

use crate::context::Context;
use crate::report::{Failure, Result};
use clap::Subcommand;
use serde_json::json;
use tidemill_domain::code::{Code, Exit};
use tidemill_store::outbox::{Notify, NotifyError};

#[derive(Subcommand, Debug)]
pub(crate) enum NotifyCommand {
    /// Create the trigger. Relays wake at once, but transactions that write events commit one at a time
    On,
    /// Remove the trigger. Relays poll once a second
    Off,
    /// Show whether the trigger exists
    Status,
}

pub(super) async fn run(command: &NotifyCommand, context: &Context) -> Result<Exit> {
    match command {
        NotifyCommand::On => set(Notify::On, context).await,
        NotifyCommand::Off => set(Notify::Off, context).await,
        NotifyCommand::Status => status(context).await,
    }
}

async fn set(notify: Notify, context: &Context) -> Result<Exit> {
    let mut tx = context.begin().await?;
    let is_new = tx.outbox().set_notify(notify, &context.actor()).await?;
    tx.commit().await?;
    context.note(match (notify, is_new) {
        (Notify::On, true) => "relays now wake at once when other programs write events",
        (Notify::On, false) => "the trigger exists already",
        (Notify::Off, true) => "relays now poll once a second for events of other programs",
        (Notify::Off, false) => "there is no trigger",
    });
    Ok(Exit::Ok)
}

async fn status(context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let is_on = tx.outbox().notify().await?;
    let word = match is_on {
        Some(true) => "on",
        Some(false) => "off",
        None => "not supported by this database",
    };
    context.print_one("tidemill.outbox_notify/v1", &json!({ "notify": word }))
}

impl From<NotifyError> for Failure {
    fn from(error: NotifyError) -> Self {
        match error {
            NotifyError::Store(error) => error.into(),
            other => Self::new(
                Code::NotifyUnsupported,
                other.to_string(),
                "no events are lost: relays poll once a second; for less delay, use PostgreSQL or write events with Tidemill",
            ),
        }
    }
}
