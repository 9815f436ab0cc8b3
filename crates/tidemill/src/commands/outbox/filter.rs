//! Which failed events are meant: the same flags for those who look and those who act.

use clap::Args;
use tidemill_domain::outbox::failed_event::StateWord;
use tidemill_domain::outbox::{EventId, Slot};
use tidemill_store::outbox::failed_event::FailedEventFilter;

/// Which failed events are meant.
#[derive(Args, Clone, Debug)]
pub(crate) struct Filter {
    /// Only those in this state: waiting, held, parked or skipped
    #[arg(long, value_parser = state)]
    state: Option<StateWord>,
    /// Only those of this slot
    #[arg(long)]
    slot: Option<u8>,
    /// Only those of aggregates of this type
    #[arg(long, value_name = "TYPE")]
    aggregate_type: Option<String>,
    /// Only those of the aggregate with this id
    #[arg(long, value_name = "ID")]
    aggregate_id: Option<String>,
    /// Only those that go to this topic
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// Only those of this type
    #[arg(long, value_name = "TYPE")]
    event_type: Option<String>,
    /// Only those whose error contains this text
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
}

/// Which states are meant when none is named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Breadth {
    /// Those that nobody tries any more.
    Parked,
    /// All that are not settled.
    Open,
}

impl Filter {
    pub(super) fn with(&self, breadth: Breadth) -> FailedEventFilter {
        let states = match (self.state, breadth) {
            (Some(state), _) => vec![state],
            (None, Breadth::Parked) => vec![StateWord::Parked],
            (None, Breadth::Open) => StateWord::OPEN.to_vec(),
        };
        FailedEventFilter {
            states,
            slot: self.slot.map(Slot::new),
            aggregate_type: self.aggregate_type.clone(),
            aggregate_id: self.aggregate_id.clone(),
            topic: self.topic.clone(),
            event_type: self.event_type.clone(),
            error_contains: self.error.clone(),
        }
    }

    pub(super) fn is_given(&self) -> bool {
        let Self { state, slot, aggregate_type, aggregate_id, topic, event_type, error } = self;
        let texts = [aggregate_type, aggregate_id, topic, event_type, error];
        state.is_some() || slot.is_some() || texts.into_iter().any(Option::is_some)
    }
}

fn state(text: &str) -> Result<StateWord, String> {
    text.parse::<StateWord>().map_err(|error| error.to_string())
}

pub(super) fn event_id(text: &str) -> Result<EventId, String> {
    text.parse::<EventId>().map_err(|error| error.to_string())
}
