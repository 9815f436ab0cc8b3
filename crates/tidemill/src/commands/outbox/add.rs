//! `outbox add`: writes one event by hand. What an event is to say is told by the same flags to those who edit events.

use crate::context::Context;
use crate::output::print_fields;
use crate::report::Failure;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::{ArgGroup, Args};
use serde_json::json;
use std::io::Read;
use tidemill_domain::audit::AuditEntry;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::outbox::event::{BadEvent, PAYLOAD_BYTES_MAX};
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

/// What an event is to say.
#[derive(Args, Debug)]
#[group(id = "said", multiple = false)]
pub(crate) struct PayloadArguments {
    /// What it says: this JSON, that in a file, or that on standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    payload: Option<String>,
    /// What it says: these bytes in base64, or such a file or standard input
    #[arg(long, value_name = "BASE64|@FILE|-")]
    payload_base64: Option<String>,
    /// It says nothing: whoever keeps the last event of each aggregate may forget this one
    #[arg(long)]
    tombstone: bool,
}

impl PayloadArguments {
    pub(super) fn read(&self) -> Result<Option<Payload>, Failure> {
        Ok(match (&self.payload, &self.payload_base64) {
            (Some(json), _) => Some(Payload::Json(content(json, PAYLOAD_BYTES_MAX)?)),
            (None, Some(base64)) => Some(Payload::Bytes(bytes(base64)?)),
            (None, None) => self.tombstone.then_some(Payload::Tombstone),
        })
    }
}

/// Four characters for three bytes, and line breaks.
const BASE64_BYTES_MAX: usize = PAYLOAD_BYTES_MAX * 3 / 2;

fn bytes(source: &str) -> Result<Vec<u8>, Failure> {
    let text: String = content(source, BASE64_BYTES_MAX)?.split_ascii_whitespace().collect();
    STANDARD.decode(text).map_err(|error| {
        let fix = "use the usual alphabet, with padding, as `base64` writes it";
        Failure::new(Code::BadEvent, "the payload is not base64", fix).because(&error.to_string())
    })
}

/// The text itself, or the content of `@FILE` or of standard input; of those, one byte more than may be at most, so that
/// what is too long is seen to be.
fn content(source: &str, most: usize) -> Result<String, Failure> {
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    let read = match (source, source.strip_prefix('@')) {
        ("-", _) => std::io::stdin().lock().take(limit).read_to_end(&mut bytes),
        (_, Some(file)) => {
            std::fs::File::open(file).and_then(|open| open.take(limit).read_to_end(&mut bytes))
        }
        (text, None) => return Ok(text.to_owned()),
    };
    read.map_err(|error| {
        let fix = "name a file that can be read as @FILE, or use - for standard input";
        Failure::new(Code::Usage, format!("the payload {source} cannot be read"), fix)
            .because(&error.to_string())
    })?;
    if bytes.len() > most {
        return Err(bad_event(&BadEvent::PayloadTooLarge { len: bytes.len() }));
    }
    String::from_utf8(bytes).map_err(|error| bad_event(&BadEvent::PayloadNotJson(error.to_string())))
}

/// What no sink would take.
pub(super) fn bad_event(bad: &BadEvent) -> Failure {
    Failure::new(Code::BadEvent, bad.to_string(), "correct it, and try again")
}

pub(super) fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| "write NAME=VALUE".to_owned())?;
    Ok((name.to_owned(), value.to_owned()))
}
