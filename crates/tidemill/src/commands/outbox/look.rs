//! `outbox list`, `show`, `relays`, `stats` and `notify`.

use crate::commands::prelude::*;
use crate::config::Output;
use serde_json::{Map, Value};
use tidemill_api::outbox::{Event, EventDetail, OutboxSlot, OutboxStats, Relay};
use tidemill_domain::outbox::EventId;
use tidemill_store::outbox::{EventFilter, Notify, NotifyError};

#[derive(Args, Debug)]
pub(crate) struct List {
    /// Filter by aggregate type
    #[arg(long, value_name = "TYPE", help_heading = "Filters")]
    aggregate_type: Option<String>,
    /// Filter by aggregate id
    #[arg(long, value_name = "ID", help_heading = "Filters")]
    aggregate_id: Option<String>,
    /// Filter by event type
    #[arg(long, value_name = "TYPE", help_heading = "Filters")]
    event_type: Option<String>,
    /// Filter by topic
    #[arg(long, help_heading = "Filters")]
    topic: Option<String>,
    /// Only events before this id, for the next page
    #[arg(long, value_name = "EVENT_ID")]
    before: Option<EventId>,
    /// Maximum number of events
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

pub(super) async fn list(arguments: List, context: &Context) -> Result<Exit> {
    let List { aggregate_type, aggregate_id, event_type, topic, before, limit } = arguments;
    let filter = EventFilter { before, aggregate_type, aggregate_id, topic, event_type };
    let mut tx = context.read().await?;
    let events = tx.outbox().events(&filter, limit + 1).await?;
    let columns = "id created_at aggregate_type aggregate_id event_type topic? slot?? bytes?";
    let (schema, empty) = ("tidemill.outbox_event/v1", "No events.");
    context.print_page::<Event, _>(schema, empty, &events, columns, limit, "--before")
}

pub(super) async fn show(id: EventId, context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let detail = tx.outbox().event_detail(id).await?.ok_or_else(|| {
        let fix = "see `tidemill outbox list`; events that were published long ago are deleted";
        Failure::new(Code::EventNotFound, format!("there is no event {id}"), fix)
    })?;
    context.print_one("tidemill.outbox_event_detail/v1", &EventDetail::from(&detail))
}

pub(super) async fn relays(context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let relays = tx.outbox().relays().await?;
    let damaged = tx.outbox().damaged_relays().await?;
    let columns = "id?? name host? pid? sink instance?? slots published published_per_second? empty_poll_ratio?? \
                   queries_per_10000_events?? joined_at? lease_until??";
    context.print_list::<Relay, _>("tidemill.outbox_relay/v1", "No relay is running.", &relays, columns)?;
    for error in &damaged {
        context.note(&format!("{}: {error}; {}", error.code(), error.fix()));
    }
    Ok(Exit::Ok)
}

#[derive(Args, Debug)]
pub(crate) struct Stats {
    /// List the 256 slots instead of totals
    #[arg(long)]
    slots: bool,
    /// Maximum number of events to count
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    count: u32,
}

pub(super) async fn stats(arguments: &Stats, context: &Context) -> Result<Exit> {
    let mut tx = context.read().await?;
    let stats = tx.outbox().stats(arguments.count).await?;
    if arguments.slots {
        let slots = OutboxSlot::all(&stats).unwrap_or_default();
        let columns = "slot owner? epoch?? unpublished unpublished_oldest_at unread oldest_at";
        let empty = "Unknown: the database was restored to another server, and no relay has run since.";
        return context.print_list::<OutboxSlot, _>("tidemill.outbox_slot/v1", empty, slots, columns);
    }
    let attached = tx.outbox().attached_stats(arguments.count).await?;
    let stats = OutboxStats::from((&stats, attached.as_slice()));
    match (context.output(), json!(stats)) {
        (Output::Table, Value::Object(fields)) => {
            context.print_one("tidemill.outbox_stats/v1", &for_people(&fields))
        }
        _ => context.print_one("tidemill.outbox_stats/v1", &stats),
    }
}

/// The same fields in a flat list. A missing number is unknown; a missing time means that there is no such event.
fn for_people(fields: &Map<String, Value>) -> Map<String, Value> {
    let mut shown = Map::new();
    for (name, value) in fields {
        match value {
            Value::Object(states) if name == "failed_events" => shown.extend(for_people(states)),
            Value::Null if name.ends_with("oldest_at") || name == "slots" || name == "default_rows" => {}
            Value::Null => shown.extend([(name.clone(), json!("unknown"))]),
            value => shown.extend([(name.clone(), value.clone())]),
        }
    }
    shown
}

#[derive(Subcommand, Debug)]
pub(crate) enum NotifyCommand {
    /// Create the trigger. Relays wake at once, but transactions that write events commit one at a time
    On,
    /// Remove the trigger. Relays poll once a second
    Off,
    /// Show whether the trigger exists
    Status,
}

pub(super) async fn notify(command: &NotifyCommand, context: &Context) -> Result<Exit> {
    let word = match command {
        NotifyCommand::On => return set_notify(Notify::On, context).await,
        NotifyCommand::Off => return set_notify(Notify::Off, context).await,
        NotifyCommand::Status => match context.read().await?.outbox().notify().await? {
            Some(true) => "on",
            Some(false) => "off",
            None => "not supported by this database",
        },
    };
    context.print_one("tidemill.outbox_notify/v1", &json!({ "notify": word }))
}

async fn set_notify(notify: Notify, context: &Context) -> Result<Exit> {
    let mut tx = context.begin().await?;
    let is_new = tx.outbox().set_notify(notify, &context.actor()).await?;
    tx.commit().await?;
    context.done(match (notify, is_new) {
        (Notify::On, true) => "relays now wake at once when other programs write events",
        (Notify::On, false) => "the trigger exists already",
        (Notify::Off, true) => "relays now poll once a second for events of other programs",
        (Notify::Off, false) => "there is no trigger",
    })
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
