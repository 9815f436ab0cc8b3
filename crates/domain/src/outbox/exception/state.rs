//! What is to become of an excepted event.

use crate::time::Timestamp;
use std::fmt;
use std::str::FromStr;

/// What is to become of an excepted event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExceptionState {
    /// It is tried again.
    Waiting {
        /// Not before this instant.
        next_attempt_at: Timestamp,
    },
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

    /// When it is tried again, if it is.
    pub const fn next_attempt_at(self) -> Option<Timestamp> {
        match self {
            Self::Waiting { next_attempt_at } => Some(next_attempt_at),
            Self::Held | Self::Parked | Self::Skipped => None,
        }
    }

    /// Its word.
    pub const fn word(self) -> StateWord {
        match self {
            Self::Waiting { .. } => StateWord::Waiting,
            Self::Held => StateWord::Held,
            Self::Parked => StateWord::Parked,
            Self::Skipped => StateWord::Skipped,
        }
    }
}

/// The word for a state, without what it carries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StateWord {
    /// It is tried again.
    Waiting,
    /// An earlier event of its aggregate comes first.
    Held,
    /// Nobody tries any more.
    Parked,
    /// It is never published.
    Skipped,
}

/// The text names no state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not understood; there are waiting, held, parked and skipped")]
pub struct NotAState;

impl StateWord {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Waiting, Self::Held, Self::Parked, Self::Skipped];

    /// Those that keep later events of their aggregate waiting.
    pub const OPEN: [Self; 3] = [Self::Waiting, Self::Held, Self::Parked];

    /// The word that is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Held => "held",
            Self::Parked => "parked",
            Self::Skipped => "skipped",
        }
    }
}

impl fmt::Display for StateWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for StateWord {
    type Err = NotAState;

    fn from_str(text: &str) -> Result<Self, NotAState> {
        Self::ALL.into_iter().find(|word| word.as_str() == text).ok_or(NotAState)
    }
}
