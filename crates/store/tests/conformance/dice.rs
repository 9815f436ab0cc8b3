//! What is random, by a seed.

use std::hash::{BuildHasher, RandomState};

/// Numbers that look random and follow from the seed (SplitMix64).
pub(crate) struct Dice(u64);

/// The variable that repeats a run, as far as those who take part come by in the same order.
const SEED: &str = "TIDEMILL_TEST_SEED";

/// The seed of the run that is to be repeated, or one that nobody chose.
pub(crate) fn seed() -> u64 {
    let given = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| RandomState::new().hash_one(0) >> 8)
}

/// How to repeat a run with this seed.
pub(crate) fn repeat(seed: u64) -> String {
    format!("repeat with {SEED}={seed}")
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `most`.
    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.next() % most.max(1)
    }

    /// True in so many of a hundred cases.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(usize::try_from(self.below(from.len() as u64)).unwrap())
    }
}
