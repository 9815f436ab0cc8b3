//! Made-up input that is the same in every run.

use std::io::Write;

/// A source of numbers that look random (SplitMix64).
pub(in super::super) struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    /// The next number.
    pub(in super::super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub(in super::super) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    /// One of these.
    pub(in super::super) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// A text of at most `longest` characters from `alphabet`.
    pub(in super::super) fn text(&mut self, alphabet: &str, longest: usize) -> String {
        let alphabet: Vec<char> = alphabet.chars().collect();
        (0..self.below(longest + 1)).map(|_| *self.pick(&alphabet)).collect()
    }
}

/// A test that fails has to say by which seed.
impl Drop for Random {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _told = writeln!(std::io::stderr(), "failed with seed {}", self.seed);
        }
    }
}

/// Runs `property` with the seeds below `count`.
pub(in super::super) fn for_all(count: u64, property: impl Fn(&mut Random)) {
    for seed in 0..count {
        property(&mut Random { seed, state: seed.wrapping_mul(0x5851_f42d_4c95_7f2d) });
    }
}
