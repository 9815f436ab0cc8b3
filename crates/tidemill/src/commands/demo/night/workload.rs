//! The batches of a night: when they arrive, what they request, and how long they take. Most arrive between one and three,
//! on a five-minute cron; a few are wide; half the parallelism takes nearly twice as long.

use std::f64::consts::TAU;
use std::num::NonZeroU32;
use std::time::Duration;

const BATCHES: usize = 1_200;

/// Median run in seconds of a batch with parallelism 8: about a third more than the databases can take at the peak.
const MEDIAN: f64 = 1_260.0;

/// Start-up in seconds, which is not parallel.
const START_UP: f64 = 90.0;

/// Begin and end of an interval in hours, and the share of batches that arrive before its end.
const ARRIVALS: [((f64, f64), f64); 4] =
    [((0.0, 1.0), 0.1), ((1.0, 3.0), 0.7), ((3.0, 6.0), 0.9), ((6.0, 7.5), 1.0)];

/// Parallelism, and the share of batches that request at most this.
const PARALLEL: [(u32, f64); 6] = [(1, 0.1), (2, 0.2), (4, 0.45), (8, 0.75), (16, 0.92), (32, 1.0)];

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Batch {
    pub(super) dag_id: String,
    pub(super) table: String,
    pub(super) database: &'static str,
    pub(super) arrives: Duration,
    pub(super) parallel: NonZeroU32,
    /// In seconds, with the requested parallelism.
    run: f64,
    /// Share of the work that is parallel.
    share: f64,
}

impl Batch {
    /// How long the batch takes with this parallelism.
    pub(super) fn takes(&self, parallel: NonZeroU32) -> Duration {
        let effort = |parallel: f64| (1.0 - self.share) + self.share / parallel;
        let work = (self.run - START_UP).max(1.0) / effort(f64::from(self.parallel.get()));
        Duration::from_secs_f64(START_UP + work * effort(f64::from(parallel.get())))
    }
}

/// All batches of a night, unsorted.
pub(super) fn night(seed: u64) -> Vec<Batch> {
    let mut random = Random(seed);
    (1..=BATCHES).map(|number| batch(number, &mut random)).collect()
}

fn batch(number: usize, random: &mut Random) -> Batch {
    let database = if number % 10 < 7 { "ADW" } else { "ERP" };
    let parallel = random.pick(&PARALLEL);
    let arrives = arrival(random);
    let median = MEDIAN * (f64::from(parallel) / 8.0).powf(0.2);
    let run = (median * (0.8 * random.normal()).exp()).clamp(180.0, 7_200.0);
    Batch {
        dag_id: format!("batch_{number:04}"),
        table: format!("TABLE_{:03}", number % 400),
        database,
        arrives: Duration::from_secs_f64(arrives),
        parallel: NonZeroU32::new(parallel).unwrap_or(NonZeroU32::MIN),
        run,
        share: 0.80 + 0.19 * random.unit(),
    }
}

/// In seconds after midnight. Three of four start by cron, a little late.
fn arrival(random: &mut Random) -> f64 {
    let (begin, end) = random.pick(&ARRIVALS);
    let at = (begin + (end - begin) * random.unit()) * 3_600.0;
    if random.unit() < 0.75 {
        let late = (-12.0 * (1.0 - random.unit()).ln()).min(60.0);
        return (at / 300.0).floor() * 300.0 + late;
    }
    at
}

/// Repeatable random numbers: SplitMix64, and the normal distribution by Box and Muller.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
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

    /// The first value whose share is above a random number.
    fn pick<T: Copy + Default>(&mut self, shares: &[(T, f64)]) -> T {
        let drawn = self.unit();
        shares.iter().find(|(_, share)| drawn < *share).map(|(value, _)| *value).unwrap_or_default()
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
