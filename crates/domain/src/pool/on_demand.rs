//! When a pool's command `on_demand` runs: outside of the band between two thresholds, and not again for a while.

use crate::time::Timestamp;
use std::time::Duration;

crate::words! {
    pub enum Direction {
        /// The pool needs more capacity.
        Up = "up",
        /// It can do with less.
        Down = "down",
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    /// With this many units or more, the command runs to add capacity.
    pub scale_up_at: u64,
    /// With this many units or fewer, it runs to remove capacity. Less than `scale_up_at`.
    pub scale_down_at: u64,
    /// The shortest time between two runs.
    pub hold: Duration,
}

/// The last run of the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DemandRun {
    pub direction: Direction,
    /// The demand that it was told.
    pub units: u64,
    pub at: Timestamp,
    /// False while it runs, and after a failure or a crash.
    pub succeeded: bool,
}

/// The direction in which the command has to run now, if it has to. It runs when the demand leaves the band, again when
/// the demand moves further away from it, and again after a failure. Before the first run, the capacity is assumed to be
/// at its minimum.
pub fn due(
    thresholds: &Thresholds,
    last: Option<&DemandRun>,
    units: u64,
    now: Timestamp,
) -> Option<Direction> {
    if last.is_some_and(|last| now.since(last.at) < thresholds.hold) {
        return None;
    }
    let is_new = |direction, is_further: fn(u64, u64) -> bool| match last {
        Some(last) => last.direction != direction || !last.succeeded || is_further(units, last.units),
        None => direction == Direction::Up,
    };
    if units >= thresholds.scale_up_at {
        Some(Direction::Up).filter(|up| is_new(*up, |units, last| units > last))
    } else if units <= thresholds.scale_down_at {
        Some(Direction::Down).filter(|down| is_new(*down, |units, last| units < last))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::tests::at;
    use proptest::prelude::*;

    const BAND: Thresholds =
        Thresholds { scale_up_at: 80, scale_down_at: 20, hold: Duration::from_secs(600) };

    fn run(direction: Direction, units: u64, succeeded: bool) -> DemandRun {
        DemandRun { direction, units, at: at(0), succeeded }
    }

    #[test]
    fn it_runs_when_the_demand_leaves_the_band_and_when_it_moves_further() {
        let check = |last: Option<DemandRun>, units: u64, expected: Option<Direction>| {
            assert_eq!(due(&BAND, last.as_ref(), units, at(600)), expected, "{last:?} {units}");
        };
        let (up, down) = (Some(Direction::Up), Some(Direction::Down));

        check(None, 79, None);
        check(None, 80, up);
        check(None, 0, None);
        for units in [21, 50, 79] {
            check(Some(run(Direction::Up, 100, false)), units, None);
            check(Some(run(Direction::Down, 10, false)), units, None);
        }
        let added = Some(run(Direction::Up, 100, true));
        check(added, 100, None);
        check(added, 90, None);
        check(added, 101, up);
        check(added, 20, down);
        let removed = Some(run(Direction::Down, 10, true));
        check(removed, 10, None);
        check(removed, 9, down);
        check(removed, 80, up);
    }

    #[test]
    fn a_failed_run_is_repeated_after_the_hold_time() {
        let failed = run(Direction::Up, 100, false);

        assert_eq!(due(&BAND, Some(&failed), 100, at(599)), None);
        assert_eq!(due(&BAND, Some(&failed), 100, at(600)), Some(Direction::Up));
    }

    proptest! {
        #[test]
        fn it_runs_only_outside_of_the_band_once_in_the_hold_time_and_once_for_the_same_demand(
            band in (0_u64..100, 1_u64..100),
            hold in 1_u64..1_000,
            demand in prop::collection::vec((0_u64..300, 0_u64..250, any::<bool>()), 1..200),
        ) {
            let (down, width) = band;
            let hold_for = Duration::from_secs(hold);
            let thresholds = Thresholds { scale_up_at: down + width, scale_down_at: down, hold: hold_for };
            let (mut now, mut last): (_, Option<DemandRun>) = (at(0), None);
            for (seconds, units, succeeded) in demand {
                now = now.plus(Duration::from_secs(seconds));
                let Some(direction) = due(&thresholds, last.as_ref(), units, now) else { continue };

                let is_outside = match direction {
                    Direction::Up => units >= thresholds.scale_up_at,
                    Direction::Down => units <= thresholds.scale_down_at,
                };
                prop_assert!(is_outside);
                if let Some(last) = last {
                    prop_assert!(now.since(last.at) >= hold_for);
                    prop_assert!((direction, units) != (last.direction, last.units) || !last.succeeded);
                } else {
                    prop_assert_eq!(direction, Direction::Up);
                }
                last = Some(DemandRun { direction, units, at: now, succeeded });
            }
        }
    }
}
