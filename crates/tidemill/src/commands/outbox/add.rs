//! `outbox add`: writes one event by hand.

use super::payload::{PayloadArguments, bad_event, header};
use crate::context::Context;
use crate::output::print_fields;
use crate::report::Failure;
use clap::{ArgGroup, Args};
use serde_json::json;
use tidemill_domain::audit::AuditEntry;
use tidemill_domain::code::Exit;
use tidemill_domain::outbox::{Headers, NewEvent, Payload};

/// The event
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("content").required(true).args(["payload", "payload_base64", "tombstone"]))]
pub(crate) struct Add {
    /// What sort of thing it happened to, such as order
    #[arg(long, value_name = "TYPE")]
    aggregate_type: String,
    /// To which one; events of one id are published in order
    #[arg(long, value_name = "ID")]
    aggregate_id: String,
    /// What happened, such as order.paid
    #[arg(long, value_name = "TYPE")]
    event_type: String,
    /// Where it goes
    #[arg(long)]
    topic: String,
    #[command(flatten)]
    payload: PayloadArguments,
    /// A header; may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
}

pub(super) async fn run(arguments: Add, context: &Context) -> Result<Exit, Failure> {
    let payload = arguments.payload.read()?.unwrap_or(Payload::Tombstone);
    let headers: Headers = arguments.headers.into_iter().collect();
    let event = NewEvent::new(
        arguments.aggregate_type,
        arguments.aggregate_id,
        arguments.event_type,
        arguments.topic,
        payload,
    );
    let event = event.and_then(|event| event.with_headers(headers)).map_err(|bad| bad_event(&bad))?;
    let mut tx = context.begin().await?;
    let id = tx.publish(&event).await?;
    tx.audit().record(&AuditEntry::new(context.actor(), "event.add", &format!("event/{id}"))).await?;
    tx.commit().await?;
    let fields = [("event", json!(id.get())), ("slot", json!(event.slot().get()))];
    print_fields("tidemill.outbox_added/v1", &fields, context.output())
}
