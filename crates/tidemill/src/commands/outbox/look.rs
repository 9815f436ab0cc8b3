//! `outbox list`, `show` and `relays`.

use crate::context::Context;
use crate::report::{Failure, Result};
use clap::Args;
use tidemill_api::outbox::{Event, EventDetail, Relay};
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::outbox::EventId;
use tidemill_store::outbox::EventFilter;

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
    let filter = EventFilter {
        before: arguments.before,
        aggregate_type: arguments.aggregate_type,
        aggregate_id: arguments.aggregate_id,
        topic: arguments.topic,
        event_type: arguments.event_type,
    };
    let mut tx = context.read().await?;
    let events = tx.outbox().events(&filter, arguments.limit + 1).await?;
    let columns = "id created_at aggregate_type aggregate_id event_type topic? slot?? bytes?";
    let (schema, empty) = ("tidemill.outbox_event/v1", "No events.");
    context.print_page::<Event, _>(schema, empty, &events, columns, arguments.limit, "--before")
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
