//! Where a run begins and ends in each partition. The end is fixed when a step is first opened; later records are for
//! the next instance.

use super::progress::{Part, Progress};
use crate::consumer::{Bounds, Consumer};
use crate::failure::ReadFailure;
use std::collections::BTreeMap;
use std::str::FromStr;
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
                    return Err(consumer.gone(topic, *partition, part.next, bounds));
                }
            }
            Ok(progress)
        }
        Begin::Behind(before) => {
            fresh(consumer, topic, |partition, bounds| match before.parts.get(&partition) {
                Some(part) if covers(bounds, Part { next: part.next, end: part.next }) => Ok(part.next),
                Some(part) => Err(consumer.gone(topic, partition, part.next, bounds)),
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

#[cfg(test)]
mod tests {
    use super::*;

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
