//! Failed events, and the events of their aggregates that wait for them. This file is for relays, in their own
//! transaction with a confirmed lease; [`list`] and [`operate`] are for people.
//!
//! Lock the failed events of a slot before changing them, so that a relay that adds an event after another one and an
//! operator who skips that one see each other.

pub mod due;
pub mod list;
pub mod operate;

pub use due::{Due, DueEvent};
pub use list::{Content, FailedEventDetail, FailedEventFilter, FailedEventRecord};
pub use operate::{Operation, OperationResult, Selection};

use super::{FAILED_EVENT, numbers};
use crate::error::Result;
use crate::statement::{Columns, Stored, stored};
use crate::statements::outbox::failed_event::FailedEventChange;
use crate::tx::Outbox;
use std::collections::{BTreeMap, BTreeSet};
use tidemill_domain::outbox::failed_event::{
    self, Attempt, Attempted, FailedEvent, FailedEventState, Place, Settlement, StateWord,
};
use tidemill_domain::outbox::{Aggregate, EventId, Seq, Slot};
use tidemill_domain::time::Timestamp;

const ERROR_CHARS_MAX: usize = 2000;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewFailedEvent {
    pub event_id: EventId,
    pub slot: Slot,
    pub seq: Seq,
    pub aggregate: Aggregate,
    pub event_type: String,
    /// Zero when it is held.
    pub attempts: u32,
    /// After an open event of its aggregate it becomes held in any case; the first one does not.
    pub state: FailedEventState,
    pub error: Option<String>,
}

/// The outcome of an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settled {
    pub event_id: EventId,
    pub revision: i64,
    pub what: SettledAs,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SettledAs {
    Delivered,
    /// The sink rejected it.
    Refused {
        /// From `after_refusal`.
        state: FailedEventState,
        error: String,
    },
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settling {
    pub changed: u64,
    /// Aggregates whose later events need not wait any more.
    pub unblocked: Vec<(Slot, Aggregate)>,
}

impl Outbox<'_> {
    /// Leaves events unchanged that have failed already.
    #[crate::boxed]
    pub async fn add_failed_events(&mut self, new: &[NewFailedEvent], now: Timestamp) -> Result<()> {
        if new.is_empty() {
            return Ok(());
        }
        let slots: BTreeSet<Slot> = new.iter().map(|new| new.slot).collect();
        self.failed_event_lock(&numbers(&Vec::from_iter(slots))).await?;
        let ids: Vec<i64> = new.iter().map(|new| new.event_id.get()).collect();
        let known: BTreeSet<i64> = self.failed_event_known(&ids).await?.into_iter().collect();
        let mut fresh: Vec<&NewFailedEvent> =
            new.iter().filter(|new| !known.contains(&new.event_id.get())).collect();
        fresh.sort_by_key(|new| (new.slot, new.seq));
        let mut blocked = self.open_aggregates(fresh.iter().map(|new| (new.slot, &new.aggregate))).await?;
        let mut rows = Vec::with_capacity(fresh.len());
        for new in fresh {
            let key = (new.slot, new.aggregate.clone());
            let place = if blocked.contains(&key) { Place::Behind } else { Place::First };
            let state = failed_event::admitted(new.state, place, now);
            if state.is_open() {
                blocked.insert(key);
            }
            rows.push((new, state, new.error.as_deref().map(storable)));
        }
        Ok(self.failed_event_insert(&rows, now).await?)
    }

    /// The aggregates of these slots whose later events have to wait.
    pub async fn blocked(&mut self, slots: &[Slot]) -> Result<Vec<(Slot, Aggregate)>> {
        Ok(self.failed_event_blocked(&numbers(slots)).await?.into_iter().map(|row| row.key).collect())
    }

    /// Settles attempts. Later changes by an operator win; the new first event of an aggregate is due at once.
    #[crate::boxed]
    pub async fn settle(&mut self, settled: &[Settled], now: Timestamp) -> Result<Settling> {
        let by_id: BTreeMap<i64, &Settled> = settled.iter().map(|one| (one.event_id.get(), one)).collect();
        let ids: Vec<i64> = by_id.keys().copied().collect();
        let failed = self.lock_failed(&ids).await?;
        let mut aggregates: BTreeMap<(Slot, Aggregate), Vec<&KnownFailedEvent>> = BTreeMap::new();
        for row in &failed {
            aggregates.entry(row.key.clone()).or_default().push(row);
        }
        let (mut gone, mut changes) = (Vec::new(), Vec::new());
        for rows in aggregates.values() {
            let attempts = attempted(rows, &by_id);
            for (row, settlement) in rows.iter().zip(failed_event::settle(&attempts, now)) {
                match settlement {
                    Settlement::Left => {}
                    Settlement::Gone => gone.push((row.event_id, row.failed_event.revision)),
                    Settlement::Now(after) => {
                        let error = match by_id.get(&row.event_id).map(|settled| &settled.what) {
                            Some(SettledAs::Refused { error, .. }) => Some(storable(error)),
                            Some(SettledAs::Delivered) | None => None,
                        };
                        let seen = row.failed_event.revision;
                        changes.push(FailedEventChange { event_id: row.event_id, seen, after, error });
                    }
                }
            }
        }
        let mut changed = 0;
        if !gone.is_empty() {
            changed += self.failed_event_delete(&gone).await?;
        }
        if !changes.is_empty() {
            changed += self.failed_event_save(&changes, now).await?;
        }
        let keys: Vec<(Slot, Aggregate)> = aggregates.into_keys().collect();
        self.promote(&keys, now).await?;
        let open = self.open_aggregates(keys.iter().map(|(slot, aggregate)| (*slot, aggregate))).await?;
        let unblocked = keys.into_iter().filter(|key| !open.contains(key)).collect();
        Ok(Settling { changed, unblocked })
    }

    /// Those of these events that have failed, locked, in order of sequence.
    async fn lock_failed(&mut self, ids: &[i64]) -> Result<Vec<KnownFailedEvent>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let slots = self.failed_event_slots(ids).await?;
        self.failed_event_lock(&slots).await?;
        Ok(self.failed_events_known(ids).await?)
    }

    /// Makes the first open failed event of each of these aggregates due, if it was held.
    async fn promote(&mut self, keys: &[(Slot, Aggregate)], now: Timestamp) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let keys: Vec<(Slot, &Aggregate)> = keys.iter().map(|(slot, key)| (*slot, key)).collect();
        Ok(self.failed_event_promote(&keys, now).await?)
    }

    /// Which of these aggregates have an open failed event.
    async fn open_aggregates<'a>(
        &mut self,
        keys: impl Iterator<Item = (Slot, &'a Aggregate)>,
    ) -> Result<BTreeSet<(Slot, Aggregate)>> {
        let keys: BTreeSet<(Slot, &Aggregate)> = keys.collect();
        if keys.is_empty() {
            return Ok(BTreeSet::new());
        }
        let keys: Vec<(Slot, &Aggregate)> = keys.into_iter().collect();
        Ok(self.failed_event_open(&keys).await?.into_iter().map(|row| row.key).collect())
    }
}

/// Of one aggregate.
fn attempted(rows: &[&KnownFailedEvent], settled: &BTreeMap<i64, &Settled>) -> Vec<Attempted> {
    let settled = rows.iter().filter_map(|row| Some((row, settled.get(&row.event_id)?)));
    let attempt = |(row, settled): (&&KnownFailedEvent, &&Settled)| {
        let attempt = match &settled.what {
            SettledAs::Delivered => Attempt::Delivered,
            SettledAs::Refused { state, .. } => Attempt::Refused(*state),
        };
        Attempted { failed_event: Some(row.failed_event), seen: settled.revision, attempt }
    };
    settled.map(attempt).collect()
}

stored! {
    pub(crate) struct AggregateRow in ("tidemill_outbox_exception", "aggregate_id") |row| {
        key: (Slot, Aggregate) => (row.get("slot")?, aggregate(row)?),
    }
}

fn aggregate(row: &Columns<'_>) -> Result<Aggregate, sqlx::Error> {
    Ok(Aggregate { kind: row.get("aggregate_type")?, id: row.get("aggregate_id")? })
}

stored! {
    pub(crate) struct KnownFailedEvent in FAILED_EVENT |row| {
        pub(super) event_id: i64,
        key: (Slot, Aggregate) => (row.get("slot")?, aggregate(row)?),
        pub(super) failed_event: FailedEvent => Stored::from_columns(row)?,
    }
}

impl Stored for FailedEvent {
    const PLACE: (&'static str, &'static str) = FAILED_EVENT;

    fn from_columns(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        let state = match (row.get("state")?, row.get("next_attempt_at")?) {
            (StateWord::Waiting, Some(next_attempt_at)) => FailedEventState::Waiting { next_attempt_at },
            (StateWord::Held, None) => FailedEventState::Held,
            (StateWord::Parked, None) => FailedEventState::Parked,
            (StateWord::Skipped, None) => FailedEventState::Skipped,
            _ => return Err(row.damaged("state")),
        };
        Ok(Self { state, attempts: row.get("attempts")?, revision: row.get("revision")? })
    }
}

/// The error may contain NUL, which PostgreSQL cannot store.
pub(super) fn storable(text: &str) -> String {
    text.chars().take(ERROR_CHARS_MAX).map(|c| if c == '\0' { '\u{fffd}' } else { c }).collect()
}
