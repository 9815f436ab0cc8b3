//! Unpublished events: how many, and since when. [`lag`](super::lag) counts unread ones, this file failed ones.

use crate::error::Result;
use crate::outbox::lag::SlotLag;
use crate::statement::stored;
use crate::tx::Outbox;
use std::collections::BTreeMap;
use tidemill_domain::outbox::failed_event::StateWord;
use tidemill_domain::outbox::{Count, Slot};
use tidemill_domain::time::Timestamp;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backlog {
    pub rows: Count,
    /// When the oldest was written; `None` if there is none, or none was found before the count stopped.
    pub oldest: Option<Timestamp>,
}

impl Backlog {
    pub const NONE: Self = Self { rows: Count::Exactly(0), oldest: None };

    /// Unread events of all slots together.
    pub fn of(slots: &[SlotLag]) -> Self {
        slots.iter().map(SlotLag::unread).fold(Self::NONE, Self::plus)
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let oldest = [self.oldest, other.oldest].into_iter().flatten().min();
        Self { rows: self.rows.plus(other.rows), oldest }
    }
}

/// Failed events by state; the oldest is the one with the lowest number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedEventCounts {
    /// A retry is scheduled.
    pub waiting: Backlog,
    /// Blocked by an earlier event of their aggregate.
    pub held: Backlog,
    pub parked: Backlog,
    /// An operator has skipped them.
    pub skipped: Count,
    slots: BTreeMap<Slot, Backlog>,
}

impl FailedEventCounts {
    /// All but the skipped, so still to be published.
    pub fn open(&self) -> Backlog {
        self.waiting.plus(self.held).plus(self.parked)
    }

    /// Skipped events have no `oldest`.
    pub const fn of(&self, state: StateWord) -> Backlog {
        match state {
            StateWord::Waiting => self.waiting,
            StateWord::Held => self.held,
            StateWord::Parked => self.parked,
            StateWord::Skipped => Backlog { rows: self.skipped, oldest: None },
        }
    }

    /// Still to be published.
    pub fn of_slot(&self, slot: Slot) -> Backlog {
        let none = Backlog { rows: self.nothing(), oldest: None };
        self.slots.get(&slot).map_or(none, |found| found.plus(none))
    }

    /// Whether zero in a slot is exact, or the count stopped before.
    fn nothing(&self) -> Count {
        if self.open().rows.is_exact() { Count::Exactly(0) } else { Count::AtLeast(0) }
    }

    fn new(rows: &[FailedCountsRow], count_max: u32) -> Self {
        let mut states: BTreeMap<StateWord, (u64, Option<Timestamp>)> = BTreeMap::new();
        let mut slots: BTreeMap<Slot, Backlog> = BTreeMap::new();
        for &FailedCountsRow { state, slot, rows: count, oldest } in rows {
            let (rows, known) = states.entry(state).or_default();
            *rows += count;
            *known = [*known, oldest].into_iter().flatten().min();
            if state != StateWord::Skipped {
                let found = Backlog { rows: Count::Exactly(count), oldest };
                let before = slots.entry(slot).or_insert(Backlog::NONE);
                *before = before.plus(found);
            }
        }
        let of = |state: StateWord| {
            let (rows, oldest) = states.get(&state).copied().unwrap_or_default();
            Backlog { rows: Count::up_to(count_max.into(), rows), oldest }
        };
        Self {
            waiting: of(StateWord::Waiting),
            held: of(StateWord::Held),
            parked: of(StateWord::Parked),
            skipped: of(StateWord::Skipped).rows,
            slots,
        }
    }
}

stored! {
    /// One slot and state.
    pub(crate) struct FailedCountsRow in ("tidemill_outbox_exception", "state") {
        state: StateWord,
        slot: Slot,
        rows: u64,
        /// `None` if the event is no longer in its table.
        oldest: Option<Timestamp>,
    }
}

impl Outbox<'_> {
    /// Each state is counted up to `count_max`.
    pub async fn failed_event_counts(&mut self, count_max: u32) -> Result<FailedEventCounts> {
        let rows = self.outbox_failed_counts(i64::from(count_max) + 1).await?;
        Ok(FailedEventCounts::new(&rows, count_max))
    }
}
