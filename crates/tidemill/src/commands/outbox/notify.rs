//! `tidemill outbox notify`: the trigger that wakes relays when other programs write events.

use crate::context::Context;
use crate::output::print_fields;
use crate::report::Failure;
use clap::Subcommand;
use serde_json::json;
use tidemill_domain::code::{Code, Exit};
use tidemill_store::outbox::{Notify, NotifyError};

/// Whether relays are woken at once when other programs write events
#[derive(Subcommand, Debug)]
pub(crate) enum NotifyCommand {
    /// Make the trigger: relays are woken at once, and transactions that write events commit one after the other
    On,
    /// Take the trigger away: relays look once a second
    Off,
    /// Whether the trigger is there
    Status,
}

pub(super) async fn run(command: &NotifyCommand, context: &Context) -> Result<Exit, Failure> {
    match command {
        NotifyCommand::On => set(Notify::On, context).await,
        NotifyCommand::Off => set(Notify::Off, context).await,
        NotifyCommand::Status => status(context).await,
    }
}

async fn set(notify: Notify, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.begin().await?;
    let is_new = tx.outbox().set_notify(notify, &context.actor()).await?;
    tx.commit().await?;
    context.note(match (notify, is_new) {
        (Notify::On, true) => "relays are woken at once when other programs write events",
        (Notify::On, false) => "the trigger was there already",
        (Notify::Off, true) => "relays look once a second for what other programs write",
        (Notify::Off, false) => "there was no trigger",
    });
    Ok(Exit::Ok)
}

async fn status(context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let is_on = tx.outbox().notify().await?;
    let word = match is_on {
        Some(true) => "on",
        Some(false) => "off",
        None => "not supported by this database",
    };
    print_fields("tidemill.outbox_notify/v1", &[("notify", json!(word))], context.output())
}

impl From<NotifyError> for Failure {
    fn from(error: NotifyError) -> Self {
        match error {
            NotifyError::Store(error) => error.into(),
            other => Self::new(
                Code::NotifyUnsupported,
                other.to_string(),
                "nothing is lost without them: relays look once a second; for less, use PostgreSQL, or write events through Tidemill",
            ),
        }
    }
}
