//! The auditor of the outbox: compares what was published with what the table says was read.
//!
//! It works in rounds. Each reads first the table, from one snapshot: the position of every slot, failed events, and
//! events; then what the sink has got since the last round. In this order all that counts as read must be in the sink.
//! Events published during the round are not in the snapshot: they are looked up afterwards.

use super::failed_event::StateWord;
use super::numbers::Numbers;
use super::{Aggregate, EventId, Published, Seq, Slot};
use md5::{Digest, Md5};
use std::collections::{BinaryHeap, HashMap};
use std::fmt;

#[cfg(test)]
mod tests;

/// Needs a bit or two for each event, and some bytes for each aggregate.
#[derive(Debug, Default)]
pub struct Auditor {
    records: u64,
    published: Numbers,
    repeated: Numbers,
    repeats: Findings<Repeated>,
    reordered: Findings<Reordered>,
    /// What the sink has that is not a whole record.
    pub torn: Findings<Place>,
    /// Records of another outbox.
    pub foreign: u64,
    /// The highest event of each aggregate in each lane, by a hash of both.
    heads: HashMap<[u8; 16], (EventId, Place)>,
    seqs: HashMap<Slot, Numbers>,
    /// Events of the table that count as read; `pending` has the others.
    read: Numbers,
    pending: Numbers,
    excused: Numbers,
    excuses: Excused,
    excused_seqs: HashMap<Slot, Numbers>,
    acknowledged: HashMap<Slot, Seq>,
    /// The first event that the table still has.
    pub lowest: Option<EventId>,
}

impl Auditor {
    /// Starts a round: failed events may have changed.
    pub fn begin(&mut self) {
        self.excused = Numbers::default();
        self.excuses = Excused::default();
        self.excused_seqs.clear();
    }

    /// The slot was read up to this position.
    pub fn slot(&mut self, slot: Slot, seq: Seq) {
        self.acknowledged.insert(slot, seq);
    }

    pub fn failed_event(&mut self, id: EventId, slot: Slot, seq: Seq, excuse: StateWord) {
        self.excused.insert(id.get());
        self.excused_seqs.entry(slot).or_default().insert(seq.get());
        self.excuses.count(excuse);
    }

    /// The table has this event, and it counts as read.
    pub fn read(&mut self, id: EventId) {
        self.pending.remove(id.get());
        self.read.insert(id.get());
    }

    /// The table has this event, and it was not read yet.
    pub fn pending(&mut self, id: EventId) {
        self.pending.insert(id.get());
    }

    /// The sink has this record. Lanes are read in order: all files, or one Kafka partition; two lanes have no order.
    pub fn published(&mut self, lane: Lane, place: Place, published: &Published) {
        self.records += 1;
        self.seqs.entry(published.slot).or_default().insert(published.seq.get());
        if !self.published.insert(published.id.get()) {
            self.repeated.insert(published.id.get());
            self.repeats.push(Repeated { id: published.id, place });
            return;
        }
        let head = self.heads.entry(hash(lane, &published.aggregate)).or_insert((published.id, place));
        if published.id >= head.0 {
            *head = (published.id, place);
            return;
        }
        self.reordered.push(Reordered {
            aggregate: published.aggregate.clone(),
            id: published.id,
            place,
            after: head.0,
            after_place: head.1,
        });
    }

    /// Events in the sink that the snapshot lacks though it goes back far enough: published since, or unknown. Look them up in
    /// the table now; those it has are [`pending`](Self::pending).
    pub fn unconfirmed(&self) -> Vec<EventId> {
        self.strange().filter(|id| !self.is_forgotten(*id)).collect()
    }

    pub fn verdict(&self) -> Verdict {
        let lost = self.read.without([&self.published, &self.excused]);
        let forgotten = self.strange().filter(|id| self.is_forgotten(*id)).count();
        Verdict {
            records: self.records,
            events: self.published.len(),
            lost: Findings::smallest(lost.map(EventId::new)),
            reordered: self.reordered.clone(),
            repeated: self.repeats.clone(),
            repeated_events: self.repeated.len(),
            unknown: Findings::smallest(self.strange().filter(|id| !self.is_forgotten(*id))),
            forgotten: u64::try_from(forgotten).unwrap_or(u64::MAX),
            torn: self.torn.clone(),
            foreign: self.foreign,
            gaps: Findings::smallest(self.gaps()),
            pending: u64::try_from(self.pending.without([&self.published]).count()).unwrap_or(u64::MAX),
            excused: self.excuses,
        }
    }

    fn strange(&self) -> impl Iterator<Item = EventId> + '_ {
        self.published.without([&self.read, &self.pending]).map(EventId::new)
    }

    fn is_forgotten(&self, id: EventId) -> bool {
        self.lowest.is_none_or(|lowest| id < lowest)
    }

    /// Positions up to the last one read that neither the sink nor a failed event has.
    fn gaps(&self) -> impl Iterator<Item = (Slot, Seq)> + '_ {
        self.acknowledged.iter().flat_map(|(slot, last)| {
            let sets = [self.seqs.get(slot), self.excused_seqs.get(slot)];
            Numbers::missing_up_to(last.get(), sets).map(|seq| (*slot, Seq::new(seq)))
        })
    }
}

/// Identifies an aggregate in a lane. The length separates the type from the id.
fn hash(Lane(lane): Lane, aggregate: &Aggregate) -> [u8; 16] {
    let mut hash = Md5::new();
    hash.update(lane.to_le_bytes());
    hash.update(aggregate.kind.len().to_le_bytes());
    hash.update(aggregate.kind.as_bytes());
    hash.update(aggregate.id.as_bytes());
    hash.finalize().into()
}

/// Further places are only counted.
pub const PLACES_MAX: usize = 20;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// The file, in reading order; for Kafka, the partition of a topic.
    pub file: usize,
    /// The line, from 1; for Kafka, the offset.
    pub line: u64,
}

/// A part of a sink that is read in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Lane(pub usize);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Findings<T> {
    pub count: u64,
    /// The first [`PLACES_MAX`].
    pub first: Vec<T>,
}

impl<T> Default for Findings<T> {
    fn default() -> Self {
        Self { count: 0, first: Vec::new() }
    }
}

impl<T> Findings<T> {
    pub fn push(&mut self, found: T) {
        self.count += 1;
        if self.first.len() < PLACES_MAX {
            self.first.push(found);
        }
    }
}

impl<T: Ord> Findings<T> {
    /// Counts all, and keeps the smallest.
    fn smallest(all: impl Iterator<Item = T>) -> Self {
        let (mut count, mut first) = (0, BinaryHeap::with_capacity(PLACES_MAX + 1));
        for found in all {
            count += 1;
            first.push(found);
            if first.len() > PLACES_MAX {
                first.pop();
            }
        }
        Self { count, first: first.into_sorted_vec() }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repeated {
    pub id: EventId,
    pub place: Place,
}

/// An event that appears first after a later one of its aggregate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reordered {
    pub aggregate: Aggregate,
    pub id: EventId,
    pub place: Place,
    pub after: EventId,
    pub after_place: Place,
}

/// Events that were read and need not be in the sink.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Excused {
    pub waiting: u64,
    pub held: u64,
    pub parked: u64,
    pub skipped: u64,
}

impl Excused {
    fn count(&mut self, excuse: StateWord) {
        *match excuse {
            StateWord::Waiting => &mut self.waiting,
            StateWord::Held => &mut self.held,
            StateWord::Parked => &mut self.parked,
            StateWord::Skipped => &mut self.skipped,
        } += 1;
    }

    pub fn total(self) -> u64 {
        self.waiting + self.held + self.parked + self.skipped
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    pub records: u64,
    pub events: u64,
    /// Count as read, and are neither in the sink nor excused.
    pub lost: Findings<EventId>,
    pub reordered: Findings<Reordered>,
    pub repeated: Findings<Repeated>,
    pub repeated_events: u64,
    /// In the sink, and not in the table although it goes back far enough.
    pub unknown: Findings<EventId>,
    /// In the sink, and older than the first event in the table.
    pub forgotten: u64,
    pub torn: Findings<Place>,
    pub foreign: u64,
    /// Missing positions of a slot; an event that is no longer in the table may be missing there.
    pub gaps: Findings<(Slot, Seq)>,
    pub pending: u64,
    /// Read, and not in the sink for a reason.
    pub excused: Excused,
}

impl Verdict {
    /// Nothing is lost and nothing is out of order. Duplicates are allowed.
    pub fn is_clean(&self) -> bool {
        self.lost.count == 0 && self.reordered.count == 0
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { records, events, pending, repeated_events, .. } = self;
        let (lost, reordered, repeated) = (self.lost.count, self.reordered.count, self.repeated.count);
        write!(
            f,
            "{records} records of {events} events: {lost} lost, {reordered} reordered, {repeated} duplicated"
        )?;
        if repeated > 0 {
            write!(f, " (of {repeated_events} events)")?;
        }
        write!(
            f,
            ", {} unknown, {} torn, {} gaps, {pending} pending",
            self.unknown.count, self.torn.count, self.gaps.count
        )?;
        let Excused { waiting, held, parked, skipped } = self.excused;
        write!(f, ", {} excused", self.excused.total())?;
        if self.excused.total() > 0 {
            write!(f, " ({waiting} waiting, {held} held, {parked} parked, {skipped} skipped)")?;
        }
        if self.foreign > 0 {
            write!(f, ", {} foreign", self.foreign)?;
        }
        Ok(())
    }
}
