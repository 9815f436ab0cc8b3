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
//! Granted is reserved for a caller that was absent at the decision: it counts, and lapses when it is not claimed.
//! Suspect has not been heard of: it still counts, because its sessions may be open.

use serde::{Deserialize, Serialize};

crate::words! {
    #[derive(Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum State {
        Waiting = "waiting",
        /// Its units are reserved until its holder hears of them.
        Granted = "granted",
        Running = "running",
        /// Its holder was silent for too long.
        Suspect = "suspect",
        Released = "released",
        Expired = "expired",
        /// Left the queue without units.
        Cancelled = "cancelled",
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    Grant,
    Claim,
    /// Its holder left before it could hear of the grant.
    Unclaim,
    Doubt,
    Confirm,
    Release,
    Lapse,
    Cancel,
}

/// None when the change is not possible in this state.
pub const fn next(state: State, change: Change) -> Option<State> {
    match (state, change) {
        (State::Waiting, Change::Grant) => Some(State::Granted),
        // A release before the grant leaves the queue.
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
    /// The states with units.
    pub const HELD: [Self; 3] = [Self::Granted, Self::Running, Self::Suspect];

    pub const fn counts(self) -> bool {
        matches!(self, Self::Granted | Self::Running | Self::Suspect)
    }

    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Released | Self::Expired | Self::Cancelled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGES: [Change; 8] = [
        Change::Grant,
        Change::Claim,
        Change::Unclaim,
        Change::Doubt,
        Change::Confirm,
        Change::Release,
        Change::Lapse,
        Change::Cancel,
    ];

    #[test]
    fn an_end_is_final_and_everything_else_can_end() {
        for state in State::ALL {
            let reached: Vec<State> = CHANGES.into_iter().filter_map(|change| next(state, change)).collect();
            assert_eq!(reached.is_empty(), state.has_ended(), "{state}");
            if !state.has_ended() {
                assert!(reached.iter().any(|state| state.has_ended()), "{state}");
            }
        }
    }

    #[test]
    fn units_come_only_by_a_grant() {
        for state in State::ALL {
            for change in CHANGES {
                let gains = next(state, change).is_some_and(State::counts) && !state.counts();
                assert_eq!(gains, (state, change) == (State::Waiting, Change::Grant), "{state} {change:?}");
            }
        }
    }
}
