//! One turn of a schedule: which tick fires, which do not and why, and which is next.
//!
//! ```text
//!                 next_at > now            nothing changes
//!   next_at ≤ now, in time ───────────────► due
//!   next_at ≤ now - grace ── missed ──────► recorded; by policy, the newest is due
//!   due, an earlier one runs ─ overlap ───► recorded as skipped, or waits
//!   due, no room here ────────────────────► waits
//!   due ──────────────────────────────────► fires
//! ```
//!
//! A waiting tick is never missed. Each turn decides on one due tick; the caller repeats until nothing is due.

#[cfg(test)]
mod tests;

use super::{MissedRuns, Overlap, Plan, TickOutcome};
use crate::time::Timestamp;

/// Most ticks that one turn records. If more passed, only the newest of the rest is recorded, with a remark.
pub const PASSED_MAX: usize = 100;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScheduleState {
    /// The next undecided tick; none beyond the end of the calendar.
    pub next_at: Option<Timestamp>,
    /// The tick was due in time and waits.
    pub is_waiting: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Circumstances {
    pub now: Timestamp,
    pub is_earlier_running: bool,
    pub has_room: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passed {
    Missed,
    /// Too many were missed: those before this one are not recorded.
    MissedMany,
    Skipped,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PassedTick {
    pub at: Timestamp,
    pub why: Passed,
}

impl Passed {
    pub const fn outcome(self) -> TickOutcome {
        match self {
            Self::Missed | Self::MissedMany => TickOutcome::Missed,
            Self::Skipped => TickOutcome::Skipped,
        }
    }
}

crate::newtype::named!(Passed, reason {
    Missed = "no process fired it in time",
    MissedMany = "no process fired it in time; earlier ticks were missed too and are not recorded",
    Skipped = "an execution of an earlier tick had not ended",
});

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Turn {
    pub fires: Option<Timestamp>,
    pub passed: Vec<PassedTick>,
    pub state: ScheduleState,
}

pub fn decide(plan: &Plan, state: ScheduleState, circumstances: Circumstances) -> Turn {
    let now = circumstances.now;
    let next = |tick| plan.timetable.next_after(tick);
    let decided =
        |fires, passed, next_at| Turn { fires, passed, state: ScheduleState { next_at, is_waiting: false } };
    let Some(first) = state.next_at.filter(|next_at| *next_at <= now) else {
        return Turn { fires: None, passed: Vec::new(), state };
    };
    let (mut passed, up) =
        if state.is_waiting { (Vec::new(), Some(first)) } else { choose(plan, first, now) };
    let Some(tick) = up else {
        let last = passed.last().map_or(first, |passed| passed.at);
        return decided(None, passed, next(last));
    };
    if circumstances.is_earlier_running && plan.overlap == Overlap::Skip {
        passed.push(PassedTick { at: tick, why: Passed::Skipped });
        return decided(None, passed, next(tick));
    }
    let must_wait = circumstances.is_earlier_running && plan.overlap == Overlap::Wait;
    if must_wait || !circumstances.has_room {
        return Turn { fires: None, passed, state: ScheduleState { next_at: Some(tick), is_waiting: true } };
    }
    decided(Some(tick), passed, next(tick))
}

/// The missed ticks that do not fire, and the one that is due.
fn choose(plan: &Plan, first: Timestamp, now: Timestamp) -> (Vec<PassedTick>, Option<Timestamp>) {
    // A tick is missed when it is late by more than the grace.
    let in_time = now.minus(plan.grace);
    if first >= in_time {
        return (Vec::new(), Some(first));
    }
    let newest = plan.timetable.last_before(first, in_time);
    match plan.missed {
        MissedRuns::Skip => {
            let up = plan.timetable.next_after(newest).filter(|tick| *tick <= now);
            (passed(plan, first, newest), up)
        }
        MissedRuns::Latest => (passed_before(plan, first, newest), Some(newest)),
        MissedRuns::All { limit } => {
            let mut oldest = newest;
            for _ in 1..limit {
                if oldest <= first {
                    break;
                }
                oldest = plan.timetable.last_before(first, oldest);
            }
            (passed_before(plan, first, oldest), Some(oldest))
        }
    }
}

/// The ticks in `first..end`; `end` is a tick.
fn passed_before(plan: &Plan, first: Timestamp, end: Timestamp) -> Vec<PassedTick> {
    if first >= end {
        return Vec::new();
    }
    passed(plan, first, plan.timetable.last_before(first, end))
}

/// The ticks from `first` to `last`, both included.
fn passed(plan: &Plan, first: Timestamp, last: Timestamp) -> Vec<PassedTick> {
    let following = |tick: &Timestamp| plan.timetable.next_after(*tick);
    let ticks = std::iter::successors(Some(first), following).take_while(|tick| *tick <= last);
    let mut passed: Vec<PassedTick> =
        ticks.take(PASSED_MAX).map(|at| PassedTick { at, why: Passed::Missed }).collect();
    if let Some(newest) = passed.last_mut()
        && newest.at < last
    {
        *newest = PassedTick { at: last, why: Passed::MissedMany };
    }
    passed
}
