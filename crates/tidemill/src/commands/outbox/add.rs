//! `outbox add`: writes one event by hand.

use super::operate::{bad_event, header, read};
use crate::context::Context;
use crate::output::print_fields;
use crate::report::Failure;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::json;
use tidemill_domain::audit::AuditEntry;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::outbox::{Headers, NewEvent, Payload};

/// The event
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("content").required(true))]
pub(crate) struct Add {
    /// What sort of thing it happened to, such as order
    #[arg(long = "type", value_name = "TYPE")]
    aggregate_type: String,
    /// To which one; events of one id are published in order
    #[arg(long = "id", value_name = "ID")]
    aggregate_id: String,
    /// What happened, such as order.paid
    #[arg(long, value_name = "TYPE")]
    event: String,
    /// Where it goes
    #[arg(long)]
    topic: String,
    /// What it says: this JSON
    #[arg(long, value_name = "JSON", group = "content")]
    payload: Option<String>,
    /// What it says: the JSON in this file, or on standard input when it is -
    #[arg(long, value_name = "FILE|-", group = "content")]
    payload_file: Option<String>,
    /// What it says: these bytes, in base64
    #[arg(long, value_name = "BASE64", group = "content")]
    payload_base64: Option<String>,
    /// It says nothing: whoever keeps the last event of each aggregate may forget this one
    #[arg(long, group = "content")]
    tombstone: bool,
    /// A header; may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
}

pub(super) async fn run(arguments: Add, context: &Context) -> Result<Exit, Failure> {
    let payload = payload(&arguments)?;
    let headers: Headers = arguments.headers.into_iter().collect();
    let event = NewEvent::new(
        arguments.aggregate_type,
        arguments.aggregate_id,
        arguments.event,
        arguments.topic,
        payload,
    );
    let event = event.and_then(|event| event.with_headers(headers)).map_err(|bad| bad_event(&bad))?;
    let store = context.store().await?;
    let mut tx = store.begin().await?;
    let id = tx.publish(&event).await?;
    tx.audit(&AuditEntry::new(context.actor(), "event.add", &format!("event/{id}"))).await?;
    tx.commit().await?;
    store.close().await;
    let fields = [("event", json!(id.get())), ("slot", json!(event.slot().get()))];
    print_fields("tidemill.outbox_added/v1", &fields, context.output())?;
    Ok(Exit::Ok)
}

fn payload(arguments: &Add) -> Result<Payload, Failure> {
    if let Some(text) = &arguments.payload {
        return Ok(Payload::Json(text.clone()));
    }
    if let Some(file) = &arguments.payload_file {
        return read(file, false);
    }
    let Some(text) = &arguments.payload_base64 else { return Ok(Payload::Tombstone) };
    let bytes = STANDARD.decode(text).map_err(|error| {
        let fix = "use the usual alphabet, with padding, as `base64 --wrap=0` writes it";
        Failure::new(Code::BadEvent, "the payload is not base64", fix).because(&error.to_string())
    })?;
    Ok(Payload::Bytes(bytes))
}
