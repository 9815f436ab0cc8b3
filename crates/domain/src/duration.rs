//! Durations as text: `500ms`, `15s`, `1m`, `1h30m`, `1d`.

use jiff::SpanRelativeTo;
use jiff::fmt::friendly::SpanParser;
use std::time::Duration;

/// Largest first, in milliseconds.
const UNITS: [(&str, u128); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// In bytes.
const LONGEST: usize = 64;

/// A million days. The parser accepts more minutes than days, so [`show`] could write what [`parse`] refuses.
const LIMIT: Duration = Duration::from_secs(1_000_000 * 86_400);

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadDuration {
    /// The unit of a bare number is not guessed.
    #[error("the number has no unit")]
    NoUnit,
    #[error("not a duration such as 500ms, 15s, 1h30m or 1d")]
    Malformed,
}

/// Whole numbers with `d`, `h`, `m`, `s` and `ms`, largest first, without spaces; at most a million days of 24 hours.
pub fn parse(text: &str) -> Result<Duration, BadDuration> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(BadDuration::NoUnit);
    }
    // The parser also accepts words, fractions, signs and smaller units, which are not documented.
    let is_documented = |byte: u8| byte.is_ascii_digit() || b"dhms".contains(&byte);
    if text.len() > LONGEST || !text.bytes().all(is_documented) {
        return Err(BadDuration::Malformed);
    }
    let span = SpanParser::new().parse_span(text).map_err(|_| BadDuration::Malformed)?;
    let duration =
        span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| BadDuration::Malformed)?;
    let duration = Duration::try_from(duration).map_err(|_| BadDuration::Malformed)?;
    if duration > LIMIT { Err(BadDuration::Malformed) } else { Ok(duration) }
}

/// Writes a duration in the form that [`parse`] reads, down to milliseconds.
pub fn show(duration: Duration) -> String {
    let mut left = duration.as_millis();
    let mut text = String::new();
    for (unit, millis) in UNITS {
        let count = left / millis;
        left %= millis;
        if count > 0 {
            text.push_str(&format!("{count}{unit}"));
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// A duration in its largest unit, for people: `3 min`.
pub fn span(length: Duration) -> String {
    match length.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// Serialises a duration as [`show`] writes it.
pub mod text {
    use super::{parse, show};
    use serde::{Deserialize, Deserializer, Serializer};
    use std::borrow::Cow;
    use std::time::Duration;

    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&show(*duration))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        parse(&text).map_err(serde::de::Error::custom)
    }
}

/// The same for an optional duration.
pub mod optional_text {
    use super::{parse, show};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::borrow::Cow;
    use std::time::Duration;

    pub fn serialize<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        duration.map(show).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let text = Option::<Cow<'de, str>>::deserialize(deserializer)?;
        text.map(|text| parse(&text)).transpose().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A failure prints its smallest input, so no file of regressions is needed.
    fn cases(count: u32) -> ProptestConfig {
        ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(count) }
    }

    #[test]
    fn the_documented_forms_are_read() {
        let check =
            |text: &str, millis: u64| assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");

        check("500ms", 500);
        check("15s", 15_000);
        check("1m", 60_000);
        check("1h30m", 5_400_000);
        check("1d", 86_400_000);
        check("1d1h1m1s1ms", 90_061_001);
        check("0s", 0);
        check("90m", 5_400_000);
    }

    #[test]
    fn other_forms_are_refused() {
        for text in [
            "", "s", "ms", "-1s", "+1s", "1.5h", "1 h", "1hour", "1h 30m", "30m1h", "1s1s", "1w", "1mo",
            "1us", "1S", "PT1H", "1h30", "١s", "1s\n", "1dd",
        ] {
            assert_eq!(parse(text), Err(BadDuration::Malformed), "{text:?}");
        }
        assert_eq!(parse("0"), Err(BadDuration::NoUnit));
        assert_eq!(parse("99999999999999999999d"), Err(BadDuration::Malformed));
    }

    #[test]
    fn more_than_a_million_days_are_refused_in_every_unit() {
        for text in ["1000000d", "1440000000m", "86400000000s"] {
            assert_eq!(parse(text), Ok(LIMIT), "{text}");
        }
        assert_eq!(show(LIMIT), "1000000d");
        for text in ["1000000d1ms", "1440000001m", "20000000000m"] {
            assert_eq!(parse(text), Err(BadDuration::Malformed), "{text}");
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        // Shifted, so that short and long ones are equally likely.
        let millis = (0..10_000 * 86_400_000_u64, 0..40).prop_map(|(millis, shift)| millis >> shift);

        proptest!(cases(4_000), |(millis in millis)| {
            let duration = Duration::from_millis(millis);

            prop_assert_eq!(parse(&show(duration)), Ok(duration));
        });
    }

    #[test]
    fn any_text_is_read_or_refused_without_a_panic_and_what_is_read_has_one_meaning() {
        proptest!(cases(20_000), |(text in "[0-9dhms .+PT한-]{0,24}")| {
            if let Ok(duration) = parse(&text) {
                prop_assert_eq!(parse(&show(duration)), Ok(duration));
            }
        });
    }

    #[test]
    fn units_add_up_and_a_bare_number_is_refused() {
        use crate::duration::{BadDuration, parse};
        use std::time::Duration;
        assert_eq!(parse("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse("15"), Err(BadDuration::NoUnit));
    }

    #[test]
    fn units_are_written_largest_first() {
        use crate::duration::show;
        use std::time::Duration;
        assert_eq!(show(Duration::from_millis(90_500)), "1m30s500ms");
        assert_eq!(show(Duration::ZERO), "0s");
    }
}
