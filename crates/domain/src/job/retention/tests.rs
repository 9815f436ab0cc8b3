//! Tests of retention.

use super::*;
use crate::job::BatchStatus::{Abandoned, Completed, Failed, Started, Starting, Stopped, Stopping, Unknown};
use proptest::collection::vec;
use proptest::prelude::*;

const DAY: Duration = Duration::from_secs(86_400);
const NOW: Timestamp = Timestamp::from_micros(1_000_000_000_000_000);

fn days(count: u32) -> Duration {
    DAY * count
}

fn older_than(age: Duration) -> Retention {
    Retention::new(Some(age), None, Unfinished::Keep).unwrap()
}

/// An instance that ended ten days ago and that nothing holds.
fn ended(statuses: &[BatchStatus]) -> InstanceFacts<'_> {
    InstanceFacts {
        statuses,
        last: statuses.last().map(|last| (*last, NOW.minus(days(10)))),
        is_held: false,
        is_restart_due: false,
        outer: &[],
        is_among_newest: false,
    }
}

#[test]
fn what_is_complete_or_given_up_goes_when_it_is_old_enough() {
    for statuses in [&[Completed][..], &[Abandoned], &[Failed, Stopped, Completed], &[Completed, Completed]] {
        let facts = ended(statuses);

        assert_eq!(decide(&older_than(days(9)), &facts, NOW), Ok(()), "{statuses:?}");
        assert_eq!(decide(&older_than(days(10)), &facts, NOW), Err(Kept::TooYoung), "{statuses:?}");
    }
}

#[test]
fn what_a_restart_could_finish_goes_only_when_that_is_asked_for() {
    let forgetting = Retention::new(Some(days(9)), None, Unfinished::Forget).unwrap();
    for statuses in [&[Failed][..], &[Stopped], &[Completed, Failed]] {
        assert_eq!(decide(&older_than(days(9)), &ended(statuses), NOW), Err(Kept::Unfinished));
        assert_eq!(decide(&forgetting, &ended(statuses), NOW), Ok(()));
    }
}

#[test]
fn what_lives_or_may_go_on_by_itself_is_never_forgotten() {
    let forgetting = Retention::new(Some(Duration::ZERO), Some(1), Unfinished::Forget).unwrap();
    for statuses in [&[Started][..], &[Starting], &[Stopping], &[Unknown], &[Unknown, Completed]] {
        assert_eq!(decide(&forgetting, &ended(statuses), NOW), Err(Kept::Unresolved), "{statuses:?}");
    }
    let failed = ended(&[Failed]);
    let due = InstanceFacts { is_restart_due: true, ..failed };
    let held = InstanceFacts { is_held: true, ..failed };

    assert_eq!(decide(&forgetting, &due, NOW), Err(Kept::RestartDue));
    assert_eq!(decide(&forgetting, &held, NOW), Err(Kept::Held));
    assert_eq!(decide(&forgetting, &ended(&[]), NOW), Err(Kept::NeverRan));
}

#[test]
fn what_ran_as_a_step_stays_while_the_job_around_it_may_go_on() {
    let facts = ended(&[Completed]);
    for outer in [Started, Failed, Stopped, Unknown] {
        let inner = InstanceFacts { outer: &[Completed, outer], ..facts };
        assert_eq!(decide(&older_than(days(9)), &inner, NOW), Err(Kept::NeededByOuter), "{outer}");
    }
    let inner = InstanceFacts { outer: &[Completed, Abandoned], ..facts };
    assert_eq!(decide(&older_than(days(9)), &inner, NOW), Ok(()));
}

#[test]
fn both_limits_have_to_be_passed() {
    let both = Retention::new(Some(days(9)), Some(5), Unfinished::Keep).unwrap();
    let newest = InstanceFacts { is_among_newest: true, ..ended(&[Completed]) };

    assert_eq!(decide(&both, &ended(&[Completed]), NOW), Ok(()));
    assert_eq!(decide(&both, &newest, NOW), Err(Kept::AmongNewest));
    // Without a number it does not matter.
    assert_eq!(decide(&older_than(days(9)), &newest, NOW), Ok(()));
}

#[test]
fn a_retention_that_would_keep_nothing_is_refused() {
    assert_eq!(Retention::new(None, None, Unfinished::Forget), Err(BadRetention::Unlimited));
    assert_eq!(Retention::new(Some(DAY), Some(0), Unfinished::Keep), Err(BadRetention::KeepsNone));
    assert!(!BadRetention::Unlimited.fix().is_empty());
}

#[test]
fn a_retention_says_what_it_keeps() {
    let said = |age: Option<u64>, keep, unfinished| {
        Retention::new(age.map(Duration::from_secs), keep, unfinished).unwrap().to_string()
    };

    assert_eq!(said(Some(86_400 * 90), None, Unfinished::Keep), "keeps what ended in the last 90 d");
    assert_eq!(said(None, Some(5), Unfinished::Keep), "keeps the newest 5 instances of each job");
    assert_eq!(
        said(Some(90), Some(5), Unfinished::Forget),
        "keeps what ended in the last 90 s and the newest 5 instances of each job, deletes what did not complete"
    );
}

fn status() -> impl Strategy<Value = BatchStatus> {
    proptest::sample::select(&BatchStatus::ALL[..])
}

proptest! {
    #[test]
    fn nothing_goes_that_somebody_could_need(
        statuses in vec(status(), 0..5),
        outer in vec(status(), 0..3),
        (is_held, is_restart_due, is_among_newest) in any::<(bool, bool, bool)>(),
        age in 0..400_u32,
        limits in (proptest::option::of(0..400_u32), proptest::option::of(1..10_u32)),
        is_forgetting in any::<bool>(),
    ) {
        let unfinished = if is_forgetting { Unfinished::Forget } else { Unfinished::Keep };
        let Ok(retention) = Retention::new(limits.0.map(days), limits.1, unfinished) else {
            return Ok(());
        };
        let facts = InstanceFacts {
            statuses: &statuses,
            last: statuses.last().map(|last| (*last, NOW.minus(days(age)))),
            is_held,
            is_restart_due,
            outer: &outer,
            is_among_newest,
        };

        let decision = decide(&retention, &facts, NOW);

        if decision.is_ok() {
            prop_assert!(statuses.iter().all(|s| !s.is_running() && *s != Unknown));
            prop_assert!(!statuses.is_empty() && !is_held && !is_restart_due);
            let last = statuses[statuses.len() - 1];
            prop_assert!(is_forgetting || matches!(last, Completed | Abandoned));
            prop_assert!(outer.iter().all(|s| matches!(s, Completed | Abandoned)));
            prop_assert!(limits.0.is_none_or(|limit| age > limit));
            prop_assert!(limits.1.is_none() || !is_among_newest);
            // An instance that may be deleted today may be deleted tomorrow.
            prop_assert_eq!(decide(&retention, &facts, NOW.plus(DAY)), Ok(()));
        }
    }

    #[test]
    fn a_longer_retention_never_forgets_more(
        statuses in vec(status(), 0..4),
        age in 0..400_u32,
        (short, more) in (0..400_u32, 0..400_u32),
    ) {
        let facts = InstanceFacts { last: statuses.last().map(|s| (*s, NOW.minus(days(age)))), ..ended(&statuses) };

        let (short, long) = (older_than(days(short)), older_than(days(short + more)));

        prop_assert!(decide(&long, &facts, NOW).is_err() || decide(&short, &facts, NOW).is_ok());
    }
}

#[test]
fn what_ended_within_the_age_is_kept() {
    use crate::job::{
        BatchStatus,
        retention::{self, InstanceFacts, Kept, Retention, Unfinished},
    };
    use crate::time::Timestamp;
    use std::time::Duration;
    let hour = Retention::new(Some(Duration::from_secs(3600)), None, Unfinished::Keep).unwrap();
    let completed = InstanceFacts {
        statuses: &[BatchStatus::Completed],
        last: Some((BatchStatus::Completed, Timestamp::EPOCH)),
        is_held: false,
        is_restart_due: false,
        outer: &[],
        is_among_newest: false,
    };
    let later = |secs| Timestamp::EPOCH.plus(Duration::from_secs(secs));
    assert_eq!(retention::decide(&hour, &completed, later(3600)), Err(Kept::TooYoung));
    assert_eq!(retention::decide(&hour, &completed, later(3601)), Ok(()));
}
