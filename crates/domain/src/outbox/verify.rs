//! The auditor of the outbox: compares what was published with what the table says was read.
//!
//! It works in rounds. Each reads first the table, from one snapshot: the position of every slot, failed events, and
//! events; then what the sink has got since the last round. In this order all that counts as read must be in the sink.
//! Events published during the round are not in the snapshot: they are looked up afterwards.

use super::failed_event::StateWord;
use super::numbers::Numbers;
use super::{Aggregate, EventId, Published, Seq, Slot};
use md5::{Digest, Md5};
use std::collections::HashMap;

mod verdict;

#[cfg(test)]
mod tests;

pub use verdict::{Excused, Findings, Lane, PLACES_MAX, Place, Reordered, Repeated, Verdict};

/// Needs a bit or two for each event, and some bytes for each aggregate.
#[derive(Debug, Default)]
pub struct Auditor {
    records: u64,
    published: Numbers,
    repeated: Numbers,
    repeats: Findings<Repeated>,
    reordered: Findings<Reordered>,
    torn: Findings<Place>,
    foreign: u64,
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
    lowest: Option<EventId>,
}

impl Auditor {
    /// Starts a round: failed events may have changed.
    pub fn begin(&mut self) {
        self.excused = Numbers::default();
        self.excuses = Excused::default();
        self.excused_seqs.clear();
    }

    /// The first event that the table still has.
    pub fn lowest(&mut self, lowest: Option<EventId>) {
        self.lowest = lowest;
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

    /// The sink has something here that is not a whole record.
    pub fn torn(&mut self, place: Place) {
        self.torn.push(place);
    }

    /// The sink has a record of another outbox.
    pub fn foreign(&mut self) {
        self.foreign += 1;
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
