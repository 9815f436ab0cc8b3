//! Random histories, right and wrong.

use super::*;
use crate::lease::Epoch;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What a relay has published: its records in order, of few aggregates.
#[derive(Clone, Debug)]
struct History {
    records: Vec<Published>,
}

impl History {
    /// One event for each of these aggregates.
    fn of(aggregates: &[u8]) -> Self {
        let mut seqs = BTreeMap::new();
        let records = aggregates.iter().zip(1..).map(|(aggregate, id)| {
            let aggregate = Aggregate { kind: "order".into(), id: format!("order-{aggregate}") };
            let slot = aggregate.slot();
            let seq = seqs.entry(slot).or_insert(Seq::ZERO);
            *seq = seq.next();
            Published { id: EventId::new(id), slot, epoch: Epoch::new(1), seq: *seq, aggregate }
        });
        Self { records: records.collect() }
    }

    /// An auditor that knows the table after all of it was read.
    fn table(&self) -> Auditor {
        let mut auditor = Auditor::default();
        auditor.begin();
        auditor.lowest = self.records.first().map(|record| record.id);
        for record in &self.records {
            auditor.slot(record.slot, record.seq);
            auditor.read(record.id);
        }
        auditor
    }
}

fn feed(auditor: &mut Auditor, records: &[Published]) {
    let line = auditor.records;
    for (record, line) in records.iter().zip(line + 1..) {
        auditor.published(Lane::default(), place(line), record);
    }
}

fn place(line: u64) -> Place {
    Place { file: 0, line }
}

fn line_of(n: usize) -> Place {
    place(u64::try_from(n).unwrap() + 1)
}

fn verdict(history: &History, records: &[Published]) -> Verdict {
    let mut auditor = history.table();
    feed(&mut auditor, records);
    assert_eq!(auditor.unconfirmed(), Vec::new());
    auditor.verdict()
}

fn histories() -> impl Strategy<Value = History> {
    prop::collection::vec(0..6_u8, 2..60).prop_map(|aggregates| History::of(&aggregates))
}

fn index() -> impl Strategy<Value = prop::sample::Index> {
    any::<prop::sample::Index>()
}

proptest! {
    /// Batches that are repeated in whole or in part, as after crashes.
    #[test]
    fn a_right_history_is_clean_and_repeats_are_counted(
        history in histories(),
        repeats in prop::collection::vec((index(), 1..10_usize), 0..6),
    ) {
        let mut sent = history.records.clone();
        let mut again = 0;
        for (end, count) in repeats {
            // What was sent before is sent again by the next owner, or late by a former one.
            let end = end.index(sent.len()) + 1;
            let batch: Vec<Published> = sent[end.saturating_sub(count)..end].to_vec();
            again += u64::try_from(batch.len()).unwrap();
            sent.splice(end..end, batch);
        }

        let verdict = verdict(&history, &sent);

        prop_assert!(verdict.is_clean(), "{}", verdict);
        prop_assert_eq!(verdict.repeated.count, again);
        prop_assert_eq!(verdict.events, u64::try_from(history.records.len()).unwrap());
        prop_assert_eq!((verdict.gaps.count, verdict.unknown.count, verdict.pending), (0, 0, 0));
    }

    #[test]
    fn what_is_missing_is_lost_and_leaves_a_gap(history in histories(), missing in index()) {
        let mut sent = history.records.clone();
        let dropped = sent.remove(missing.index(sent.len()));

        let verdict = verdict(&history, &sent);

        prop_assert!(!verdict.is_clean());
        prop_assert_eq!(verdict.lost, Findings { count: 1, first: vec![dropped.id] });
        prop_assert_eq!(verdict.gaps, Findings { count: 1, first: vec![(dropped.slot, dropped.seq)] });
        prop_assert_eq!(verdict.reordered.count, 0);
    }

    #[test]
    fn a_failed_event_excuses_what_is_missing(history in histories(), missing in index()) {
        let mut sent = history.records.clone();
        let dropped = sent.remove(missing.index(sent.len()));
        let mut auditor = history.table();
        auditor.failed_event(dropped.id, dropped.slot, dropped.seq, StateWord::Parked);
        feed(&mut auditor, &sent);

        prop_assert!(auditor.verdict().is_clean());
        prop_assert_eq!(auditor.verdict().excused, Excused { parked: 1, ..Excused::default() });
        prop_assert_eq!(auditor.verdict().gaps.count, 0);

        // The failed event is gone in the next round, and the record has not come.
        auditor.begin();
        auditor.lowest = Some(EventId::new(1));
        prop_assert_eq!(auditor.verdict().lost.first, vec![dropped.id]);
        feed(&mut auditor, &[dropped]);
        prop_assert_eq!(auditor.verdict().lost.count, 0);
    }

    #[test]
    fn neighbours_that_changed_places_are_reordered_if_they_are_of_one_aggregate(
        history in histories(),
        which in index(),
    ) {
        let mut sent = history.records.clone();
        let n = which.index(sent.len() - 1);
        sent.swap(n, n + 1);

        let verdict = verdict(&history, &sent);

        if sent[n].aggregate == sent[n + 1].aggregate {
            let late = sent[n + 1].clone();
            let expected = Reordered {
                aggregate: late.aggregate,
                id: late.id,
                place: line_of(n + 1),
                after: sent[n].id,
                after_place: line_of(n),
            };
            prop_assert_eq!(verdict.reordered, Findings { count: 1, first: vec![expected] });
        } else {
            prop_assert!(verdict.is_clean());
        }
        prop_assert_eq!(verdict.lost.count, 0);
    }

    #[test]
    fn what_came_again_is_told_with_its_place(history in histories(), which in index(), at in index()) {
        let mut sent = history.records.clone();
        let n = which.index(sent.len());
        let again = Published { epoch: Epoch::ZERO, ..sent[n].clone() };
        let at = n + 1 + at.index(sent.len() - n);
        sent.insert(at, again.clone());

        let verdict = verdict(&history, &sent);

        prop_assert!(verdict.is_clean());
        let repeated = Repeated { id: again.id, place: line_of(at) };
        prop_assert_eq!((verdict.repeated, verdict.repeated_events), (Findings { count: 1, first: vec![repeated] }, 1));
    }

    /// The end of the sink was cut off: what was read is lost, what was not is pending.
    #[test]
    fn what_was_cut_off_is_lost_only_if_it_counts_as_read(
        history in histories(),
        cut in index(),
        acknowledged in index(),
    ) {
        let (cut, acknowledged) = (cut.index(history.records.len()), acknowledged.index(history.records.len()));
        let mut auditor = Auditor::default();
        auditor.begin();
        auditor.lowest = Some(EventId::new(1));
        for (n, record) in history.records.iter().enumerate() {
            if n < acknowledged {
                auditor.slot(record.slot, record.seq);
                auditor.read(record.id);
            } else {
                auditor.pending(record.id);
            }
        }
        feed(&mut auditor, &history.records[..cut]);
        auditor.torn.push(line_of(cut));

        let verdict = auditor.verdict();
        let expected: Vec<EventId> =
            history.records.iter().take(acknowledged).skip(cut).map(|record| record.id).collect();
        prop_assert_eq!(verdict.lost.count, u64::try_from(expected.len()).unwrap());
        prop_assert!(expected.starts_with(&verdict.lost.first));
        prop_assert_eq!(verdict.gaps.count, verdict.lost.count);
        let pending = history.records.len() - acknowledged.max(cut);
        prop_assert_eq!(verdict.pending, u64::try_from(pending).unwrap());
        prop_assert_eq!(verdict.torn, Findings { count: 1, first: vec![line_of(cut)] });

        // The relays go on, and so does the auditor.
        for record in &history.records {
            auditor.slot(record.slot, record.seq);
            auditor.read(record.id);
        }
        feed(&mut auditor, &history.records[cut..]);
        prop_assert!(auditor.verdict().is_clean());
        prop_assert_eq!(auditor.verdict().pending, 0);
    }
}

#[test]
fn what_the_table_has_not_is_looked_up_and_then_unknown_or_forgotten() {
    let history = History::of(&[1, 1, 2, 2, 3]);
    let mut auditor = Auditor::default();
    auditor.begin();
    auditor.lowest = Some(EventId::new(3));
    auditor.read(EventId::new(3));
    feed(&mut auditor, &history.records);

    let mut strange = auditor.unconfirmed();
    strange.sort_unstable();
    assert_eq!(strange, [EventId::new(4), EventId::new(5)]);

    auditor.pending(EventId::new(4));
    let verdict = auditor.verdict();
    assert_eq!(verdict.unknown, Findings { count: 1, first: vec![EventId::new(5)] });
    assert_eq!((verdict.forgotten, verdict.pending), (2, 0));
    assert!(verdict.is_clean());
}

#[test]
fn aggregates_of_one_id_and_different_types_are_different() {
    let record = |id, kind: &str| Published {
        id: EventId::new(id),
        aggregate: Aggregate { kind: kind.into(), id: "1".into() },
        ..History::of(&[1]).records[0].clone()
    };
    let mut auditor = Auditor::default();

    feed(&mut auditor, &[record(2, "order"), record(1, "invoice")]);
    assert!(auditor.verdict().is_clean());

    feed(&mut auditor, &[record(3, "order"), record(5, "invoice"), record(4, "invoice")]);
    assert_eq!(auditor.verdict().reordered.count, 1);
}

#[test]
fn many_of_a_kind_are_counted_and_the_first_are_told() {
    let history = History::of(&[1; 50]);

    let verdict = verdict(&history, &[]);

    assert_eq!(verdict.lost.count, 50);
    assert_eq!(verdict.lost.first, (1..=20).map(EventId::new).collect::<Vec<_>>());
    assert_eq!(
        verdict.to_string(),
        "0 records of 0 events: 50 lost, 0 reordered, 0 duplicated, 0 unknown, 0 torn, 50 gaps, 0 pending, 0 excused"
    );
}

#[test]
fn between_two_lanes_there_is_no_order_and_within_one_there_is() {
    let history = History::of(&[1, 1, 1]);
    let [first, second, third] = [0, 1, 2].map(|n| history.records[n].clone());
    let mut auditor = history.table();

    auditor.published(Lane(0), Place { file: 0, line: 7 }, &third);
    auditor.published(Lane(1), Place { file: 1, line: 4 }, &second);
    let across = auditor.verdict();
    auditor.published(Lane(1), Place { file: 1, line: 5 }, &first);
    auditor.foreign += 1;
    let within = auditor.verdict();

    assert_eq!(across.reordered.count, 0);
    assert_eq!(within.reordered.count, 1);
    assert_eq!(within.reordered.first[0].after_place, Place { file: 1, line: 4 });
    assert_eq!((within.foreign, within.lost.count), (1, 0));
    assert!(within.to_string().ends_with(", 1 foreign"), "{within}");
}
