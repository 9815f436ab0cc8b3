//! `outbox add`: adds an event by hand. `outbox edit` has the same flags for the payload.

use crate::commands::prelude::*;
use crate::commands::read_input;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::ArgGroup;
use std::path::Path;
use tidemill_api::outbox::AddedEvent;
use tidemill_domain::audit::AuditEntry;
use tidemill_domain::outbox::event::{BadEvent, PAYLOAD_BYTES_MAX};
use tidemill_domain::outbox::{Headers, NewEvent, Payload};

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("content").required(true).args(["payload", "payload_base64", "tombstone"]))]
pub(crate) struct Add {
    /// Aggregate type, such as order
    #[arg(long, value_name = "TYPE")]
    aggregate_type: String,
    /// Aggregate id. Events with the same id are published in order
    #[arg(long, value_name = "ID")]
    aggregate_id: String,
    /// Event type, such as order.paid
    #[arg(long, value_name = "TYPE")]
    event_type: String,
    /// Topic
    #[arg(long)]
    topic: String,
    #[command(flatten)]
    payload: PayloadArguments,
    /// Add a header; repeat it for more
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
}

pub(super) async fn run(arguments: Add, context: &Context) -> Result<Exit> {
    let payload = arguments.payload.read()?.unwrap_or(Payload::Tombstone);
    let headers: Headers = arguments.headers.into_iter().collect();
    let Add { aggregate_type, aggregate_id, event_type, topic, .. } = arguments;
    let event = NewEvent::new(aggregate_type, aggregate_id, event_type, topic, payload)?;
    let event = event.with_headers(headers)?;
    let mut tx = context.begin().await?;
    let id = tx.publish(&event).await?;
    tx.audit().record(&AuditEntry::new(context.actor(), "event.add", &format!("event/{id}"))).await?;
    tx.commit().await?;
    let added = AddedEvent { id: id.get(), slot: event.slot().get() };
    context.print_one("tidemill.outbox_added/v1", &added)
}

#[derive(Args, Debug)]
#[group(id = "said", multiple = false)]
pub(crate) struct PayloadArguments {
    /// JSON payload: the text, a file, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    payload: Option<String>,
    /// Binary payload in base64: the text, a file, or - for standard input
    #[arg(long, value_name = "BASE64|@FILE|-")]
    payload_base64: Option<String>,
    /// No payload. Kafka removes the key of a tombstone from compacted topics
    #[arg(long)]
    tombstone: bool,
}

impl PayloadArguments {
    pub(super) fn read(&self) -> Result<Option<Payload>> {
        Ok(match (&self.payload, &self.payload_base64) {
            (Some(json), _) => Some(Payload::Json(content(json, PAYLOAD_BYTES_MAX)?)),
            (None, Some(base64)) => Some(Payload::Bytes(bytes(base64)?)),
            (None, None) => self.tombstone.then_some(Payload::Tombstone),
        })
    }
}

/// Base64 has four characters for three bytes, and line breaks.
const BASE64_BYTES_MAX: usize = PAYLOAD_BYTES_MAX * 3 / 2;

fn bytes(source: &str) -> Result<Vec<u8>> {
    let text: String = content(source, BASE64_BYTES_MAX)?.split_ascii_whitespace().collect();
    STANDARD.decode(text).map_err(|error| {
        let fix = "use the standard alphabet with padding, as `base64` writes it";
        Failure::new(Code::BadEvent, "the payload is not base64", fix).because(error)
    })
}

/// The text itself, or the content of `@FILE` or standard input.
fn content(source: &str, most: usize) -> Result<String> {
    let file = match (source, source.strip_prefix('@')) {
        ("-", _) => "-",
        // A file can have this name too.
        (_, Some("-")) => "./-",
        (_, Some(file)) => file,
        (text, None) => return Ok(text.to_owned()),
    };
    let bytes = read_input(Path::new(file), most).map_err(|error| {
        let fix = "name a readable file as @FILE, or use - for standard input";
        Failure::new(Code::Usage, format!("the payload {source} cannot be read"), fix).because(error)
    })?;
    if bytes.len() > most {
        return Err(BadEvent::PayloadTooLarge { len: bytes.len() }.into());
    }
    String::from_utf8(bytes).map_err(|error| BadEvent::PayloadNotJson(error.to_string()).into())
}

impl From<BadEvent> for Failure {
    fn from(bad: BadEvent) -> Self {
        Self::new(Code::BadEvent, bad.to_string(), "correct it and try again")
    }
}

pub(super) fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| "write NAME=VALUE".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}
