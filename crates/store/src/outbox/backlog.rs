//! Events that are not out: how many, and since when. Those that no relay has read are counted slot by slot in
//! [`lag`](super::lag); here are those that were read and not taken.

use crate::error::StoreError;
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
    /// When the oldest of them was written; none when there is none, or none was found before the count was stopped.
    pub oldest: Option<Timestamp>,
}

impl Backlog {
    pub const NONE: Self = Self { rows: Count::Exactly(0), oldest: None };

    /// What was not read yet of all slots together.
    pub fn of(slots: &[SlotLag]) -> Self {
        slots.iter().map(SlotLag::unread).fold(Self::NONE, Self::plus)
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let oldest = [self.oldest, other.oldest].into_iter().flatten().min();
        Self { rows: self.rows.plus(other.rows), oldest }
    }
}

/// Events that were read and not taken, by state; the oldest is the one with the lowest number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailedEventCounts {
    /// The next attempt has its time.
    pub waiting: Backlog,
    /// Behind another one of their aggregate.
    pub held: Backlog,
    pub parked: Backlog,
    /// Not published, by the word of an operator.
    pub skipped: Count,
    slots: BTreeMap<Slot, Backlog>,
}

impl FailedEventCounts {
    /// Those that are still to be published: all but the skipped.
    pub fn open(&self) -> Backlog {
        self.waiting.plus(self.held).plus(self.parked)
    }

    /// Those in one state. Of the skipped, which nobody waits for, it is not told since when.
    pub const fn of(&self, state: StateWord) -> Backlog {
        match state {
            StateWord::Waiting => self.waiting,
            StateWord::Held => self.held,
            StateWord::Parked => self.parked,
            StateWord::Skipped => Backlog { rows: self.skipped, oldest: None },
        }
    }

    /// Those of one slot that are still to be published.
    pub fn of_slot(&self, slot: Slot) -> Backlog {
        let none = Backlog { rows: self.nothing(), oldest: None };
        self.slots.get(&slot).map_or(none, |found| found.plus(none))
    }

    /// What none in a slot means: that there is none, or that nobody counted so far.
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
    /// Events of one slot that were read and not taken, in one state.
    pub(crate) struct FailedCountsRow in ("tidemill_outbox_exception", "state") {
        state: StateWord,
        slot: Slot,
        rows: u64,
        /// When the first of them was written; none when it is no longer in its table.
        oldest: Option<Timestamp>,
    }
}

impl Outbox<'_> {
    /// What has failed, each state counted up to `count_max`.
    pub async fn failed_event_counts(&mut self, count_max: u32) -> Result<FailedEventCounts, StoreError> {
        let rows = self.outbox_failed_counts(i64::from(count_max) + 1).await?;
        Ok(FailedEventCounts::new(&rows, count_max))
    }
}
