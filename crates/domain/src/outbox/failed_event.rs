//! A failed event: refused by the sink, or waiting behind such an event of its aggregate. Other aggregates continue.
//!
//! ```text
//!   refused ──► waiting ──attempts used up, or refused for good──► parked
//!   read after one that is open ──► held ──it is the first now──► waiting
//!   waiting, parked ──replay, edit, redirect──► waiting, due at once
//!   waiting, held, parked ──skip──► skipped (final)
//!   delivered: the failed event is deleted
//! ```
//!
//! Invariants: of the open failed events of an aggregate the first is waiting or parked and all others are held; a skipped
//! event never comes back; no event counts as delivered while an earlier one of its aggregate is open.

#[cfg(test)]
mod tests;

use super::event::{BadEvent, EventId, Headers, Payload, check_headers, check_payload, check_topic};
use crate::backoff::{Backoff, BadBackoff};
use crate::time::Timestamp;
use std::time::Duration;

pub const ATTEMPTS_MAX: u32 = 10;

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RetryPolicy {
    pub backoff: Backoff,
    /// The first one included.
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
    /// Attempts since the last replay.
    pub attempts: u32,
    /// Grows with each change by an operator or an attempt. To settle an attempt, name the revision that it saw.
    pub revision: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailedEventState {
    /// Tried again at this instant.
    Waiting { next_attempt_at: Timestamp },
    /// An earlier event of its aggregate comes first.
    Held,
    /// Not tried until an operator replays it.
    Parked,
    /// Never published.
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
    #[derive(PartialOrd, Ord, Hash)]
    pub enum StateWord: "must be waiting, held, parked or skipped" {
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

/// The state of an event that was refused after `attempts` earlier attempts. `unit` is a random number from 0 to 1.
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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// No earlier event of its aggregate is open.
    First,
    Behind,
}

/// The state of a new failed event. The relay may not know that an operator has skipped the event before it.
pub fn admitted(asked: FailedEventState, place: Place, now: Timestamp) -> FailedEventState {
    match (asked, place) {
        (FailedEventState::Skipped, _) => FailedEventState::Skipped,
        (_, Place::Behind) => FailedEventState::Held,
        (asked, Place::First) => first(asked, now),
    }
}

/// The state of an aggregate's first open failed event. The revision stays, so that a delivery may still be settled.
pub fn first(state: FailedEventState, now: Timestamp) -> FailedEventState {
    match state {
        FailedEventState::Held => FailedEventState::Waiting { next_attempt_at: now },
        FailedEventState::Waiting { .. } | FailedEventState::Parked | FailedEventState::Skipped => state,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attempt {
    Delivered,
    /// With the state from [`after_refusal`].
    Refused(FailedEventState),
}

/// An attempt to settle. `failed_event` is as it is now, if it still exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attempted {
    pub failed_event: Option<FailedEvent>,
    pub seen: i64,
    pub attempt: Attempt,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settlement {
    Gone,
    Now(FailedEvent),
    /// Unchanged: the revision differs, or an earlier event of its aggregate is still open.
    Left,
}

/// Settles attempts at events of one aggregate, in order. Changes by an operator meanwhile win: a skipped event stays
/// skipped, and one that was edited, redirected or replayed is sent again, with those after it.
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

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verb {
    Skip,
    /// Try it again at once, with the attempts reset.
    Replay,
    /// Publish something else instead; then as a replay.
    Edit(Edit),
    /// Publish to another topic; then as a replay.
    Redirect(Redirect),
}

crate::newtype::named!(Verb, as_str {
    Skip = "skip", Replay = "replay", Edit = "edit", Redirect = "redirect",
});

impl Verb {
    /// Whether it applies to events in this state. An action on all events of a kind skips the others.
    pub const fn applies_to(&self, state: StateWord) -> bool {
        match (state, self) {
            (StateWord::Skipped, _) | (StateWord::Held, Self::Replay) => false,
            (StateWord::Waiting | StateWord::Held | StateWord::Parked, _) => true,
        }
    }
}

/// What to publish instead. None keeps the original.
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

crate::getters!(Redirect { &topic: str });

impl Redirect {
    pub fn new(topic: impl Into<String>) -> Result<Self, BadEvent> {
        let topic = topic.into();
        check_topic(&topic)?;
        Ok(Self { topic })
    }
}

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
    #[error("the event was skipped, and consumers may have seen later events")]
    Skipped,
    #[error("the event waits behind event {head} of its aggregate")]
    Behind { head: EventId },
    #[error("the event is no longer in the table outbox_event")]
    Gone,
}

crate::code::coded!(FailedEventRefusal {
    Unknown => UnknownFailedEvent;
    Skipped | Behind | Gone => FailedEventRefused;
});

impl FailedEventRefusal {
    pub fn fix(&self) -> String {
        match self {
            Self::Unknown => "see `tidemill outbox failed --all`; delivered events are not listed".to_owned(),
            Self::Skipped => "publish a new event that corrects it, if one is needed".to_owned(),
            Self::Behind { head } => format!("replay event {head}; this one follows by itself"),
            Self::Gone => "skip it, and publish a new event if one is needed".to_owned(),
        }
    }
}

/// The failed event after an operator's action, or the refusal. Total.
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
        // The content changes, the order does not.
        (Held, Verb::Edit(_) | Verb::Redirect(_)) => changed(Held, failed_event.attempts),
        (Waiting { .. } | Parked, Verb::Replay | Verb::Edit(_) | Verb::Redirect(_)) => {
            changed(Waiting { next_attempt_at: now }, 0)
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EventOutcome {
    Pending,
    Published,
    Failed(StateWord),
}

impl EventOutcome {
    /// A failed event decides before the position of the slot: it exists from the read of the event until its delivery.
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
