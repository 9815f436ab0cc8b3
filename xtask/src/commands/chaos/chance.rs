//! Random numbers that a seed repeats.

use std::hash::{BuildHasher, RandomState};

/// SplitMix64: small, and the same everywhere.
#[derive(Clone, Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A seed that is another one each time, short enough to be typed.
    pub(super) fn any_seed() -> u64 {
        RandomState::new().hash_one(0) % 1_000_000
    }

    /// A number below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_numbers_and_another_gives_others() {
        let draw = |seed| {
            let mut chance = Chance::new(seed);
            std::iter::repeat_with(|| chance.below(1000)).take(20).collect::<Vec<u64>>()
        };

        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(draw(1).iter().all(|number| *number < 1000));
    }
}
