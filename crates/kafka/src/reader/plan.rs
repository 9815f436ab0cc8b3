//! Where a run begins and ends in each partition, and how far it got. The end is fixed when a step is first opened;
//! later records are for the next instance.
//!
//! The progress is saved in the execution context, so a restart resumes after the last committed chunk and ends where the
//! first run would have. Its keys, prefixed with the reader's name: `.topic`; `.offsets`, next and end by partition;
//! `.total`.

use crate::consumer::{Bounds, Consumer};
use crate::failure::ReadFailure;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::str::FromStr;
use tidemill_domain::job::ExecutionContext;
use tidemill_domain::time::Timestamp;

/// Where a first run begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum From {
    /// The first available record.
    #[default]
    Earliest,
    /// The end of the topic: reads nothing, and later instances continue from here.
    Latest,
    /// The first record at or after this instant.
    Since(Timestamp),
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a topic is read from earliest, from latest, or from an instant such as 2026-11-15T00:00:00Z on, not from {0:?}"
)]
pub struct BadFrom(String);

/// A date, or an instant without a zone, is one of UTC.
///
/// ```
/// # use tidemill_kafka::From;
/// assert_eq!("earliest".parse(), Ok(From::Earliest));
/// assert_eq!("2026-11-15".parse::<From>(), "2026-11-15T00:00:00Z".parse());
/// assert!("yesterday".parse::<From>().is_err());
/// ```
impl FromStr for From {
    type Err = BadFrom;

    fn from_str(text: &str) -> Result<Self, BadFrom> {
        let instant = |text: &str| text.parse().map(Self::Since);
        match text {
            "earliest" => Ok(Self::Earliest),
            "latest" => Ok(Self::Latest),
            _ => instant(text)
                .or_else(|_| instant(&format!("{text}T00:00:00Z")))
                .or_else(|_| instant(&format!("{text}Z")))
                .map_err(|_| BadFrom(text.chars().take(100).collect())),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Begin {
    /// Where the last run of the same instance stopped.
    Restart(Progress),
    /// Where the previous instance ended.
    Behind(Progress),
    At(From),
}

pub(super) fn plan(consumer: &Consumer, topic: &str, begin: Begin) -> Result<Progress, ReadFailure> {
    match begin {
        Begin::Restart(progress) => {
            for (partition, part) in progress.parts.iter().filter(|(_, part)| part.next < part.end) {
                let bounds = consumer.bounds(topic, *partition)?;
                if !covers(bounds, *part) {
                    return Err(bounds.gone(topic, *partition, part.next));
                }
            }
            Ok(progress)
        }
        Begin::Behind(before) => {
            fresh(consumer, topic, |partition, bounds| match before.parts.get(&partition) {
                Some(part) if covers(bounds, Part { next: part.next, end: part.next }) => Ok(part.next),
                Some(part) => Err(bounds.gone(topic, partition, part.next)),
                // A new partition: read all of it.
                None => Ok(bounds.first),
            })
        }
        Begin::At(from) => fresh(consumer, topic, |partition, bounds| {
            Ok(match from {
                From::Earliest => bounds.first,
                From::Latest => bounds.end,
                From::Since(instant) => {
                    let found = consumer.since(topic, partition, instant)?.unwrap_or(bounds.end);
                    found.clamp(bounds.first, bounds.end.max(bounds.first))
                }
            })
        }),
    }
}

/// All existing partitions, from `next` to their current end.
fn fresh(
    consumer: &Consumer,
    topic: &str,
    next: impl Fn(i32, Bounds) -> Result<i64, ReadFailure>,
) -> Result<Progress, ReadFailure> {
    let mut parts = BTreeMap::new();
    for partition in consumer.partitions(topic)? {
        let bounds = consumer.bounds(topic, partition)?;
        parts.insert(partition, Part { next: next(partition, bounds)?, end: bounds.end });
    }
    Ok(Progress::new(topic, parts))
}

/// Whether the broker still has all of it: nothing was cut off at either end.
fn covers(bounds: Bounds, part: Part) -> bool {
    bounds.first <= part.next && part.end <= bounds.end
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Progress {
    pub(super) topic: String,
    /// Offsets to read when the run began.
    pub(super) total: u64,
    pub(super) parts: BTreeMap<i32, Part>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    /// The first unread offset.
    pub(super) next: i64,
    /// Exclusive.
    pub(super) end: i64,
}

impl Progress {
    pub(super) fn new(topic: &str, parts: BTreeMap<i32, Part>) -> Self {
        let left = |part: &Part| u64::try_from(part.end - part.next).unwrap_or(0);
        Self { topic: topic.to_owned(), total: parts.values().map(left).sum(), parts }
    }

    pub(super) fn passed(&mut self, partition: i32, offset: i64) {
        if let Some(part) = self.parts.get_mut(&partition) {
            part.next = offset + 1;
        }
    }

    pub(super) fn finished(&mut self, partition: i32) {
        if let Some(part) = self.parts.get_mut(&partition) {
            part.next = part.end;
        }
    }

    pub(super) fn save(&self, reader: &str, context: &mut ExecutionContext) {
        let offsets: Map<String, Value> = self
            .parts
            .iter()
            .map(|(partition, part)| (partition.to_string(), json!([part.next, part.end])))
            .collect();
        context.put(&key(reader, "topic"), self.topic.as_str());
        context.put(&key(reader, "offsets"), offsets);
        context.put(&key(reader, "total"), self.total);
    }

    /// `None` if nothing was saved.
    pub(super) fn saved(reader: &str, context: &ExecutionContext) -> Result<Option<Self>, ReadFailure> {
        let Some(offsets) = context.get(&key(reader, "offsets")) else { return Ok(None) };
        let read = || {
            let parts = offsets.as_object()?.iter().map(|(partition, part)| {
                let [next, end] = part.as_array()?.as_slice() else { return None };
                Some((partition.parse().ok()?, Part { next: next.as_i64()?, end: end.as_i64()? }))
            });
            Some(Self {
                topic: context.get_text(&key(reader, "topic"))?.to_owned(),
                total: context.get(&key(reader, "total"))?.as_u64()?,
                parts: parts.collect::<Option<_>>()?,
            })
        };
        read().map(Some).ok_or_else(|| ReadFailure::Saved { reader: reader.to_owned() })
    }
}

pub(super) fn key(reader: &str, part: &str) -> String {
    format!("{reader}.{part}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_saved_reads_back(
            parts in prop::collection::btree_map(0..10_000_i32, (0..i64::MAX / 2, 0..1_000_000_i64), 0..50),
        ) {
            let parts = parts
                .into_iter()
                .map(|(partition, (next, more))| (partition, Part { next, end: next + more }))
                .collect();
            let progress = Progress::new("orders", parts);
            let mut context = ExecutionContext::new();

            progress.save("read", &mut context);

            prop_assert_eq!(Progress::saved("read", &context), Ok(Some(progress)));
        }
    }

    #[test]
    fn nothing_saved_is_a_first_run_and_nonsense_is_refused() {
        let mut context = ExecutionContext::new();
        assert_eq!(Progress::saved("read", &context), Ok(None));

        for nonsense in [json!(7), json!({ "0": [1] }), json!({ "x": [1, 2] }), json!({ "0": [1, "2"] })] {
            context.put("read.topic", "orders");
            context.put("read.total", 1);
            context.put("read.offsets", nonsense);
            assert!(Progress::saved("read", &context).is_err());
        }
    }

    #[test]
    fn a_partition_is_passed_record_by_record_and_finished_at_its_end() {
        let part = Part { next: 5, end: 9 };
        let mut progress = Progress::new("orders", BTreeMap::from([(0, part), (1, part)]));

        progress.passed(0, 5);
        progress.finished(1);

        assert_eq!(progress.total, 8);
        assert_eq!(
            progress.parts,
            BTreeMap::from([(0, Part { next: 6, end: 9 }), (1, Part { next: 9, end: 9 })])
        );
    }

    #[test]
    fn a_part_is_covered_when_neither_of_its_ends_is_gone() {
        let bounds = Bounds { first: 10, end: 20 };

        for (next, end, expected) in
            [(10, 20, true), (12, 12, true), (20, 20, true), (9, 20, false), (10, 21, false)]
        {
            assert_eq!(covers(bounds, Part { next, end }), expected, "{next} to {end}");
        }
    }
}
