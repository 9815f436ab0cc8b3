//! Templates: `${tick}` is the instant, `${tick.date}` its local date, and `${tick.date-1d}` the day before.

use super::zone::Zone;
use crate::time::Timestamp;
use jiff::ToSpan;
use std::str::FromStr;

/// About ten years.
pub const DAYS_MAX: u16 = 3660;

/// ```
/// # use tidemill_domain::schedule::{Template, Zone};
/// let file: Template = "in/${tick.date-1d}.csv".parse().unwrap();
/// let tick = "2026-11-15T17:30:00Z".parse().unwrap();
/// let seoul: Zone = "Asia/Seoul".parse().unwrap();
/// assert_eq!(file.at(tick, &seoul).unwrap(), "in/2026-11-15.csv");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template(Vec<Part>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(String),
    Instant,
    Date { days: i32 },
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "unknown placeholder {0:?}; use ${{tick}}, ${{tick.date}}, ${{tick.date-Nd}} or \
     ${{tick.date+Nd}} with N up to {DAYS_MAX}"
)]
pub struct BadPlaceholder(String);

impl Template {
    /// None beyond the end of the calendar.
    pub fn at(&self, tick: Timestamp, zone: &Zone) -> Option<String> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Instant => {
                    let instant = jiff::Timestamp::from_microsecond(tick.as_micros()).ok()?;
                    text.push_str(&instant.to_string());
                }
                Part::Date { days } => {
                    let date = zone.local(tick)?.date().checked_add(days.days()).ok()?;
                    text.push_str(&date.to_string());
                }
            }
        }
        Some(text)
    }
}

impl FromStr for Template {
    type Err = BadPlaceholder;

    fn from_str(text: &str) -> Result<Self, BadPlaceholder> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once("${") {
            let bad = |found: &str| BadPlaceholder(found.chars().take(40).collect());
            let (placeholder, behind) = after.split_once('}').ok_or_else(|| bad(&format!("${{{after}")))?;
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(part(placeholder).ok_or_else(|| bad(&format!("${{{placeholder}}}")))?);
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self(parts))
    }
}

fn part(placeholder: &str) -> Option<Part> {
    if placeholder == "tick" {
        return Some(Part::Instant);
    }
    let shift = placeholder.strip_prefix("tick.date")?;
    if shift.is_empty() {
        return Some(Part::Date { days: 0 });
    }
    let (sign, days) = match shift.strip_prefix('-') {
        Some(days) => (-1, days),
        None => (1, shift.strip_prefix('+')?),
    };
    let days = days.strip_suffix('d').filter(|days| days.bytes().all(|byte| byte.is_ascii_digit()))?;
    let days: u16 = days.parse().ok().filter(|days| (1..=DAYS_MAX).contains(days))?;
    Some(Part::Date { days: sign * i32::from(days) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(template: &str, tick: &str, zone: &str) -> String {
        let template: Template = template.parse().unwrap();
        template.at(tick.parse().unwrap(), &zone.parse().unwrap()).unwrap()
    }

    #[test]
    fn the_day_of_a_tick_is_that_of_the_schedules_zone() {
        let tick = "2026-11-15T17:30:00Z";

        assert_eq!(at("${tick.date}", tick, "UTC"), "2026-11-15");
        assert_eq!(at("${tick.date}", tick, "Asia/Seoul"), "2026-11-16");
        assert_eq!(at("a ${tick.date-1d} b ${tick.date+20d}", tick, "UTC"), "a 2026-11-14 b 2026-12-05");
        assert_eq!(at("${tick}", tick, "Asia/Seoul"), "2026-11-15T17:30:00Z");
    }

    #[test]
    fn text_without_placeholders_stays_as_it_is() {
        assert_eq!(at("5 $ {x} $1", "2026-11-15T17:30:00Z", "UTC"), "5 $ {x} $1");
    }

    #[test]
    fn a_placeholder_that_is_not_understood_is_refused_by_name() {
        for wrong in [
            "${tick.day}",
            "${}",
            "${tick.date-d}",
            "${tick.date-0d}",
            "${tick.date-3661d}",
            "${tick.date-1}",
        ] {
            let refusal = wrong.parse::<Template>().unwrap_err().to_string();
            assert!(refusal.contains(wrong), "{refusal}");
        }
        assert!("${tick".parse::<Template>().is_err());
        assert!("${tick.date--1d}".parse::<Template>().is_err());
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange_for_an_answer(text in ".{0,60}", micros in 0..253_402_207_200_000_000_i64) {
            if let Ok(template) = text.parse::<Template>() {
                let _text = template.at(Timestamp::from_micros(micros), &Zone::UTC);
            }
        }

        #[test]
        fn what_is_no_placeholder_is_kept(text in "[a-z0-9 ,=/.-]{0,40}") {
            prop_assert_eq!(at(&text, "2026-11-15T17:30:00Z", "UTC"), text);
        }
    }
}
