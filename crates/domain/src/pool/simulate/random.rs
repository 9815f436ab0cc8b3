//! Repeatable random numbers. The generator is `SplitMix64`, so that any other program can draw the same numbers.

use std::f64::consts::PI;

#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
    /// The second of two normal numbers that are drawn together.
    spare: Option<f64>,
}

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self { state: seed, spare: None }
    }

    pub const fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to 1.
    pub fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// By Box and Muller: the cosine first, the sine at the next call.
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let (first, second) = (1.0 - self.unit(), self.unit());
        let (radius, angle) = ((-2.0 * first.ln()).sqrt(), 2.0 * PI * second);
        self.spare = Some(radius * angle.sin());
        radius * angle.cos()
    }

    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// The first value whose share is above a random number. Shares are added up: the last is 1.
    pub fn pick<T: Copy + Default>(&mut self, shares: &[(T, f64)]) -> T {
        let drawn = self.unit();
        shares.iter().find(|(_, share)| drawn < *share).map(|(value, _)| *value).unwrap_or_default()
    }
}
