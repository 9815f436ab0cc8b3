//! Why a render waits, and for how long.

use super::lifecycle::Render;
use super::phase::Status;
use crate::time::Timestamp;
use std::time::Duration;

/// The workers, by their own reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkerCapacity {
    /// Workers that were heard of lately.
    pub workers: u32,
    /// Those of them that take renders.
    pub working: u32,
    pub places: u32,
    pub free: u32,
}

impl WorkerCapacity {
    #[must_use]
    pub fn with(self, is_working: bool, places: u32, used: u32) -> Self {
        let workers = self.workers.saturating_add(1);
        if !is_working {
            return Self { workers, ..self };
        }
        Self {
            workers,
            working: self.working.saturating_add(1),
            places: self.places.saturating_add(places),
            free: self.free.saturating_add(places.saturating_sub(used)),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// A person has to look at its file.
    Approval,
    NextAttempt {
        at: Timestamp,
    },
    NotBefore {
        at: Timestamp,
    },
    NoWorker,
    NobodyTakes,
    NoPlace {
        places: u32,
    },
    Behind {
        ahead: u64,
    },
    Next,
}

crate::newtype::named!(Wait, as_str {
    Approval = "approval", NextAttempt = "next_attempt", NotBefore = "not_before", NoWorker = "no_worker", NobodyTakes = "workers_paused",
    NoPlace = "no_place", Behind = "behind_in_queue", Next = "next",
});

/// Why a pending render waits, with `ahead` others before it.
pub fn why(render: &Render, ahead: u64, hands: WorkerCapacity, now: Timestamp) -> Wait {
    if render.awaits_approval() {
        return Wait::Approval;
    }
    if render.run_after > now {
        let at = render.run_after;
        return if render.reason.is_some() { Wait::NextAttempt { at } } else { Wait::NotBefore { at } };
    }
    match () {
        () if hands.workers == 0 => Wait::NoWorker,
        () if hands.working == 0 => Wait::NobodyTakes,
        () if hands.free == 0 => Wait::NoPlace { places: hands.places },
        () if ahead >= u64::from(hands.free) => Wait::Behind { ahead },
        () => Wait::Next,
    }
}

/// When a render starts if each takes as long as earlier ones; none when unknown.
pub fn estimate(ahead: u64, hands: WorkerCapacity, each: Option<Duration>) -> Option<Duration> {
    let each = each?;
    let (free, places) = (u64::from(hands.free), u64::from(hands.places));
    if ahead < free {
        return Some(Duration::ZERO);
    }
    // After those that start now, a render waits until as many have ended as are ahead of it.
    let rounds = (ahead - free).checked_div(places)?.saturating_add(1);
    Some(each.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX)))
}

/// How a render stands against its deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Late {
    /// The deadline has passed: the render ended, or has waited, this long after it.
    By(Duration),
    /// It is expected to end this long after it.
    Expected(Duration),
}

/// None if there is no deadline, if it was kept or can be kept as far as is known, and for renders that failed or were
/// cancelled. `starts` is when a waiting render is expected to start, `each` how long a render takes.
pub fn late(
    render: &Render,
    completed_at: Option<Timestamp>,
    starts: Option<Timestamp>,
    each: Option<Duration>,
    now: Timestamp,
) -> Option<Late> {
    let deadline = render.deadline?;
    let after = |at: Timestamp| (at > deadline).then(|| at.since(deadline));
    match render.status {
        Status::Completed => after(completed_at?).map(Late::By),
        status if status.is_terminal() => None,
        _ => after(now).map(Late::By).or_else(|| after(starts?.plus(each?)).map(Late::Expected)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;
    use crate::render::RenderId;
    use crate::render::lifecycle::{Approval, Reason};
    use proptest::prelude::*;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn render(run_after: Timestamp) -> Render {
        Render { run_after, ..Render::new(RenderId::new(1), Timestamp::EPOCH) }
    }

    fn hands(working: u32, places: u32, free: u32) -> WorkerCapacity {
        WorkerCapacity { workers: working.max(1), working, places, free }
    }

    #[test]
    fn the_first_thing_in_the_way_is_named() {
        let check = |ahead, hands, expected| assert_eq!(why(&render(NOW), ahead, hands, NOW), expected);

        check(0, WorkerCapacity::default(), Wait::NoWorker);
        check(0, hands(0, 0, 0), Wait::NobodyTakes);
        check(0, hands(1, 4, 0), Wait::NoPlace { places: 4 });
        check(2, hands(1, 4, 2), Wait::Behind { ahead: 2 });
        check(1, hands(1, 4, 2), Wait::Next);
        let approval = Some(Approval::Awaiting);
        let asked = Render { approval, ..render(NOW.plus(Duration::from_secs(1))) };
        assert_eq!(why(&asked, 0, WorkerCapacity::default(), NOW), Wait::Approval, "no worker is needed");
    }

    #[test]
    fn what_is_put_off_waits_for_its_time_whoever_is_there() {
        let at = NOW.plus(Duration::from_secs(60));
        let mut later = render(at);
        assert_eq!(why(&later, 0, WorkerCapacity::default(), NOW), Wait::NotBefore { at });

        later.reason = Some(Reason { code: Code::Unexpected, message: "it broke".into() });
        assert_eq!(why(&later, 0, hands(1, 1, 1), NOW), Wait::NextAttempt { at });
        assert_eq!(why(&later, 0, hands(1, 1, 1), at), Wait::Next);
    }

    #[test]
    fn a_worker_that_takes_nothing_has_no_places() {
        let two = WorkerCapacity::default().with(true, 4, 1).with(false, 8, 0);

        assert_eq!(two, WorkerCapacity { workers: 2, working: 1, places: 4, free: 3 });
        assert_eq!(WorkerCapacity::default().with(true, 2, 5).free, 0);
    }

    #[test]
    fn a_render_is_late_when_its_deadline_has_passed_or_cannot_be_kept() {
        let seconds = Duration::from_secs;
        let after = |count| NOW.plus(seconds(count));
        let mut render = Render { deadline: Some(after(60)), ..render(NOW) };
        let each = Some(seconds(20));

        assert_eq!(late(&render, None, Some(after(40)), each, NOW), None);
        assert_eq!(late(&render, None, Some(after(50)), each, NOW), Some(Late::Expected(seconds(10))));
        assert_eq!(late(&render, None, Some(after(50)), None, NOW), None, "nothing is known");
        assert_eq!(late(&render, None, Some(after(70)), each, after(65)), Some(Late::By(seconds(5))));
        render.status = Status::Completed;
        assert_eq!(late(&render, Some(after(60)), None, each, after(500)), None);
        assert_eq!(late(&render, Some(after(61)), None, each, after(500)), Some(Late::By(seconds(1))));
        render.status = Status::Failed;
        assert_eq!(late(&render, None, None, each, after(500)), None);
        assert_eq!(late(&Render { deadline: None, ..render }, Some(after(61)), None, each, NOW), None);
    }

    proptest! {
        #[test]
        fn whoever_is_behind_others_does_not_begin_sooner(
            ahead in 0_u64..1_000, places in 0_u32..20, used in 0_u32..30, seconds in 0_u64..1_000
        ) {
            let (hands, each) = (WorkerCapacity::default().with(true, places, used), Some(Duration::from_secs(seconds)));
            let (first, second) = (estimate(ahead, hands, each), estimate(ahead + 1, hands, each));

            prop_assert!(first <= second, "{first:?} {second:?}");
            prop_assert_eq!(first.is_none(), places == 0);
            if why(&render(NOW), ahead, hands, NOW) == Wait::Next {
                prop_assert_eq!(first, Some(Duration::ZERO));
            }
        }
    }

    #[test]
    fn a_render_waits_for_as_many_ends_as_are_before_it() {
        use crate::render::wait::{WorkerCapacity, estimate};
        use std::time::Duration;
        let hands = WorkerCapacity::default().with(true, 2, 2);
        assert_eq!(estimate(3, hands, Some(Duration::from_secs(60))), Some(Duration::from_secs(120)));
        assert_eq!(estimate(3, hands, None), None);
    }
}
