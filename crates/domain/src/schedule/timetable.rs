//! All ticks of a schedule: those of its cron expression, within its windows.

use super::{Cron, Outside, Window, Zone};
use crate::time::Timestamp;
use std::time::Duration;

/// Most windows tried for one tick: several years of daily ones.
const WINDOWS_PER_LOOK_MAX: u32 = 2000;

const RESOLUTION: Duration = Duration::from_micros(1);

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timetable {
    pub cron: Cron,
    pub zone: Zone,
    /// Empty means always.
    pub windows: Vec<Window>,
    pub outside: Outside,
}

impl Timetable {
    /// The first tick after this instant. None beyond the end of the calendar, or when no window has one for years.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let mut after = after;
        for _ in 0..WINDOWS_PER_LOOK_MAX {
            let tick = self.cron.next_after(after, &self.zone)?;
            if self.is_open(tick) {
                return Some(tick);
            }
            let opening = self.next_opening(tick)?;
            match self.outside {
                Outside::Defer => return Some(opening),
                // A tick at the very opening counts.
                Outside::Drop => after = opening.minus(RESOLUTION),
            }
        }
        None
    }

    /// The last tick in `first..end`; `first` is a tick.
    pub fn last_before(&self, first: Timestamp, end: Timestamp) -> Timestamp {
        // There is a tick in `low..end`, and none in `high..end`.
        let (mut low, mut high) = (first, end.max(first));
        let mut last = first;
        while high.as_micros() - low.as_micros() > 1 {
            let middle = Timestamp::from_micros(low.as_micros() + (high.as_micros() - low.as_micros()) / 2);
            match self.next_after(middle) {
                Some(tick) if tick < end => (last, low) = (tick, tick),
                Some(_) | None => high = middle,
            }
        }
        // Only the microsecond after `low` was not tried, and ticks are whole seconds apart.
        last
    }

    fn is_open(&self, tick: Timestamp) -> bool {
        self.windows.is_empty()
            || self
                .zone
                .local(tick)
                .is_some_and(|local| self.windows.iter().any(|window| window.contains(local)))
    }

    fn next_opening(&self, after: Timestamp) -> Option<Timestamp> {
        self.windows.iter().filter_map(|window| window.next_opening(after, &self.zone)).min()
    }
}
