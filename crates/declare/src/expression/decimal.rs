//! `decimal(text, digits)`: a decimal number as an integer, exactly.

use tidemill_domain::item::Decimal;

/// Digits after the point that fit into an i64.
const DIGITS_MAX: i64 = 18;

/// Digits of a decimal number that a double always keeps.
const DOUBLE_DIGITS: usize = 15;

/// A double as the decimal number that it was parsed from. With more digits than a double keeps it would not be exact.
pub(super) fn text_of(number: f64) -> Result<String, &'static str> {
    let text = number.to_string();
    let digits = text.trim_start_matches(['-', '0', '.']).bytes().filter(u8::is_ascii_digit).count();
    if number.is_finite() && digits <= DOUBLE_DIGITS {
        Ok(text)
    } else {
        Err("a double of more than 15 digits is not exact; give it a text")
    }
}

/// `text` times ten to the power of `digits`, without rounding: `decimal("19.99", 2)` is 1999.
pub(super) fn scaled(text: &str, digits: i64) -> Result<i64, String> {
    let digits = usize::try_from(digits)
        .ok()
        .filter(|_| digits <= DIGITS_MAX)
        .ok_or_else(|| format!("the number of digits has to be from 0 to {DIGITS_MAX} and is {digits}"))?;
    let decimal: Decimal = text.parse().map_err(|error| format!("{error}"))?;
    let number = decimal.as_str();
    let (sign, number) = number.strip_prefix('-').map_or((1, number), |rest| (-1, rest));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let kept = &fraction[..fraction.len().min(digits)];
    if fraction[kept.len()..].bytes().any(|digit| digit != b'0') {
        return Err(format!("{decimal} would lose digits: it has more than {digits} after the point"));
    }
    let zeros = std::iter::repeat_n(b'0', digits - kept.len());
    whole
        .bytes()
        .chain(kept.bytes())
        .chain(zeros)
        // Built up with its sign, because there is one more number below zero than above.
        .try_fold(0_i64, |sum, digit| sum.checked_mul(10)?.checked_add(sign * i64::from(digit - b'0')))
        .ok_or_else(|| format!("{decimal} with {digits} digits after the point is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_become_cents_exactly() {
        for (text, digits, expected) in [
            ("0.29", 2, 29),
            ("19.99", 2, 1999),
            ("-0.5", 2, -50),
            ("1.5000", 1, 15),
            ("7", 0, 7),
            ("+7.", 3, 7000),
            (".01", 2, 1),
            ("-0", 2, 0),
            ("-9223372036854775808", 0, i64::MIN),
            ("92233720368547758.07", 2, i64::MAX),
        ] {
            assert_eq!(scaled(text, digits), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_exact_is_refused() {
        for (text, digits, why) in [
            ("1.005", 2, "would lose digits"),
            ("1e3", 2, "not a decimal number"),
            ("", 2, "not a decimal number"),
            ("1,5", 2, "not a decimal number"),
            (" 1", 2, "not a decimal number"),
            ("92233720368547758.08", 2, "too large"),
            ("-9223372036854775809", 0, "too large"),
            ("1", 19, "from 0 to 18"),
            ("1", -1, "from 0 to 18"),
        ] {
            let error = scaled(text, digits).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_double_is_taken_as_long_as_it_is_exact() {
        for (number, expected) in
            [(0.29, "0.29"), (-19.99, "-19.99"), (12.0, "12"), (999_999_999_999.25, "999999999999.25")]
        {
            assert_eq!(text_of(number).as_deref(), Ok(expected));
        }
        for number in [0.1 + 0.2, 1e15 + 0.25, 1e300, f64::NAN, f64::INFINITY] {
            assert!(text_of(number).is_err(), "{number}");
        }
    }

    /// Moves the point in the text, as one would on paper; `i128` has room for all of it.
    fn on_paper(text: &str, digits: usize) -> Option<i64> {
        let (sign, number) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let mut moved = format!("{whole}{fraction}");
        let shift = digits as i64 - fraction.len() as i64;
        for _ in 0..shift {
            moved.push('0');
        }
        for _ in shift..0 {
            if moved.pop() != Some('0') {
                return None;
            }
        }
        let number: i128 = moved.parse().ok()?;
        i64::try_from(sign * number).ok()
    }

    proptest! {
        #[test]
        fn it_agrees_with_moving_the_point_on_paper(
            text in "-?[0-9]{1,20}(\\.[0-9]{1,8})?",
            digits in 0_usize..=18,
        ) {
            prop_assert_eq!(scaled(&text, digits as i64).ok(), on_paper(&text, digits));
        }

        #[test]
        fn cents_of_any_amount_read_back(cents in any::<i64>()) {
            let text = format!(
                "{}{}.{:02}",
                if cents < 0 { "-" } else { "" },
                cents.unsigned_abs() / 100,
                cents.unsigned_abs() % 100,
            );
            prop_assert_eq!(scaled(&text, 2), Ok(cents));
        }

        #[test]
        fn cents_that_were_a_double_on_their_way_are_the_same(cents in -99_999_999_999_999_i64..=99_999_999_999_999) {
            let text = format!("{}{}.{:02}", if cents < 0 { "-" } else { "" }, cents.abs() / 100, cents.abs() % 100);
            let double: f64 = text.parse().unwrap();
            prop_assert_eq!(scaled(&text_of(double).unwrap(), 2), Ok(cents));
        }

        #[test]
        fn any_text_is_answered(text in "\\PC{0,30}", digits in any::<i64>()) {
            let _ = scaled(&text, digits);
        }
    }
}
