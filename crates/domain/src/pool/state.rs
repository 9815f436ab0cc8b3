//! The life of a ticket.
//!
//! ```text
//!   Waiting ──grant──► Granted ──claim──► Running ──release──► Released
//!      │                │  ▲                │  ▲
//!      │                │  └────unclaim─────┤  │confirm
//!      │                │                   ▼  │
//!      │                │                  Suspect ──release──► Released
//!      │                │                   │
//!      └─cancel,lapse─► Cancelled           └──lapse──► Expired (also from Granted and Running)
//! ```
//!
//! Granted is held for somebody who was not there when it was decided: it counts, and lapses when nobody claims it.
//! Suspect has not been heard of: it still counts, because its sessions may well be open.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Where a ticket is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// In the queue.
    Waiting,
    /// Its units are set aside until its holder hears of them.
    Granted,
    /// Its holder has its units.
    Running,
    /// Its holder has not been heard of for too long.
    Suspect,
    /// Given back.
    Released,
    /// Taken back.
    Expired,
    /// Left the queue without units.
    Cancelled,
}

/// All states.
pub const STATES: [State; 7] = [
    State::Waiting,
    State::Granted,
    State::Running,
    State::Suspect,
    State::Released,
    State::Expired,
    State::Cancelled,
];

/// What can happen to a ticket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It gets units.
    Grant,
    /// Its holder has heard of them.
    Claim,
    /// Its holder was gone before it could hear of them.
    Unclaim,
    /// It was not heard of for too long.
    Doubt,
    /// It was heard of again.
    Confirm,
    /// It is given back.
    Release,
    /// Its time is over.
    Lapse,
    /// It is taken out of the queue.
    Cancel,
}

/// All changes.
pub const CHANGES: [Change; 8] = [
    Change::Grant,
    Change::Claim,
    Change::Unclaim,
    Change::Doubt,
    Change::Confirm,
    Change::Release,
    Change::Lapse,
    Change::Cancel,
];

/// The state after a change; none when it cannot happen there.
pub const fn next(state: State, change: Change) -> Option<State> {
    match (state, change) {
        (State::Waiting, Change::Grant) => Some(State::Granted),
        // Who gives back before it has anything does not want it any more.
        (State::Waiting, Change::Release | Change::Lapse | Change::Cancel) => Some(State::Cancelled),
        (State::Granted, Change::Claim) | (State::Suspect, Change::Confirm) => Some(State::Running),
        (State::Running, Change::Unclaim) => Some(State::Granted),
        (State::Running, Change::Doubt) => Some(State::Suspect),
        (State::Granted | State::Running | State::Suspect, Change::Release) => Some(State::Released),
        (State::Granted | State::Running | State::Suspect, Change::Lapse) => Some(State::Expired),
        (State::Granted, Change::Cancel) => Some(State::Cancelled),
        _ => None,
    }
}

impl State {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Granted => "granted",
            Self::Running => "running",
            Self::Suspect => "suspect",
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether its units count.
    pub const fn counts(self) -> bool {
        matches!(self, Self::Granted | Self::Running | Self::Suspect)
    }

    /// Whether nothing can happen to it any more.
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Released | Self::Expired | Self::Cancelled)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Not one of the states.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not the state of a ticket")]
pub struct UnknownState;

impl FromStr for State {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<Self, UnknownState> {
        STATES.into_iter().find(|state| state.as_str() == text).ok_or(UnknownState)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_final_and_everything_else_can_end() {
        for state in STATES {
            let reached: Vec<State> = CHANGES.into_iter().filter_map(|change| next(state, change)).collect();
            assert_eq!(reached.is_empty(), state.has_ended(), "{state}");
            if !state.has_ended() {
                assert!(reached.iter().any(|state| state.has_ended()), "{state}");
            }
            assert_eq!(state.as_str().parse(), Ok(state));
        }
    }

    #[test]
    fn units_come_only_by_a_grant() {
        for state in STATES {
            for change in CHANGES {
                let gains = next(state, change).is_some_and(State::counts) && !state.counts();
                assert_eq!(gains, (state, change) == (State::Waiting, Change::Grant), "{state} {change:?}");
            }
        }
    }
}
