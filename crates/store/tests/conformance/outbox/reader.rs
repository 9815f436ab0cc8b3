//! A relay one step at a time: it joins, takes slots, reads a page, settles it, and leaves slots, all by the functions
//! that the engine calls. What it settled is remembered in order.

use crate::{identity, process_id};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::outbox::cursor::{self, Advance, Cursor};
use tidemill_domain::outbox::{Effort, EventId, RelayId, Seq, Slot, StoredEvent, Unit};
use tidemill_store::Store;
use tidemill_store::outbox::reading::{Low, Page, Reading};
use tidemill_store::outbox::relay::{Joining, Looking, RelayFence, View};
use uuid::Uuid;

/// The lease of a relay in these tests.
pub(super) const LEASE: Duration = Duration::from_secs(5);

/// An event that was settled, with its place in its slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Settled {
    pub(super) seq: Seq,
    pub(super) event: StoredEvent,
}

#[derive(Debug)]
pub(super) struct Reader {
    pub(super) store: Store,
    pub(super) fence: RelayFence<'static>,
    pub(super) cursors: Vec<Cursor>,
    pub(super) epochs: BTreeMap<Slot, Epoch>,
    pub(super) floor: EventId,
    pub(super) settled: Vec<Settled>,
    /// Most events of a page.
    pub(super) limit: u32,
    /// What the last page told about its window, handed on without a thought, as it may be.
    low: Option<Low>,
}

/// A page, and the slots that it was read for.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) page: Page,
    slots: BTreeSet<Slot>,
    /// Whether there is nothing behind it.
    is_last: bool,
}

impl Reader {
    /// Joins as a relay without slots; `number` makes its id.
    pub(super) async fn join(store: &Store, number: u128, limit: u32) -> Self {
        let id = RelayId::new(Uuid::from_u128(number));
        let joining = Joining {
            id,
            process: process_id(number),
            identity: &identity(number),
            sink: "none",
            instance: None,
            lease: LEASE,
        };
        let mut tx = store.begin().await.unwrap();
        tx.outbox().join(&joining).await.unwrap().unwrap();
        tx.commit().await.unwrap();
        Self {
            store: store.clone(),
            fence: RelayFence { id, acks: 0, lease: LEASE, timeline: None, effort: Effort::default() },
            cursors: Vec::new(),
            epochs: BTreeMap::new(),
            floor: EventId::ZERO,
            settled: Vec::new(),
            limit,
            low: None,
        }
    }

    /// Joins and takes every slot.
    pub(super) async fn of_all(store: &Store, number: u128, limit: u32) -> Self {
        let mut reader = Self::join(store, number, limit).await;
        let all: Vec<Slot> = Slot::all().collect();
        assert_eq!(reader.take(&all).await, Some(all));
        reader
    }

    /// Takes of these slots what is free; which. None when this relay has ended.
    pub(super) async fn take(&mut self, wanted: &[Slot]) -> Option<Vec<Slot>> {
        let mut tx = self.store.begin().await.unwrap();
        let taken =
            tx.outbox().take_slots(self.fence, self.cursors.clone(), wanted, Unit::Slot).await.unwrap()?;
        tx.commit().await.unwrap();
        self.fence.acks += 1;
        self.cursors = taken.cursors;
        let slots = taken.epochs.iter().map(|(slot, _)| *slot).collect();
        self.epochs.extend(taken.epochs);
        Some(slots)
    }

    /// Leaves these slots where they are. False when this relay has ended.
    pub(super) async fn leave(&mut self, slots: &[Slot]) -> bool {
        let mut tx = self.store.begin().await.unwrap();
        let Some(kept) = tx.outbox().leave_slots(self.fence, self.cursors.clone(), slots).await.unwrap()
        else {
            return false;
        };
        tx.commit().await.unwrap();
        self.fence.acks += 1;
        self.cursors = kept;
        self.epochs.retain(|slot, _| !slots.contains(slot));
        true
    }

    /// The slots that it has.
    pub(super) fn slots(&self) -> Vec<Slot> {
        self.cursors.iter().flat_map(|cursor| cursor.slots.keys().copied()).collect()
    }

    /// Looks around, for all its slots, from where the one that is furthest behind was read.
    pub(super) async fn look(&self) -> Option<View> {
        let from = self.cursors.first().map(|cursor| cursor.window.from.clone());
        let from = from.unwrap_or_else(|| "3:3:".parse().unwrap());
        let looking = Looking { fence: self.fence, from: &from, slots: &self.slots(), cursors: None };
        let mut tx = self.store.alone().await.unwrap();
        let view = tx.outbox().look_around(&looking).await.unwrap();
        tx.commit().await.unwrap();
        view
    }

    /// Reads the next page for the slots that are furthest behind; none without slots.
    pub(super) async fn read(&mut self) -> Option<Batch> {
        let first = self.cursors.first()?;
        let stop = cursor::next_stop(&self.cursors);
        let reading =
            Reading { cursor: first, stop, floor: self.floor, low: self.low.clone(), limit: self.limit };
        let page = self.store.read_outbox(&reading).await.unwrap();
        assert!(page.events.len() <= self.limit as usize);
        // The end of a window that was opened some time ago is not the end of all.
        let is_last = page.seen.is_some() && stop.is_none() && page.events.is_empty();
        Some(Batch { slots: first.slots.keys().copied().collect(), page, is_last })
    }

    /// Writes down that the first `count` events of a batch are published. False when this relay has ended.
    pub(super) async fn settle(&mut self, batch: Batch, count: usize) -> bool {
        let Batch { page, slots, .. } = batch;
        let window = match page.events[..count].last() {
            _ if count == page.events.len() => page.window.clone(),
            last => page.opened.clone().after(last.map_or(EventId::ZERO, |event| event.id)),
        };
        let mut seqs: BTreeMap<Slot, Seq> =
            self.cursors.iter().flat_map(|cursor| cursor.slots.clone()).collect();
        let mut settled = Vec::new();
        let mut counts: BTreeMap<Slot, i64> = BTreeMap::new();
        for event in page.events.into_iter().take(count) {
            let seq = seqs.get_mut(&event.slot).unwrap();
            *seq = seq.next();
            *counts.entry(event.slot).or_default() += 1;
            settled.push(Settled { seq: *seq, event });
        }
        let advance = Advance { slots: &slots, window: &window, counts: &counts };
        let cursors = cursor::advanced(self.cursors.clone(), &advance);
        let mut tx = self.store.alone().await.unwrap();
        let is_ours = tx.outbox().acknowledge(self.fence, &cursors, settled.len() as u64).await.unwrap();
        tx.commit().await.unwrap();
        if is_ours {
            self.fence.acks += 1;
            self.cursors = cursors;
            self.low = page.low;
            self.settled.extend(settled);
        }
        is_ours
    }

    /// Reads and settles one page; whether there may be more behind it. False as well when this relay has ended.
    pub(super) async fn step(&mut self) -> bool {
        let Some(batch) = self.read().await else { return false };
        let (count, is_last) = (batch.page.events.len(), batch.is_last);
        self.settle(batch, count).await && !is_last
    }

    /// Reads and settles until there is nothing more.
    pub(super) async fn drain(&mut self) {
        while self.step().await {}
    }

    /// Ends in order.
    pub(super) async fn end(self) -> Vec<Settled> {
        let mut tx = self.store.begin().await.unwrap();
        tx.outbox().leave(self.fence.id).await.unwrap();
        tx.commit().await.unwrap();
        self.settled
    }

    /// The ids that were settled, in order.
    pub(super) fn ids(&self) -> Vec<i64> {
        self.settled.iter().map(|settled| settled.event.id.get()).collect()
    }
}

/// Writes an event of each of these aggregates in one transaction.
pub(super) async fn write(store: &Store, aggregates: &[&str]) {
    let mut tx = store.begin().await.unwrap();
    for aggregate in aggregates {
        if let Some(connection) = tx.postgres() {
            let insert = "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload)
                          values ('thing', $1, 'thing.changed', 'things', '1')";
            sqlx::query(insert).bind(aggregate).execute(connection).await.unwrap();
        } else {
            let insert =
                "insert into outbox_event (slot, aggregate_type, aggregate_id, event_type, topic, payload)
                          values ($2, 'thing', $1, 'thing.changed', 'things', '1')";
            let insert = sqlx::query(insert).bind(aggregate).bind(Slot::of(aggregate).get());
            insert.execute(tx.sqlite().unwrap()).await.unwrap();
        }
    }
    tx.commit().await.unwrap();
}

/// Ends the relays whose lease has passed.
pub(super) async fn retire(store: &Store) -> Vec<RelayId> {
    let mut tx = store.begin().await.unwrap();
    let retired = tx.outbox().retire_relays().await.unwrap();
    tx.commit().await.unwrap();
    retired.relays
}

/// That these are all events from 1 to the last, each once, and their places in each slot without a gap.
pub(super) fn assert_each_once<'a>(settled: impl IntoIterator<Item = &'a Settled>, events: usize) {
    let settled: Vec<&Settled> = settled.into_iter().collect();
    let mut ids: Vec<i64> = settled.iter().map(|one| one.event.id.get()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=i64::try_from(events).unwrap()).collect::<Vec<_>>());
    assert_no_gap(settled);
}

/// That the places of each slot are 1 to the last.
pub(super) fn assert_no_gap<'a>(settled: impl IntoIterator<Item = &'a Settled>) {
    let mut places: BTreeMap<Slot, Vec<i64>> = BTreeMap::new();
    for one in settled {
        places.entry(one.event.slot).or_default().push(one.seq.get());
    }
    for (slot, mut seqs) in places {
        seqs.sort_unstable();
        let last = i64::try_from(seqs.len()).unwrap();
        assert_eq!(seqs, (1..=last).collect::<Vec<_>>(), "slot {slot}");
    }
}
