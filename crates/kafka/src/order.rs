//! Which records of a batch may be sent at once, and their outcomes. Pure.
//!
//! A producer keeps the order of one partition, and an aggregate that stays in one topic stays in one partition. So a
//! wave holds the next records of each aggregate that go to the same topic; records for another topic wait for the next
//! wave.

use crate::route::Topics;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use tidemill_domain::outbox::{Aggregate, Record};
use tidemill_engine::outbox::Outcome;

#[derive(Debug)]
pub(crate) struct Batch<'a> {
    pub(crate) records: &'a [Record],
    topics: Vec<Cow<'a, str>>,
    states: Vec<RecordState>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum RecordState {
    Open,
    Delivered,
    Refused(String),
}

#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) outcomes: Vec<Outcome>,
    /// Records that arrived although an earlier one of their aggregate did not.
    pub(crate) early: Vec<usize>,
}

/// Derived from the records of an aggregate, in order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AggregateState<'a> {
    /// The next open record goes to this topic.
    Next(&'a str),
    /// A record without outcome blocks the rest.
    Waiting,
    Blocked,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(records: &'a [Record], topics: &'a Topics) -> Self {
        let of = |record: &'a Record| topics.of(&record.event_type, &record.topic, record.is_redirected);
        Self {
            records,
            topics: records.iter().map(of).collect(),
            states: vec![RecordState::Open; records.len()],
        }
    }

    pub(crate) fn topic(&self, n: usize) -> &str {
        self.topics.get(n).map_or("", AsRef::as_ref)
    }

    pub(crate) fn deliver(&mut self, n: usize) {
        self.set(n, RecordState::Delivered);
    }

    /// The record will never be accepted.
    pub(crate) fn refuse(&mut self, n: usize, why: String) {
        self.set(n, RecordState::Refused(why));
    }

    fn set(&mut self, n: usize, state: RecordState) {
        if let Some(place) = self.states.get_mut(n) {
            *place = state;
        }
    }

    /// In sending order.
    pub(crate) fn next_wave(&self) -> Vec<usize> {
        let first = self.topic(0);
        let is_simple = self.topics.iter().all(|topic| topic == first)
            && self.states.iter().all(|state| !matches!(state, RecordState::Refused(_)));
        let open = |n: &usize| self.states.get(*n) == Some(&RecordState::Open);
        if is_simple {
            return (0..self.records.len()).filter(open).collect();
        }
        let mut states: HashMap<&Aggregate, AggregateState<'_>> = HashMap::new();
        let mut wave = Vec::new();
        for (n, (record, state)) in self.records.iter().zip(&self.states).enumerate() {
            let known = states.get(&record.aggregate).copied();
            let now = match (state, known) {
                (RecordState::Delivered, _) => continue,
                (RecordState::Refused(_), _) | (_, Some(AggregateState::Blocked)) => AggregateState::Blocked,
                (RecordState::Open, None) => AggregateState::Next(self.topic(n)),
                (RecordState::Open, Some(next)) if next == AggregateState::Next(self.topic(n)) => next,
                (RecordState::Open, Some(_)) => AggregateState::Waiting,
            };
            if matches!(now, AggregateState::Next(_)) {
                wave.push(n);
            }
            states.insert(&record.aggregate, now);
        }
        wave
    }

    /// Every open record, for transactions.
    pub(crate) fn whole_wave(&self) -> Vec<usize> {
        let mut blocked: HashSet<&Aggregate> = HashSet::new();
        let mut wave = Vec::new();
        for (n, (record, state)) in self.records.iter().zip(&self.states).enumerate() {
            match state {
                RecordState::Refused(_) => drop(blocked.insert(&record.aggregate)),
                RecordState::Open if !blocked.contains(&record.aggregate) => wave.push(n),
                RecordState::Open | RecordState::Delivered => {}
            }
        }
        wave
    }

    /// The outcome of each record, given why open ones cannot be sent. Records that overtook an earlier one are sent
    /// again after it, so that the aggregate's last event is the right one.
    pub(crate) fn settle(self, why: &str) -> Settled {
        let mut states: HashMap<&Aggregate, AggregateState<'_>> = HashMap::new();
        let mut early = Vec::new();
        let unavailable = || Outcome::Unavailable { why: why.to_owned() };
        let is_whole = self.states.iter().all(|state| *state == RecordState::Delivered);
        if is_whole {
            return Settled { outcomes: vec![Outcome::Delivered; self.records.len()], early };
        }
        let mut outcomes = Vec::with_capacity(self.records.len());
        for (n, (record, state)) in self.records.iter().zip(self.states).enumerate() {
            let known = states.get(&record.aggregate).copied();
            outcomes.push(match (state, known) {
                (RecordState::Delivered, None) => Outcome::Delivered,
                (state, Some(AggregateState::Blocked)) => {
                    early.extend((state == RecordState::Delivered).then_some(n));
                    Outcome::Held
                }
                (RecordState::Refused(why), _) => {
                    states.insert(&record.aggregate, AggregateState::Blocked);
                    Outcome::Refused { why, is_permanent: true }
                }
                (state, _) => {
                    early.extend((state == RecordState::Delivered).then_some(n));
                    states.insert(&record.aggregate, AggregateState::Waiting);
                    unavailable()
                }
            });
        }
        Settled { outcomes, early }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::Route;
    use proptest::prelude::*;
    use tidemill_domain::lease::Epoch;
    use tidemill_domain::outbox::{EventId, Payload, Seq};
    use tidemill_domain::time::Timestamp;

    fn record(n: usize, aggregate: u8, topic: u8) -> Record {
        let aggregate = Aggregate { kind: "order".into(), id: aggregate.to_string() };
        let id = i64::try_from(n).unwrap() + 1;
        Record {
            id: EventId::new(id),
            table: None,
            slot: aggregate.slot(),
            epoch: Epoch::new(1),
            seq: Seq::new(id),
            aggregate,
            event_type: "order.paid".into(),
            topic: format!("t{topic}"),
            is_redirected: false,
            headers: Default::default(),
            payload: Payload::Tombstone,
            created_at: Timestamp::EPOCH,
        }
    }

    /// Aggregate, topic, and state: 0 open, 1 arrived, 2 rejected.
    fn batches() -> impl Strategy<Value = Vec<(u8, u8, u8)>> {
        prop::collection::vec((0_u8..4, 0_u8..3, 0_u8..3), 0..30)
    }

    #[test]
    fn where_somebody_has_redirected_an_event_it_goes_whatever_the_routes_say() {
        let records = [record(0, 1, 1), Record { is_redirected: true, ..record(1, 2, 1) }];
        let route = Route { event_type: "order.*".into(), topic: "orders".into() };
        let topics = Topics::new("", vec![route]).unwrap();

        let batch = Batch::new(&records, &topics);

        assert_eq!((batch.topic(0), batch.topic(1)), ("orders", "t1"));
    }

    fn check(cases: &[(u8, u8, u8)], test: impl FnOnce(&[Record], Batch<'_>)) {
        let records: Vec<Record> = cases
            .iter()
            .enumerate()
            .map(|(n, (aggregate, topic, _))| record(n, *aggregate, *topic))
            .collect();
        let topics = Topics::default();
        let mut batch = Batch::new(&records, &topics);
        for (n, (_, _, state)) in cases.iter().enumerate() {
            match state {
                1 => batch.deliver(n),
                2 => batch.refuse(n, "no".into()),
                _ => {}
            }
        }
        test(&records, batch);
    }

    proptest! {
        #[test]
        fn nothing_of_an_aggregate_counts_as_delivered_behind_what_was_not(cases in batches()) {
            check(&cases, |records, batch| {
                let settled = batch.settle("down");

                assert_eq!(settled.outcomes.len(), records.len());
                let mut stopped: HashMap<&Aggregate, bool> = HashMap::new();
                for (record, outcome) in records.iter().zip(&settled.outcomes) {
                    let before = stopped.get(&record.aggregate).copied();
                    match outcome {
                        Outcome::Delivered => assert_eq!(before, None),
                        Outcome::Held => assert_eq!(before, Some(true)),
                        Outcome::Refused { .. } => drop(stopped.insert(&record.aggregate, true)),
                        Outcome::Unavailable { .. } => {
                            assert_ne!(before, Some(true));
                            stopped.insert(&record.aggregate, false);
                        }
                    }
                }
                let delivered = settled.outcomes.iter().filter(|outcome| **outcome == Outcome::Delivered).count();
                let arrived = cases.iter().filter(|(_, _, state)| *state == 1).count();
                assert_eq!(delivered + settled.early.len(), arrived);
            });
        }

        #[test]
        fn a_wave_is_the_beginning_of_what_is_open_of_each_aggregate_in_one_topic(cases in batches()) {
            check(&cases, |records, batch| {
                let wave = batch.next_wave();

                for aggregate in 0..4 {
                    let all = || (0..cases.len()).filter(|n| cases[*n].0 == aggregate);
                    let open: Vec<usize> = all()
                        .take_while(|n| cases[*n].2 != 2)
                        .filter(|n| cases[*n].2 == 0)
                        .collect();
                    let mine: Vec<usize> = wave.iter().copied().filter(|n| cases[*n].0 == aggregate).collect();
                    let expected: Vec<usize> =
                        open.iter().copied().take_while(|n| cases[*n].1 == cases[open[0]].1).collect();
                    assert_eq!(mine, expected);
                }
                assert!(wave.windows(2).all(|pair| pair[0] < pair[1]) && wave.len() <= records.len());
            });
        }

        #[test]
        fn a_whole_wave_is_all_that_is_open_and_not_behind_a_refusal(cases in batches()) {
            check(&cases, |_, batch| {
                let wave = batch.whole_wave();

                for (n, (aggregate, _, state)) in cases.iter().enumerate() {
                    let is_blocked = cases[..n].iter().any(|(other, _, state)| other == aggregate && *state == 2);
                    assert_eq!(wave.contains(&n), *state == 0 && !is_blocked);
                }
                assert!(wave.windows(2).all(|pair| pair[0] < pair[1]));
            });
        }

        #[test]
        fn waves_bring_everything_that_may_be_sent_to_its_end(cases in batches()) {
            check(&cases, |_, mut batch| {
                let mut waves = 0;
                loop {
                    let wave = batch.next_wave();
                    if wave.is_empty() {
                        break;
                    }
                    wave.into_iter().for_each(|n| batch.deliver(n));
                    waves += 1;
                    assert!(waves <= cases.len());
                }
                let settled = batch.settle("down");
                assert!(!settled.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Unavailable { .. })));
            });
        }
    }
}
