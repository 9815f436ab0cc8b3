//! `tidemill outbox stats`: unpublished events, failed events and relays.

use crate::config::Output;
use crate::context::Context;
use crate::report::Result;
use clap::Args;
use serde_json::{Map, Value, json};
use tidemill_api::outbox::{OutboxSlot, OutboxStats};
use tidemill_domain::code::Exit;

#[derive(Args, Debug)]
pub(crate) struct Stats {
    /// List the 256 slots instead of totals
    #[arg(long)]
    slots: bool,
    /// Maximum number of events to count
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    count: u32,
}

pub(super) async fn run(arguments: &Stats, context: &Context) -> Result<Exit> {
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
