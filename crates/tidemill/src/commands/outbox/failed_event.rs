//! `outbox failed`: lists failed events, or failed rows of an attached table; with an id, shows one event.

use super::operate::failure;
use crate::commands::prelude::*;
use tidemill_api::attached_table::FailedRow;
use tidemill_api::failed_event::{FailedEvent, FailedEventDetail};
use tidemill_domain::outbox::attached::TableName;
use tidemill_domain::outbox::failed_event::{FailedEventRefusal, StateWord};
use tidemill_domain::outbox::{EventId, Slot};
use tidemill_store::outbox::attached::failed::Skipped;
use tidemill_store::outbox::failed_event::FailedEventFilter;

#[derive(Args, Debug)]
pub(crate) struct Failed {
    /// Show the event with this id and its payload
    #[arg(
        value_name = "EVENT_ID",
        conflicts_with_all = ["all", "state", "slot", "aggregate_type", "aggregate_id", "topic", "event_type", "error", "after", "limit", "table"]
    )]
    id: Option<EventId>,
    /// Include waiting and held events
    #[arg(long, conflicts_with = "state")]
    all: bool,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    of_table: OfTable,
    /// Only events after this id, for the next page
    #[arg(long, value_name = "ID")]
    after: Option<EventId>,
    /// Maximum number of events
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
}

/// Filters failed events.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Filters")]
pub(crate) struct Filter {
    /// Filter by state: waiting, held, parked or skipped
    #[arg(long)]
    state: Option<StateWord>,
    /// Filter by slot
    #[arg(long)]
    slot: Option<u8>,
    /// Filter by aggregate type
    #[arg(long, value_name = "TYPE")]
    aggregate_type: Option<String>,
    /// Filter by aggregate id
    #[arg(long, value_name = "ID")]
    aggregate_id: Option<String>,
    /// Filter by topic
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// Filter by event type
    #[arg(long, value_name = "TYPE")]
    event_type: Option<String>,
    /// Filter by text in the error
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
}

/// The states of a filter without `--state`.
pub(super) fn default_states(is_all: bool) -> &'static [StateWord] {
    if is_all { &StateWord::OPEN } else { &[StateWord::Parked] }
}

impl Filter {
    pub(super) fn with(self, default_states: &[StateWord]) -> FailedEventFilter {
        FailedEventFilter {
            states: self.state.map_or_else(|| default_states.to_vec(), |state| vec![state]),
            slot: self.slot.map(Slot::new),
            aggregate_type: self.aggregate_type,
            aggregate_id: self.aggregate_id,
            topic: self.topic,
            event_type: self.event_type,
            error_contains: self.error,
        }
    }

    pub(super) fn is_given(&self) -> bool {
        let Self { state, slot, aggregate_type, aggregate_id, topic, event_type, error } = self;
        let texts = [aggregate_type, aggregate_id, topic, event_type, error];
        state.is_some() || slot.is_some() || texts.into_iter().any(Option::is_some)
    }
}

/// Selects rows of an attached table instead of events.
#[derive(Args, Clone, Debug)]
pub(crate) struct OfTable {
    /// Use rows of this attached table with status FAILED, instead of events
    #[arg(long, value_name = "TABLE")]
    table: Option<String>,
    /// Schema of the attached table
    #[arg(long, requires = "table", default_value = "public")]
    schema: String,
}

impl OfTable {
    /// None without `--table`. Rows cannot be filtered, so `is_filtered` is an error then.
    pub(super) fn name(&self, is_filtered: bool) -> Result<Option<TableName>> {
        let Some(table) = &self.table else { return Ok(None) };
        if is_filtered {
            let what = "rows of an attached table cannot be filtered";
            let fix = "pass the ids of rows, or --matching for all rows with status FAILED";
            return Err(Failure::new(Code::Usage, what, fix));
        }
        Ok(Some(TableName::new(&self.schema, table)?))
    }
}

pub(super) async fn run(arguments: Failed, context: &Context) -> Result<Exit> {
    if let Some(name) = arguments.of_table.name(arguments.filter.is_given())? {
        return list_rows(&name, &arguments, context).await;
    }
    let mut tx = context.read().await?;
    if let Some(id) = arguments.id {
        let found = tx.outbox().failed_event(id).await?;
        let detail = found.ok_or_else(|| failure(id, FailedEventRefusal::Unknown))?;
        return context.print_one("tidemill.failed_event_detail/v1", &FailedEventDetail::from(&detail));
    }
    let filter = arguments.filter.with(default_states(arguments.all));
    let after = arguments.after.unwrap_or(EventId::ZERO);
    let records = tx.outbox().failed_events(&filter, after, arguments.limit + 1).await?;
    let columns =
        "id state aggregate_type aggregate_id event_type? topic? attempts next_attempt_at? behind?? error";
    let (schema, empty) = ("tidemill.failed_event/v1", "No failed events.");
    context.print_page::<FailedEvent, _>(schema, empty, &records, columns, arguments.limit, "--after")
}

async fn list_rows(name: &TableName, arguments: &Failed, context: &Context) -> Result<Exit> {
    let skipped = if arguments.all { Skipped::Too } else { Skipped::Not };
    let after = arguments.after.unwrap_or(EventId::new(i64::MIN));
    let mut tx = context.read().await?;
    let table = tx.outbox().attached_table(name).await?;
    let records = tx.outbox().attached_failed(&table, after, arguments.limit + 1, skipped).await?;
    let columns = "id aggregate_id is_skipped? attempts updated_at? error";
    let (schema, empty) = ("tidemill.outbox_failed/v1", "No failed rows.");
    context.print_page::<FailedRow, _>(schema, empty, &records, columns, arguments.limit, "--after")
}
