//! Which partitions of a step run, given the partitioner's keys and earlier runs.
//!
//! Each partition is like a step: a completed one does not run again, a failed or stopped one continues. A partition that
//! did not complete continues even if the partitioner no longer returns it, for example because its file was moved.

use super::step::{self, LastStep, StepDecision, StepRefusal, StepRules};
use super::{BadName, BatchStatus, NAME_CHARS_MAX, check_name};
use crate::code::Code;
use std::collections::{BTreeMap, BTreeSet};

pub const PARTITIONS_MAX: usize = 100_000;

/// The name of the partition's step execution.
pub fn name(worker: &str, key: &str) -> String {
    format!("{worker}:{key}")
}

/// The step of a partition; the name itself for other steps.
pub fn worker_of(name: &str) -> &str {
    name.split_once(':').map_or(name, |(worker, _)| worker)
}

/// Divides `least..=greatest` into at most `count` inclusive ranges of about the same size, without gaps or overlaps.
///
/// ```
/// # use tidemill_domain::job::partition::ranges;
/// assert_eq!(ranges(1, 10, 3), [(1, 4), (5, 7), (8, 10)]);
/// assert_eq!(ranges(7, 8, 5), [(7, 7), (8, 8)]);
/// assert_eq!(ranges(2, 1, 4), []);
/// ```
pub fn ranges(least: i64, greatest: i64, count: usize) -> Vec<(i64, i64)> {
    let total = i128::from(greatest) - i128::from(least) + 1;
    if total <= 0 || count == 0 {
        return Vec::new();
    }
    let count = total.min(count as i128);
    let (size, larger) = (total / count, total % count);
    let mut from = i128::from(least);
    (0..count)
        .filter_map(|n| {
            let to = from + size + i128::from(n < larger) - 1;
            let range = (i64::try_from(from).ok()?, i64::try_from(to).ok()?);
            from = to + 1;
            Some(range)
        })
        .collect()
}

/// All keys; if the partitions are fixed and earlier executions had some, only those.
pub fn kept<'k>(keys: &[&'k str], before: &[KnownPartition], is_fixed: bool) -> Vec<&'k str> {
    let is_earlier = |known: &&KnownPartition| !known.last.is_of_this_execution;
    let earlier: BTreeSet<&str> = before.iter().filter(is_earlier).map(|known| known.key.as_str()).collect();
    let counts = |key: &&str| !is_fixed || earlier.is_empty() || earlier.contains(key);
    keys.iter().copied().filter(counts).collect()
}

/// A partition of an earlier run in this instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownPartition {
    pub key: String,
    pub last: LastStep,
    pub starts: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedPartition {
    pub key: String,
    pub decision: StepDecision,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionRefusal {
    #[error("there are {count} partitions; {PARTITIONS_MAX} are allowed")]
    TooMany { count: usize },
    #[error("the partition key {key:?} cannot be used: {why}")]
    BadKey { key: String, why: BadName },
    #[error("two partitions have the key {key:?}")]
    Twice { key: String },
    #[error("partition {key:?}: {why}")]
    Refused { key: String, why: StepRefusal },
}

impl PartitionRefusal {
    pub const fn code(&self) -> Code {
        match self {
            Self::TooMany { .. } | Self::BadKey { .. } | Self::Twice { .. } => Code::BadPartitions,
            Self::Refused { why, .. } => why.code(),
        }
    }
}

/// Decides on each partition: those in `keys`, in order, then unfinished earlier ones. Total.
pub fn plan(
    worker: &str,
    keys: &[&str],
    before: &[KnownPartition],
    rules: StepRules,
) -> Result<Vec<PlannedPartition>, PartitionRefusal> {
    if keys.len() > PARTITIONS_MAX {
        return Err(PartitionRefusal::TooMany { count: keys.len() });
    }
    let known: BTreeMap<&str, &KnownPartition> =
        before.iter().map(|known| (known.key.as_str(), known)).collect();
    let mut seen = BTreeSet::new();
    let mut planned = Vec::with_capacity(keys.len());
    for &key in keys {
        check_key(worker, key).map_err(|why| PartitionRefusal::BadKey { key: key.to_owned(), why })?;
        if !seen.insert(key) {
            return Err(PartitionRefusal::Twice { key: key.to_owned() });
        }
        planned.push(decide(key, known.get(key).copied(), rules)?);
    }
    // A flow that reaches the step again starts afresh, so partitions of this execution do not count.
    let is_unfinished = |known: &&KnownPartition| {
        let is_over = matches!(known.last.status, BatchStatus::Completed | BatchStatus::Abandoned);
        !known.last.is_of_this_execution && !is_over
    };
    for known in before.iter().filter(is_unfinished).filter(|known| !seen.contains(known.key.as_str())) {
        planned.push(decide(&known.key, Some(known), rules)?);
    }
    Ok(planned)
}

/// The name has to fit the column for names of steps.
fn check_key(worker: &str, key: &str) -> Result<(), BadName> {
    check_name(key)?;
    if name(worker, key).chars().count() > NAME_CHARS_MAX { Err(BadName::TooLong) } else { Ok(()) }
}

fn decide(
    key: &str,
    known: Option<&KnownPartition>,
    rules: StepRules,
) -> Result<PlannedPartition, PartitionRefusal> {
    let last = known.map(|known| known.last);
    let starts = known.map_or(0, |known| known.starts);
    match step::decide(last, starts, rules) {
        Ok(decision) => Ok(PlannedPartition { key: key.to_owned(), decision }),
        Err(why) => Err(PartitionRefusal::Refused { key: key.to_owned(), why }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_map, btree_set};
    use proptest::prelude::*;

    fn statuses() -> impl Strategy<Value = BatchStatus> {
        (0..BatchStatus::ALL.len()).prop_map(|index| BatchStatus::ALL[index])
    }

    fn before(status: BatchStatus) -> LastStep {
        LastStep { status, is_of_this_execution: false }
    }

    fn refused(keys: &[&str]) -> PartitionRefusal {
        plan("load", keys, &[], StepRules::default()).unwrap_err()
    }

    #[test]
    fn what_cannot_be_told_apart_or_stored_is_refused() {
        let long = "k".repeat(100);

        assert_eq!(refused(&["a", "b", "a"]), PartitionRefusal::Twice { key: "a".into() });
        assert!(matches!(refused(&[""]), PartitionRefusal::BadKey { .. }));
        assert!(matches!(refused(&[&long]), PartitionRefusal::BadKey { .. }));
        assert!(matches!(refused(&["a\nb"]), PartitionRefusal::BadKey { .. }));
        assert_eq!(refused(&["a", "a"]).code(), Code::BadPartitions);
        let many = vec!["x"; PARTITIONS_MAX + 1];
        assert!(matches!(refused(&many), PartitionRefusal::TooMany { .. }));
    }

    #[test]
    fn fixed_partitions_are_those_of_the_first_run() {
        let ran = [KnownPartition { key: "a".into(), last: before(BatchStatus::Failed), starts: 1 }];

        assert_eq!(kept(&["a", "b"], &ran, true), ["a"]);
        assert_eq!(kept(&["a", "b"], &ran, false), ["a", "b"]);
        assert_eq!(kept(&["a", "b"], &[], true), ["a", "b"]);
        let now = LastStep { status: BatchStatus::Failed, is_of_this_execution: true };
        let again = [KnownPartition { key: "a".into(), last: now, starts: 1 }];
        assert_eq!(kept(&["a", "b"], &again, true), ["a", "b"], "a flow that comes by again divides anew");
    }

    #[test]
    fn one_that_nobody_can_say_the_end_of_stops_all() {
        let unknown = KnownPartition { key: "a".into(), last: before(BatchStatus::Unknown), starts: 1 };

        let refusal = plan("load", &["b"], &[unknown], StepRules::default()).unwrap_err();

        assert_eq!(
            refusal.to_string(),
            "partition \"a\": the outcome of the step's last execution is unknown"
        );
    }

    #[test]
    fn the_step_of_a_partition_is_found_by_its_name() {
        assert_eq!(worker_of(&name("load", "2026-01")), "load");
        assert_eq!(worker_of("plain"), "plain");
    }

    proptest! {
        #[test]
        fn ranges_cover_everything_once(least: i64, greatest: i64, count in 1_usize..50) {
            let ranges = ranges(least, greatest, count);
            if least > greatest {
                prop_assert!(ranges.is_empty());
                return Ok(());
            }
            prop_assert!(ranges.len() <= count);
            prop_assert_eq!((ranges[0].0, ranges[ranges.len() - 1].1), (least, greatest));
            for pair in ranges.windows(2) {
                prop_assert_eq!(i128::from(pair[0].1) + 1, i128::from(pair[1].0));
            }
            let size = |(from, to): &(i64, i64)| i128::from(*to) - i128::from(*from) + 1;
            let sizes: Vec<i128> = ranges.iter().map(size).collect();
            prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
            prop_assert!(*sizes.iter().min().unwrap() >= 1);
        }

        #[test]
        fn nothing_is_forgotten_and_nothing_complete_is_repeated(
            keys in btree_set("[a-e]", 0..5),
            ran in btree_map("[a-h]", (statuses(), any::<bool>(), 1_u64..4), 0..8),
        ) {
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            let ran: Vec<KnownPartition> = ran
                .into_iter()
                .map(|(key, (status, is_of_this_execution, starts))| {
                    KnownPartition { key, last: LastStep { status, is_of_this_execution }, starts }
                })
                .collect();
            let Ok(planned) = plan("load", &keys, &ran, StepRules::default()) else {
                prop_assert!(ran.iter().any(|known| known.last == before(BatchStatus::Unknown)));
                return Ok(());
            };
            let of = |key: &str| planned.iter().find(|planned| planned.key == key).map(|planned| planned.decision);
            for key in &keys {
                prop_assert!(of(key).is_some());
            }
            for known in &ran {
                let expected = match known.last.status {
                    _ if known.last.is_of_this_execution => {
                        keys.contains(&&*known.key).then_some(StepDecision::RunFresh)
                    }
                    BatchStatus::Completed => keys.contains(&&*known.key).then_some(StepDecision::SkipCompleted),
                    BatchStatus::Abandoned => keys.contains(&&*known.key).then_some(StepDecision::SkipAbandoned),
                    _ => Some(StepDecision::Resume),
                };
                prop_assert_eq!(of(&known.key), expected);
            }
            let names: BTreeSet<&str> = planned.iter().map(|planned| planned.key.as_str()).collect();
            prop_assert_eq!(names.len(), planned.len());
        }
    }

    #[test]
    fn what_completed_is_passed_over_and_what_failed_goes_on() {
        use crate::job::step::LastStep;
        use crate::job::{
            BatchStatus,
            partition::{self, KnownPartition},
            step::{StepDecision, StepRules},
        };
        let last = |status| LastStep { status, is_of_this_execution: false };
        let known = |key: &str, status| KnownPartition { key: key.into(), last: last(status), starts: 1 };
        let before = [known("a", BatchStatus::Completed), known("b", BatchStatus::Failed)];
        let plan = partition::plan("load", &["a", "b", "c"], &before, StepRules::default()).unwrap();
        let decisions: Vec<_> = plan.iter().map(|planned| planned.decision).collect();
        assert_eq!(decisions, [StepDecision::SkipCompleted, StepDecision::Resume, StepDecision::RunFresh]);
    }
}
