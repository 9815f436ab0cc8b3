//! An exact frame rate: 30000/1001 is neither 30 nor 29.97.

use std::fmt;
use std::num::NonZeroU32;

/// Frames per second as a fraction in lowest terms.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rate {
    frames: NonZeroU32,
    seconds: NonZeroU32,
}

crate::newtype::parsed!(
    Rate, Rate::read, BadRate: "a rate is a whole number or a fraction, such as 25, 60 or 30000/1001"
);

impl Rate {
    pub fn new(frames: u32, seconds: u32) -> Result<Self, BadRate> {
        let divisor = greatest_common_divisor(frames, seconds);
        let part = |number: u32| number.checked_div(divisor).and_then(NonZeroU32::new).ok_or(BadRate);
        Ok(Self { frames: part(frames)?, seconds: part(seconds)? })
    }

    /// None for `0/0`, which ffprobe writes for an unknown rate.
    fn read(text: &str) -> Option<Self> {
        let (frames, seconds) = text.split_once('/').unwrap_or((text, "1"));
        let number = |digits: &str| {
            let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse::<u32>().ok().filter(|_| is_plain)
        };
        Self::new(number(frames)?, number(seconds)?).ok()
    }

    /// The rate that After Effects shows as this number: 29.97 is 30000/1001.
    pub fn near(per_second: f64) -> Option<Self> {
        if !(0.1..=1_000.0).contains(&per_second) {
            return None;
        }
        let is_near = |frames: f64, seconds: f64| (frames / seconds - per_second).abs() < 0.002;
        let fractions =
            [1.0, 1_001.0 / 1_000.0, 2.0].map(|seconds| ((per_second * seconds).round(), seconds));
        let near = fractions.into_iter().find(|(frames, seconds)| is_near(*frames, *seconds));
        let (frames, seconds) = near.unwrap_or((per_second, 1.0));
        Self::new((frames * 1_000.0).round() as u32, (seconds * 1_000.0).round() as u32).ok()
    }

    pub fn per_second(self) -> f64 {
        f64::from(self.frames.get()) / f64::from(self.seconds.get())
    }

    pub fn frame_seconds(self) -> f64 {
        1.0 / self.per_second()
    }
}

fn greatest_common_divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seconds.get() {
            1 => self.frames.fmt(f),
            seconds => write!(f, "{}/{seconds}", self.frames),
        }
    }
}

crate::newtype::serde_as_text!(Rate);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_fraction_is_refused() {
        for bad in ["", "0", "0/0", "30/0", "0/1", "29.97", "-30", "+30", "30/", "/1", "30/1/1", "4294967296"]
        {
            assert_eq!(bad.parse::<Rate>(), Err(BadRate), "{bad}");
        }
        assert_ne!("30000/1001".parse::<Rate>(), "30".parse());
        assert_eq!("30/1".parse::<Rate>(), "30".parse());
    }

    proptest! {
        #[test]
        fn rates_read_back_and_equal_ones_are_equal(frames in 1..100_000_u32, seconds in 1..2_000_u32, times in 1..40_u32) {
            let rate = Rate::new(frames, seconds).unwrap();
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
            prop_assert_eq!(Rate::new(frames * times, seconds * times), Ok(rate));
        }
    }

    #[test]
    fn the_rate_behind_a_shown_number_is_found() {
        let check = |shown: f64, rate: &str| assert_eq!(Rate::near(shown), rate.parse().ok(), "{shown}");

        check(30.0, "30");
        check(29.970_000_076_293_9, "30000/1001");
        check(23.976, "24000/1001");
        check(59.94, "60000/1001");
        check(12.5, "25/2");
        check(24.7, "247/10");
        for none in [0.0, -30.0, 1_001.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Rate::near(none), None);
        }
    }

    #[test]
    fn a_rate_is_a_fraction_in_lowest_terms() {
        use crate::render::rate::Rate;
        let ntsc: Rate = "60000/2002".parse().unwrap();
        assert_eq!(ntsc.to_string(), "30000/1001");
        assert!("29.97".parse::<Rate>().is_err());
    }
}
