//! A failed event: an event that was not taken, or one that waits behind such an event of its aggregate. All other
//! aggregates go on.
//!
//! ```text
//!   refused ──► waiting ──attempts used up, or refused for good──► parked
//!   read behind one that is open ──► held ──it is the first now──► waiting
//!   waiting, parked ──replay, edit, redirect──► waiting, due at once
//!   waiting, held, parked ──skip──► skipped (for ever)
//!   delivered: the failed event is gone
//! ```
//!
//! Invariants: of the open failed events of an aggregate the first one is waiting or parked and all others are held; who
//! was skipped never comes back; nothing counts as delivered while an earlier event of its aggregate is open.

#[cfg(test)]
mod tests;

use super::event::{BadEvent, EventId, Headers, Payload, check_headers, check_payload, check_topic};
use crate::backoff::{Backoff, BadBackoff};
use crate::code::Code;
use crate::time::Timestamp;
use std::time::Duration;

pub const ATTEMPTS_MAX: u32 = 10;

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RetryPolicy {
    pub backoff: Backoff,
    /// Most attempts, the first one included.
    pub attempts_max: u32,
}

impl RetryPolicy {
    pub fn standard() -> Result<Self, BadBackoff> {
        let backoff = Backoff::new(Duration::from_secs(5), 2.0, Duration::from_secs(600), 0.1)?;
        Ok(Self { backoff, attempts_max: ATTEMPTS_MAX })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FailedEvent {
    pub state: FailedEventState,
    /// How often it was tried since somebody last wanted it replayed.
    pub attempts: u32,
    /// Grows with whatever an operator or an attempt changes. Whoever settles an attempt names the one that it saw.
    pub revision: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailedEventState {
    /// It is tried again, and not before this instant.
    Waiting { next_attempt_at: Timestamp },
    /// An earlier event of its aggregate comes first.
    Held,
    /// Nobody tries any more, until an operator says so.
    Parked,
    /// It is never published.
    Skipped,
}

impl FailedEventState {
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

/// What becomes of an event that was refused, after `attempts` earlier attempts: it waits, or it is parked. `unit` is a
/// random number from 0 to 1.
pub fn after_refusal(
    attempts: u32,
    is_permanent: bool,
    policy: &RetryPolicy,
    now: Timestamp,
    unit: f64,
) -> FailedEventState {
    let attempts = attempts.saturating_add(1);
    if is_permanent || attempts >= policy.attempts_max {
        return FailedEventState::Parked;
    }
    FailedEventState::Waiting { next_attempt_at: now.plus(policy.backoff.delay(attempts, unit)) }
}

/// What an event is when it becomes a failed event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// No earlier event of its aggregate is open.
    First,
    Behind,
}

/// The state of a new failed event for which the relay wants `asked`. What the relay knew of the aggregate may be old: an
/// operator may have skipped the event that it was to be held behind.
pub fn admitted(asked: FailedEventState, place: Place, now: Timestamp) -> FailedEventState {
    match (asked, place) {
        (FailedEventState::Skipped, _) => FailedEventState::Skipped,
        (_, Place::Behind) => FailedEventState::Held,
        (asked, Place::First) => first(asked, now),
    }
}

/// The state of a failed event that is the first open one of its aggregate. This alone does not change its revision:
/// whoever has just delivered the event may still say so.
pub fn first(state: FailedEventState, now: Timestamp) -> FailedEventState {
    match state {
        FailedEventState::Held => FailedEventState::Waiting { next_attempt_at: now },
        FailedEventState::Waiting { .. } | FailedEventState::Parked | FailedEventState::Skipped => state,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attempt {
    Delivered,
    /// The sink does not want it; what [`after_refusal`] said.
    Refused(FailedEventState),
}

/// An attempt that is to be settled: the failed event as it is now, if it is still there, and what was seen and done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attempted {
    pub failed_event: Option<FailedEvent>,
    /// The revision that the attempt was made with.
    pub seen: i64,
    pub attempt: Attempt,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settlement {
    Gone,
    Now(FailedEvent),
    /// Nothing: it is not what the attempt was made with, or an earlier one of its aggregate is still open.
    Left,
}

/// Settles attempts at events of one aggregate, in the order of their places. What an operator did in between wins: a
/// skipped event stays skipped, and one that was edited, redirected or replayed is sent again, with those behind it.
pub fn settle(attempts: &[Attempted], now: Timestamp) -> Vec<Settlement> {
    let mut is_open_before = false;
    let mut settlements = Vec::with_capacity(attempts.len());
    for Attempted { failed_event, seen, attempt } in attempts {
        let open = failed_event.filter(|failed_event| failed_event.state.is_open());
        settlements.push(match (open, attempt) {
            (None, _) => Settlement::Left,
            (Some(_), _) if is_open_before => Settlement::Left,
            (Some(failed_event), _) if failed_event.revision != *seen => {
                is_open_before = true;
                Settlement::Left
            }
            (Some(_), Attempt::Delivered) => Settlement::Gone,
            (Some(failed_event), Attempt::Refused(state)) => {
                let state = first(*state, now);
                is_open_before = state.is_open();
                let attempts = failed_event.attempts.saturating_add(1);
                Settlement::Now(FailedEvent {
                    state,
                    attempts,
                    revision: failed_event.revision.saturating_add(1),
                })
            }
        });
    }
    settlements
}

/// What an operator may do with a failed event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verb {
    Skip,
    /// Try it again at once, as if it had never been refused.
    Replay,
    /// Publish something else in its place; then as a replay.
    Edit(Edit),
    /// Publish it elsewhere; then as a replay.
    Redirect(Redirect),
}

impl Verb {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Replay => "replay",
            Self::Edit(_) => "edit",
            Self::Redirect(_) => "redirect",
        }
    }

    /// Whether it can be done to events in this state. An order about all events of a kind passes over the others.
    pub const fn applies_to(&self, state: StateWord) -> bool {
        match (state, self) {
            (StateWord::Skipped, _) | (StateWord::Held, Self::Replay) => false,
            (StateWord::Waiting | StateWord::Held | StateWord::Parked, _) => true,
        }
    }
}

/// What is published in place of what an event says. What is not given stays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edit {
    payload: Option<Payload>,
    headers: Option<Headers>,
}

impl Edit {
    pub fn new(payload: Option<Payload>, headers: Option<Headers>) -> Result<Self, BadEvent> {
        payload.as_ref().map(check_payload).transpose()?;
        headers.as_ref().map(check_headers).transpose()?;
        Ok(Self { payload, headers })
    }

    pub fn payload(&self) -> Option<&Payload> {
        self.payload.as_ref()
    }

    pub fn headers(&self) -> Option<&Headers> {
        self.headers.as_ref()
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redirect {
    topic: String,
}

impl Redirect {
    pub fn new(topic: impl Into<String>) -> Result<Self, BadEvent> {
        let topic = topic.into();
        check_topic(&topic)?;
        Ok(Self { topic })
    }

    pub fn topic(&self) -> &str {
        &self.topic
    }
}

/// A failed event, as an operator's order is judged by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FailedEventFacts {
    pub failed_event: FailedEvent,
    /// The first open event of its aggregate, when it is held.
    pub behind: Option<EventId>,
    pub original: Original,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Original {
    Kept,
    Gone,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FailedEventRefusal {
    #[error("there is no such failed event")]
    Unknown,
    #[error("the event was skipped, and whoever reads may have seen later ones since")]
    Skipped,
    #[error("the event waits behind event {head} of its aggregate")]
    Behind { head: EventId },
    #[error("the event is no longer in the table outbox_event")]
    Gone,
}

impl FailedEventRefusal {
    pub const fn code(&self) -> Code {
        match self {
            Self::Unknown => Code::UnknownFailedEvent,
            Self::Skipped | Self::Behind { .. } | Self::Gone => Code::FailedEventRefused,
        }
    }

    pub fn fix(&self) -> String {
        match self {
            Self::Unknown => {
                "see `tidemill outbox failed --all`; what was delivered is not listed".to_owned()
            }
            Self::Skipped => "publish a new event that corrects it, if one is needed".to_owned(),
            Self::Behind { head } => format!("replay event {head}; this one follows by itself"),
            Self::Gone => "skip it, and publish a new event if one is needed".to_owned(),
        }
    }
}

/// What is to become of a failed event by an operator's order, or why not. Total.
pub fn operate(
    facts: FailedEventFacts,
    verb: &Verb,
    now: Timestamp,
) -> Result<FailedEvent, FailedEventRefusal> {
    use FailedEventState::{Held, Parked, Skipped, Waiting};
    let FailedEventFacts { failed_event, behind, original } = facts;
    let changed = |state, attempts| {
        Ok(FailedEvent { state, attempts, revision: failed_event.revision.saturating_add(1) })
    };
    match (failed_event.state, verb) {
        (Skipped, _) => Err(FailedEventRefusal::Skipped),
        (Waiting { .. } | Held | Parked, Verb::Skip) => changed(Skipped, failed_event.attempts),
        (Waiting { .. } | Held | Parked, _) if original == Original::Gone => Err(FailedEventRefusal::Gone),
        (Held, Verb::Replay) => Err(match behind {
            Some(head) => FailedEventRefusal::Behind { head },
            None => FailedEventRefusal::Unknown,
        }),
        // What it says is changed; its turn is not.
        (Held, Verb::Edit(_) | Verb::Redirect(_)) => changed(Held, failed_event.attempts),
        (Waiting { .. } | Parked, Verb::Replay | Verb::Edit(_) | Verb::Redirect(_)) => {
            changed(Waiting { next_attempt_at: now }, 0)
        }
    }
}

/// What became of an event, as far as its table and the positions of relays tell.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EventOutcome {
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
