//! The auditor's result: counts, and the first places of each finding.

use super::super::event::{Aggregate, EventId, Seq, Slot};
use crate::outbox::failed_event::StateWord;
use std::collections::BinaryHeap;
use std::fmt;

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
    pub(super) fn smallest(all: impl Iterator<Item = T>) -> Self {
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
    pub(super) fn count(&mut self, excuse: StateWord) {
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
