//! Parses texts, as files have them, into values of other types. No part of a text is dropped.

use jiff::civil::{Date, DateTime, Time};
use std::str::FromStr;
use tidemill_domain::item::Decimal;

/// The words that PostgreSQL accepts.
pub(super) fn bool_of(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
        _ => None,
    }
}

pub(super) fn parsed<T: FromStr>(text: &str) -> Option<T> {
    text.trim().parse().ok()
}

/// `None` if it has a fraction.
pub(super) fn long_of_decimal(decimal: &Decimal) -> Option<i64> {
    super::numeric::normalised(decimal).parse().ok()
}

/// The parser would also accept a date with a time, and drop the time.
pub(super) fn date_of(text: &str) -> Option<Date> {
    let text = text.trim();
    if text.contains([':', 'T', 't', ' ', '[']) { None } else { text.parse().ok() }
}

/// Without a date or an offset.
pub(super) fn time_of(text: &str) -> Option<Time> {
    let text = text.trim();
    if text.contains(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')) {
        None
    } else {
        text.parse().ok()
    }
}

/// Without an offset, which the parser would drop.
pub(super) fn datetime_of(text: &str) -> Option<DateTime> {
    let text = text.trim();
    let time = text.split_once(['T', 't', ' ']).map_or("", |(_, time)| time);
    if time.contains(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')) {
        None
    } else {
        text.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_says_beyond_the_type_is_not_dropped() {
        assert!(date_of("2026-11-15").is_some());
        assert!(date_of(" 2026-11-15 ").is_some());
        assert!(datetime_of("2026-11-15T10:00:00.25").is_some());
        assert!(datetime_of("2026-11-15 10:00").is_some());
        assert!(datetime_of("2026-11-15").is_some());
        assert!(time_of("10:00:00.000001").is_some());
        for text in ["2026-11-15T10:00:00", "2026-11-15 10:00:00", "2026-11-15[UTC]", "15.11.2026", ""] {
            assert_eq!(date_of(text), None, "{text}");
        }
        for text in ["2026-11-15T10:00:00+02", "2026-11-15T10:00:00Z", "2026-11-15T10:00[Europe/Berlin]"] {
            assert_eq!(datetime_of(text), None, "{text}");
        }
        for text in ["10:00+02", "2026-11-15T10:00:00", "T10:00", "25:00"] {
            assert_eq!(time_of(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_whole_or_refused() {
        assert_eq!(long_of_decimal(&"12.00".parse().unwrap()), Some(12));
        assert_eq!(long_of_decimal(&"12.01".parse().unwrap()), None);
        assert_eq!(parsed(" -7 "), Some(-7));
        assert_eq!(bool_of("Yes"), Some(true));
        assert_eq!(bool_of("ja"), None);
    }
}
