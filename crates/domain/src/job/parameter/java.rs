//! Numbers, dates and times exactly as Java writes them, and back.
//!
//! They are stored beside Spring Batch's rows and are part of an instance's key, so every character counts.

use jiff::civil::{Date, DateTime, Time};

/// `Double.toString`: plain from 0.001 to ten million, otherwise with an exponent; digits on both sides of the point.
pub(super) fn double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    let sign = if number.is_sign_negative() { "-" } else { "" };
    let size = number.abs();
    if size.is_infinite() {
        return format!("{sign}Infinity");
    }
    if size == 0.0 {
        return format!("{sign}0.0");
    }
    if (1e-3..1e7).contains(&size) {
        let text = size.to_string();
        let point = if text.contains('.') { "" } else { ".0" };
        return format!("{sign}{text}{point}");
    }
    let (digits, exponent) = scientific(size);
    let point = if digits.contains('.') { "" } else { ".0" };
    format!("{sign}{digits}{point}E{exponent}")
}

/// Digits and exponent of the shortest text that reads back as the same number. Java writes at least two digits and
/// chooses the nearest two, which differ from a single digit for the smallest numbers: 4.9E-324.
fn scientific(size: f64) -> (String, String) {
    let shortest = format!("{size:e}");
    let two_digits = format!("{size:.1e}");
    let reads_back = two_digits.parse() == Ok(size);
    let text = if !shortest.contains('.') && reads_back { two_digits } else { shortest };
    match text.split_once('e') {
        Some((digits, exponent)) => (digits.to_owned(), exponent.to_owned()),
        None => (text, "0".to_owned()),
    }
}

/// `Double.valueOf`, for the texts of `Double.toString` and of people. Numbers that overflow are refused.
pub(super) fn read_double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => text.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

/// `LocalDate.toString` and `ISO_LOCAL_DATE`.
pub(super) fn date(date: Date) -> String {
    let sign = if date.year() < 0 { "-" } else { "" };
    format!("{sign}{:04}-{:02}-{:02}", date.year().unsigned_abs(), date.month(), date.day())
}

pub(super) fn read_date(text: &str) -> Option<Date> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let [year, month, day] = digits.split('-').collect::<Vec<_>>()[..] else { return None };
    Date::new(sign * number::<i16>(year, 4)?, number(month, 2)?, number(day, 2)?).ok()
}

/// `LocalTime.toString`: zero seconds are left out, a fraction has groups of three digits.
pub(super) fn short_time(time: Time) -> String {
    match time.subsec_nanosecond() {
        0 if time.second() == 0 => time.strftime("%H:%M").to_string(),
        0 => time.to_string(),
        nanos if nanos % 1_000_000 == 0 => format!("{time:.3}"),
        nanos if nanos % 1_000 == 0 => format!("{time:.6}"),
        _ => format!("{time:.9}"),
    }
}

/// `ISO_LOCAL_TIME`, which also reads `LocalTime.toString`: seconds and fraction are optional.
pub(super) fn read_time(text: &str) -> Option<Time> {
    let (hour, minute, rest) = match text.split(':').collect::<Vec<_>>()[..] {
        [hour, minute] => (hour, minute, "00"),
        [hour, minute, rest] => (hour, minute, rest),
        _ => return None,
    };
    let (second, nanos) = match rest.split_once('.') {
        None => (rest, 0),
        // One to nine digits, as nanoseconds.
        Some((_, "")) => return None,
        Some((second, fraction)) => (second, number(&format!("{fraction:0<9}"), 9)?),
    };
    Time::new(number(hour, 2)?, number(minute, 2)?, number(second, 2)?, nanos).ok()
}

/// `ISO_LOCAL_DATE_TIME`.
pub(super) fn read_date_time(text: &str) -> Option<DateTime> {
    let (date, time) = text.split_once('T')?;
    Some(DateTime::from_parts(read_date(date)?, read_time(time)?))
}

/// Exactly this many digits, without a sign.
fn number<N: std::str::FromStr>(digits: &str, length: usize) -> Option<N> {
    let is_number = digits.len() == length && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn doubles_are_written_as_java_writes_them() {
        for (number, text) in [
            (1.0, "1.0"),
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (-1.5, "-1.5"),
            (0.001, "0.001"),
            (0.000_999, "9.99E-4"),
            (1e-5, "1.0E-5"),
            (123_456.789, "123456.789"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (12_345_678.5, "1.23456785E7"),
            (1e10, "1.0E10"),
            (2e23, "2.0E23"),
            (-1e100, "-1.0E100"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
            (f64::from_bits(1), "4.9E-324"),
            (f64::from_bits(2), "9.9E-324"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(double(number), text);
        }
    }

    #[test]
    fn a_short_time_drops_what_is_zero_and_a_full_one_keeps_its_seconds() {
        for (hour, minute, second, nanos, short, full) in [
            (0, 0, 0, 0, "00:00", "00:00:00"),
            (10, 15, 0, 0, "10:15", "10:15:00"),
            (10, 15, 30, 0, "10:15:30", "10:15:30"),
            (10, 15, 0, 500_000_000, "10:15:00.500", "10:15:00.5"),
            (10, 15, 1, 120_000_000, "10:15:01.120", "10:15:01.12"),
            (10, 15, 1, 1_000, "10:15:01.000001", "10:15:01.000001"),
            (10, 15, 1, 1_500, "10:15:01.000001500", "10:15:01.0000015"),
            (23, 59, 59, 999_999_999, "23:59:59.999999999", "23:59:59.999999999"),
        ] {
            let time = Time::new(hour, minute, second, nanos).unwrap();

            assert_eq!(short_time(time), short);
            assert_eq!(time.to_string(), full);
        }
    }

    #[test]
    fn years_before_the_first_have_a_sign_and_four_digits() {
        for (year, text) in
            [(1, "0001-02-03"), (0, "0000-02-03"), (-1, "-0001-02-03"), (-9999, "-9999-02-03")]
        {
            assert_eq!(date(Date::new(year, 2, 3).unwrap()), text);
        }
    }

    #[test]
    fn what_is_not_a_day_a_time_or_a_number_is_not_read() {
        for text in [
            "",
            "2026-2-03",
            "2026-02-30",
            "2026-02",
            "26-02-03",
            "+2026-02-03",
            "2026-02-03-04",
            "２026-02-03",
        ] {
            assert_eq!(read_date(text), None, "{text}");
        }
        for text in
            ["", "10", "1:15", "24:00", "10:60", "10:15:60", "10:15:30.", "10:15:30.1234567890", "10:15:30:1"]
        {
            assert_eq!(read_time(text), None, "{text}");
        }
        for text in ["", "2026-02-03", "2026-02-03 10:15", "2026-02-03T10:15Z", "T10:15"] {
            assert_eq!(read_date_time(text), None, "{text}");
        }
        for text in ["", "inf", "nan", "infinity", "1e999", "1,5", "x"] {
            assert_eq!(read_double(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_double_reads_back_and_its_text_has_the_form_of_java(bits in any::<u64>()) {
            let number = f64::from_bits(bits);
            let text = double(number);
            prop_assume!(number.is_finite());
            prop_assert_eq!(read_double(&text).map(f64::to_bits), Some(bits), "{}", text);

            let (digits, exponent) = text.split_once('E').unwrap_or((&text, "7"));
            let (whole, fraction) = digits.split_once('.').unwrap();
            prop_assert!(!whole.is_empty() && !fraction.is_empty());
            prop_assert!(!(-3..7).contains(&exponent.parse::<i32>().unwrap()));
        }

        #[test]
        fn both_texts_of_a_time_read_back(second in 0..86_400_i32, nanos in prop_oneof![
            Just(0), 0..1_000_000_000_i32, (0..1_000).prop_map(|millis| millis * 1_000_000)
        ]) {
            let of = |number: i32| i8::try_from(number).unwrap();
            let time = Time::new(of(second / 3600), of(second / 60 % 60), of(second % 60), nanos).unwrap();
            prop_assert_eq!(read_time(&short_time(time)), Some(time));
            prop_assert_eq!(read_time(&time.to_string()), Some(time));
        }

        #[test]
        fn a_day_reads_back(year in -9999..=9999_i16, month in 1..=12_i8, day in 1..=28_i8) {
            let day = Date::new(year, month, day).unwrap();
            prop_assert_eq!(read_date(&date(day)), Some(day));
        }
    }
}
