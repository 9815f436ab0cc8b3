//! The three timeouts of a render: no node takes it, no change is seen, it takes too long. All are computed from stored
//! instants, so a new worker continues where the last one was.

use super::{Failure, Phase};
use crate::time::Timestamp;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clocks {
    /// How long a job may wait for a node.
    pub queue_timeout: Duration,
    /// After how long an alert tells that no node takes it.
    pub queue_told_after: Duration,
    /// How long no change may be seen. Must exceed the longest encoding, during which nodes report nothing.
    pub stall_timeout: Duration,
    /// Counted from when a node began.
    pub max_render_time: Duration,
}

impl Default for Clocks {
    fn default() -> Self {
        Self {
            queue_timeout: Duration::from_secs(30 * 60),
            queue_told_after: Duration::from_secs(5 * 60),
            stall_timeout: Duration::from_secs(5 * 60),
            max_render_time: Duration::from_secs(30 * 60),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    pub phase: Phase,
    /// Since when it is in nexrender's queue.
    pub submitted_at: Timestamp,
    /// When a node was first seen with it, since it was last in the queue.
    pub started_at: Option<Timestamp>,
    /// When state, progress or update time last changed.
    pub changed_at: Timestamp,
}

/// After so long without a change, the farm may have been away when the node reported the end.
const QUIET_AFTER: Duration = Duration::from_secs(10);

/// Whether to look for the film although the farm does not say that the job has ended.
pub fn is_quiet(seen: Seen, now: Timestamp) -> bool {
    seen.phase.is_remote() && now.since(seen.changed_at) >= QUIET_AFTER
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Fine,
    WaitsLong,
    /// Not picked, stalled or timed out.
    Over(Failure),
}

/// The timeouts count only while nexrender has the job.
pub fn look(seen: Seen, clocks: &Clocks, now: Timestamp) -> Verdict {
    if !seen.phase.is_remote() {
        return Verdict::Fine;
    }
    let has_passed = |since: Timestamp, limit: Duration| now.since(since) >= limit;
    // An interrupted node puts its job back into the queue.
    let Some(started_at) = seen.started_at.filter(|_| seen.phase != Phase::WaitingForNode) else {
        return if has_passed(seen.submitted_at, clocks.queue_timeout) {
            Verdict::Over(Failure::NotPicked)
        } else if has_passed(seen.submitted_at, clocks.queue_told_after) {
            Verdict::WaitsLong
        } else {
            Verdict::Fine
        };
    };
    if has_passed(started_at, clocks.max_render_time) {
        Verdict::Over(Failure::TimedOut)
    } else if has_passed(seen.changed_at.max(started_at), clocks.stall_timeout) {
        Verdict::Over(Failure::Stalled)
    } else {
        Verdict::Fine
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::EPOCH.plus(Duration::from_secs(seconds))
    }

    fn check(phase: Phase, started: Option<u64>, changed: u64, now: u64, verdict: Verdict) {
        let seen = Seen { phase, submitted_at: at(0), started_at: started.map(at), changed_at: at(changed) };

        assert_eq!(look(seen, &Clocks::default(), at(now)), verdict, "{seen:?} {now}");
    }

    #[test]
    fn who_waits_for_a_node_neither_stalls_nor_times_out() {
        check(Phase::WaitingForNode, None, 0, 299, Verdict::Fine);
        check(Phase::WaitingForNode, None, 0, 300, Verdict::WaitsLong);
        check(Phase::WaitingForNode, None, 0, 1_799, Verdict::WaitsLong);
    }

    #[test]
    fn what_a_node_has_put_back_waits_again() {
        check(Phase::WaitingForNode, Some(100), 200, 299, Verdict::Fine);
        check(Phase::WaitingForNode, Some(100), 200, 1_799, Verdict::WaitsLong);
    }

    #[test]
    fn the_time_of_the_render_counts_from_its_start_and_not_from_its_submission() {
        check(Phase::Rendering, Some(5_000), 6_799, 6_799, Verdict::Fine);
        check(Phase::Rendering, Some(5_000), 6_799, 6_800, Verdict::Over(Failure::TimedOut));
    }

    #[test]
    fn what_is_silent_for_too_long_has_stalled() {
        check(Phase::Encoding, Some(100), 200, 499, Verdict::Fine);
        check(Phase::Encoding, Some(100), 200, 500, Verdict::Over(Failure::Stalled));
        check(Phase::Validating, Some(100), 200, 1_000_000, Verdict::Fine);
    }

    #[test]
    fn a_job_of_which_nothing_is_heard_for_ten_seconds_is_quiet() {
        let seen = |phase, changed| Seen {
            phase,
            submitted_at: at(0),
            started_at: Some(at(100)),
            changed_at: at(changed),
        };

        assert!(!is_quiet(seen(Phase::Rendering, 200), at(209)));
        assert!(is_quiet(seen(Phase::Rendering, 200), at(210)));
        assert!(is_quiet(seen(Phase::WaitingForNode, 200), at(210)), "it missed the beginning, too");
        assert!(!is_quiet(seen(Phase::Validating, 200), at(210)));
    }

    #[test]
    fn nobody_waits_for_a_node_for_ever() {
        check(Phase::WaitingForNode, None, 0, 1_800, Verdict::Over(Failure::NotPicked));
        let clocks = Clocks { queue_timeout: Duration::from_secs(60), ..Clocks::default() };
        let seen =
            Seen { phase: Phase::WaitingForNode, submitted_at: at(0), started_at: None, changed_at: at(0) };

        assert_eq!(look(seen, &clocks, at(59)), Verdict::Fine);
        assert_eq!(look(seen, &clocks, at(60)), Verdict::Over(Failure::NotPicked));
    }

    proptest! {
        #[test]
        fn whoever_waits_for_a_node_is_never_told_from_one_that_no_node_ever_had(
            limit: u16, started: u16, changed: u16, now: u16,
        ) {
            let clocks = Clocks { queue_timeout: Duration::from_secs(limit.into()), ..Clocks::default() };
            let never = Seen {
                phase: Phase::WaitingForNode,
                submitted_at: at(0),
                started_at: None,
                changed_at: at(u64::from(changed)),
            };
            let put_back = Seen { started_at: Some(at(u64::from(started))), ..never };
            let now = at(u64::from(now));

            prop_assert_eq!(look(put_back, &clocks, now), look(never, &clocks, now));
        }

        #[test]
        fn whatever_a_node_has_is_over_within_the_longest_time(started in 0..1_000_u64, changed: u32, more: u32) {
            let seen = Seen {
                phase: Phase::Rendering,
                submitted_at: at(0),
                started_at: Some(at(started)),
                changed_at: at(u64::from(changed)),
            };
            let now = at(started + 1_800 + u64::from(more));
            prop_assert_eq!(look(seen, &Clocks::default(), now), Verdict::Over(Failure::TimedOut));
        }
    }
}
