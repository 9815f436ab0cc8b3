//! `tidemill outbox notice`: the trigger that wakes relays when other programs write events.

use crate::context::Context;
use crate::output::print_fields;
use crate::report::Failure;
use clap::Subcommand;
use serde_json::json;
use tidemill_domain::code::{Code, Exit};
use tidemill_store::outbox::{Notice, NoticeError};

/// Whether relays are woken at once when other programs write events
#[derive(Subcommand, Debug)]
pub(crate) enum NoticeCommand {
    /// Make the trigger: relays are woken at once, and transactions that write events commit one after the other
    On,
    /// Take the trigger away: relays look once a second
    Off,
    /// Whether the trigger is there
    Status,
}

pub(super) async fn run(command: &NoticeCommand, context: &Context) -> Result<Exit, Failure> {
    match command {
        NoticeCommand::On => set(Notice::On, context).await,
        NoticeCommand::Off => set(Notice::Off, context).await,
        NoticeCommand::Status => status(context).await,
    }
}

async fn set(notice: Notice, context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.begin().await?;
    let is_new = tx.outbox().set_notice(notice, &context.actor()).await?;
    tx.commit().await?;
    context.note(match (notice, is_new) {
        (Notice::On, true) => "relays are woken at once when other programs write events",
        (Notice::On, false) => "the trigger was there already",
        (Notice::Off, true) => "relays look once a second for what other programs write",
        (Notice::Off, false) => "there was no trigger",
    });
    Ok(Exit::Ok)
}

async fn status(context: &Context) -> Result<Exit, Failure> {
    let mut tx = context.read().await?;
    let is_on = tx.outbox().notice().await?;
    let word = match is_on {
        Some(true) => "on",
        Some(false) => "off",
        None => "not supported by this database",
    };
    print_fields("tidemill.outbox_notice/v1", &[("notice", json!(word))], context.output())
}

impl From<NoticeError> for Failure {
    fn from(error: NoticeError) -> Self {
        match error {
            NoticeError::Store(error) => error.into(),
            other => Self::new(
                Code::NoticeUnsupported,
                other.to_string(),
                "nothing is lost without them: relays look once a second; for less, use PostgreSQL, or write events through Tidemill",
            ),
        }
    }
}
