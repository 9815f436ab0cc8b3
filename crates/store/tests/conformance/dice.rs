//! What is random, by a seed.

use std::hash::{BuildHasher, RandomState};

/// Numbers that look random and follow from the seed (SplitMix64).
pub(super) struct Dice(u64);

/// A seed that nobody chose.
pub(super) fn seed() -> u64 {
    RandomState::new().hash_one(0) >> 8
}

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Less than `most`.
    pub(super) fn below(&mut self, most: u64) -> u64 {
        self.next() % most.max(1)
    }

    /// True in so many of a hundred cases.
    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(usize::try_from(self.below(from.len() as u64)).unwrap())
    }
}
