//! What became of an event, as far as its table and the positions of relays tell.

use super::failed_event::StateWord;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EventOutcome {
    /// No relay has acknowledged it.
    Pending,
    Published,
    Failed(StateWord),
}

impl EventOutcome {
    /// By whether the position of its slot has passed it, and by its failed_event. A failed event counts more: it is made
    /// when the event is read, and gone when the event has arrived.
    pub const fn of(is_read: bool, failed_event: Option<StateWord>) -> Self {
        match (failed_event, is_read) {
            (Some(state), _) => Self::Failed(state),
            (None, true) => Self::Published,
            (None, false) => Self::Pending,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Published => "published",
            Self::Failed(state) => state.as_str(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fate_has_a_word_of_its_own() {
        let failed = StateWord::ALL.map(EventOutcome::Failed);
        let all = [EventOutcome::Pending, EventOutcome::Published].into_iter().chain(failed);

        let words: std::collections::BTreeSet<_> = all.map(EventOutcome::as_str).collect();

        assert_eq!(words.len(), 6);
        for state in StateWord::ALL {
            assert_eq!(EventOutcome::of(false, Some(state)), EventOutcome::Failed(state));
        }
        assert_eq!(EventOutcome::of(false, None), EventOutcome::Pending);
    }

    #[test]
    fn a_failed_event_counts_more_than_its_place() {
        use crate::outbox::{EventOutcome, failed_event::StateWord};
        assert_eq!(EventOutcome::of(true, None).as_str(), "published");
        assert_eq!(EventOutcome::of(true, Some(StateWord::Parked)).as_str(), "parked");
    }
}
