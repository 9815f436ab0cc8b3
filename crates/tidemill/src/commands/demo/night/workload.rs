//! The batches of a night: when they come, what they ask for, and how long they take. Most come between one and three, on
//! the marks of a five-minute cron; a few are wide; half of the parallelism takes nearly twice as long.

use std::f64::consts::TAU;
use std::num::NonZeroU32;
use std::time::Duration;

const BATCHES: usize = 1_200;

/// The median run of a batch that asks for eight, in seconds: about a third more than the databases can take at the peak.
const MEDIAN: f64 = 1_260.0;

/// What is not done in parallel: starting up, in seconds.
const START_UP: f64 = 90.0;

/// Begin and end of an interval in hours, and the share of the batches that come by its end.
const ARRIVALS: [(f64, f64, f64); 4] = [(0.0, 1.0, 0.1), (1.0, 3.0, 0.7), (3.0, 6.0, 0.9), (6.0, 7.5, 1.0)];

/// What they ask for, and the share that asks for no more.
const PARALLEL: [(u32, f64); 6] = [(1, 0.1), (2, 0.2), (4, 0.45), (8, 0.75), (16, 0.92), (32, 1.0)];

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Batch {
    pub(super) dag_id: String,
    pub(super) table: String,
    pub(super) database: &'static str,
    pub(super) arrives: Duration,
    pub(super) parallel: NonZeroU32,
    /// In seconds, with what it asks for.
    run: f64,
    /// Of its work, how much can be done in parallel.
    share: f64,
}

impl Batch {
    /// How long it takes with this much.
    pub(super) fn takes(&self, parallel: NonZeroU32) -> Duration {
        let effort = |parallel: f64| (1.0 - self.share) + self.share / parallel;
        let work = (self.run - START_UP).max(1.0) / effort(f64::from(self.parallel.get()));
        Duration::from_secs_f64(START_UP + work * effort(f64::from(parallel.get())))
    }
}

/// All batches of a night, in no order.
pub(super) fn night(seed: u64) -> Vec<Batch> {
    let mut chance = Chance { state: seed };
    (1..=BATCHES).map(|number| batch(number, &mut chance)).collect()
}

fn batch(number: usize, chance: &mut Chance) -> Batch {
    let database = if number % 10 < 7 { "ADW" } else { "ERP" };
    let parallel = chance.pick(&PARALLEL);
    let arrives = arrival(chance);
    let median = MEDIAN * (f64::from(parallel) / 8.0).powf(0.2);
    let run = (median * (0.8 * chance.normal()).exp()).clamp(180.0, 7_200.0);
    Batch {
        dag_id: format!("batch_{number:04}"),
        table: format!("TABLE_{:03}", number % 400),
        database,
        arrives: Duration::from_secs_f64(arrives),
        parallel: NonZeroU32::new(parallel).unwrap_or(NonZeroU32::MIN),
        run,
        share: 0.80 + 0.19 * chance.unit(),
    }
}

/// In seconds after midnight. Three of four sit on a mark of the cron, a little late.
fn arrival(chance: &mut Chance) -> f64 {
    let drawn = chance.unit();
    let (begin, end, _) = ARRIVALS.into_iter().find(|(.., share)| drawn < *share).unwrap_or((0.0, 1.0, 1.0));
    let at = (begin + (end - begin) * chance.unit()) * 3_600.0;
    if chance.unit() < 0.75 {
        let late = (-12.0 * (1.0 - chance.unit()).ln()).min(60.0);
        return (at / 300.0).floor() * 300.0 + late;
    }
    at
}

/// Chance that is the same every night: SplitMix64, and Box and Muller's way to the bell curve.
struct Chance {
    state: u64,
}

impl Chance {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (first, second) = (1.0 - self.unit(), self.unit());
        (-2.0 * first.ln()).sqrt() * (TAU * second).cos()
    }

    fn pick(&mut self, shares: &[(u32, f64)]) -> u32 {
        let drawn = self.unit();
        shares.iter().find(|(_, share)| drawn < *share).map_or(1, |(value, _)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_night_is_the_same_every_time_and_busiest_after_one() {
        let batches = night(1);

        assert_eq!(batches, night(1));
        assert_ne!(batches, night(2));
        let hours = |from: u64, to: u64| {
            let within = Duration::from_secs(from * 3_600)..Duration::from_secs(to * 3_600);
            batches.iter().filter(|batch| within.contains(&batch.arrives)).count()
        };
        assert!(hours(1, 3) > BATCHES / 2);
        assert_eq!(hours(0, 8), BATCHES);
    }

    #[test]
    fn less_parallelism_takes_longer() {
        for batch in night(3) {
            let asked = batch.takes(batch.parallel);
            assert!(batch.takes(NonZeroU32::MIN) >= asked);
            assert!(asked >= Duration::from_secs(90) && asked <= Duration::from_secs(7_201));
        }
    }
}
