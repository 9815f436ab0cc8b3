//! The auditor of the outbox: compares what was published with what the table says was read.
//!
//! It is fed in rounds. In each, first the table: how far every slot was read, what has failed, and the events, all
//! from one snapshot; then what the sink has got since the last round. In this order whatever counts as read has to be
//! in the sink. What is published while the round goes on is not in the snapshot: it is looked up afterwards.

use super::failed_event::StateWord;
use super::numbers::Numbers;
use super::{Aggregate, EventId, Published, Seq, Slot};
use md5::{Digest, Md5};
use std::collections::HashMap;

mod verdict;

#[cfg(test)]
mod tests;

pub use verdict::{Excused, Findings, Lane, PLACES_MAX, Place, Reordered, Repeated, Verdict};

/// Reads what was published and what the table says, and tells what does not fit. A bit or two for each event, and some
/// bytes for each aggregate.
#[derive(Debug, Default)]
pub struct Auditor {
    records: u64,
    published: Numbers,
    repeated: Numbers,
    repeats: Findings<Repeated>,
    reordered: Findings<Reordered>,
    torn: Findings<Place>,
    foreign: u64,
    /// The highest event of each aggregate in each lane, and where it is. A hash stands for both.
    heads: HashMap<[u8; 16], (EventId, Place)>,
    seqs: HashMap<Slot, Numbers>,
    /// Events of the table that count as read, and the others.
    read: Numbers,
    pending: Numbers,
    excused: Numbers,
    excuses: Excused,
    excused_seqs: HashMap<Slot, Numbers>,
    acknowledged: HashMap<Slot, Seq>,
    lowest: Option<EventId>,
}

impl Auditor {
    pub fn new() -> Self {
        Self::default()
    }

    /// A round begins: what had failed may no longer be.
    pub fn begin(&mut self) {
        self.excused = Numbers::default();
        self.excuses = Excused::default();
        self.excused_seqs.clear();
    }

    /// The table says: this is the first event that it still has.
    pub fn lowest(&mut self, lowest: Option<EventId>) {
        self.lowest = lowest;
    }

    /// The table says: this slot was read up to here.
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

    /// The table has this event, and nobody has read it yet.
    pub fn pending(&mut self, id: EventId) {
        self.pending.insert(id.get());
    }

    /// The sink has this. Its lane is what its readers read in order: of a sink of files all of them, of Kafka one
    /// partition. Between two lanes there is no order, so none can be broken.
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

    /// The sink has something here that is no record, or only a part of one.
    pub fn torn(&mut self, place: Place) {
        self.torn.push(place);
    }

    /// The sink has something here that is not of this outbox at all.
    pub fn foreign(&mut self) {
        self.foreign += 1;
    }

    /// What the sink has and the snapshot has not, though it goes back far enough: published since, or unknown. To be
    /// looked up in the table now; what it has is [`pending`](Self::pending).
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

    /// In the sink and not known from the table.
    fn strange(&self) -> impl Iterator<Item = EventId> + '_ {
        self.published.without([&self.read, &self.pending]).map(EventId::new)
    }

    fn is_forgotten(&self, id: EventId) -> bool {
        self.lowest.is_none_or(|lowest| id < lowest)
    }

    /// Places of slots, up to where they were read, that neither the sink nor a failed event has.
    fn gaps(&self) -> impl Iterator<Item = (Slot, Seq)> + '_ {
        self.acknowledged.iter().flat_map(|(slot, last)| {
            let sets = [self.seqs.get(slot), self.excused_seqs.get(slot)];
            Numbers::missing_up_to(last.get(), sets).map(|seq| (*slot, Seq::new(seq)))
        })
    }
}

/// Stands for an aggregate in a lane. The length keeps the type and the id apart.
fn hash(Lane(lane): Lane, aggregate: &Aggregate) -> [u8; 16] {
    let mut hash = Md5::new();
    hash.update(lane.to_le_bytes());
    hash.update(aggregate.kind.len().to_le_bytes());
    hash.update(aggregate.kind.as_bytes());
    hash.update(aggregate.id.as_bytes());
    hash.finalize().into()
}
