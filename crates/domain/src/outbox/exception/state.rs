//! What is to become of an excepted event.

use crate::time::Timestamp;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExceptionState {
    /// It is tried again, and not before this instant.
    Waiting { next_attempt_at: Timestamp },
    /// An earlier event of its aggregate comes first.
    Held,
    /// Nobody tries any more, until an operator says so.
    Parked,
    /// It is never published.
    Skipped,
}

impl ExceptionState {
    /// Whether later events of its aggregate have to wait.
    pub const fn is_open(self) -> bool {
        !matches!(self, Self::Skipped)
    }

    pub const fn next_attempt_at(self) -> Option<Timestamp> {
        match self {
            Self::Waiting { next_attempt_at } => Some(next_attempt_at),
            Self::Held | Self::Parked | Self::Skipped => None,
        }
    }

    pub const fn word(self) -> StateWord {
        match self {
            Self::Waiting { .. } => StateWord::Waiting,
            Self::Held => StateWord::Held,
            Self::Parked => StateWord::Parked,
            Self::Skipped => StateWord::Skipped,
        }
    }
}

crate::words! {
    /// The word for a state, without what it carries.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum StateWord: "not understood; there are waiting, held, parked and skipped" {
        Waiting = "waiting",
        Held = "held",
        Parked = "parked",
        Skipped = "skipped",
    }
}

impl StateWord {
    /// Those that keep later events of their aggregate waiting.
    pub const OPEN: [Self; 3] = [Self::Waiting, Self::Held, Self::Parked];
}
