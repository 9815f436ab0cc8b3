//! Values of one word: numbers, truth values, durations, and words of which there are only some.

use super::fields::{Fields, Reader};
use crate::diagnostic::excerpt;
use crate::document::{Content, Node};
use crate::model::At;
use crate::nearest::nearest;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The units of a duration, largest first, with their length in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Reader<'_> {
    /// A whole number within bounds.
    pub(super) fn number(&mut self, node: &Node, name: &str, bounds: RangeInclusive<u64>) -> Option<u64> {
        let found = match &node.content {
            Content::Scalar(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
            _ => None,
        };
        let found = found.filter(|number| bounds.contains(number));
        if found.is_none() {
            let (least, most) = (bounds.start(), bounds.end());
            let what =
                format!("{name} is a whole number from {least} to {most}, and here is {}", shown(node));
            self.wrong(
                node,
                what,
                format!("write a number within these bounds, such as {name}: {}", least.max(&10)),
            );
        }
        found
    }

    /// The number of a key, where it is given.
    pub(super) fn number_of(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        bounds: RangeInclusive<u64>,
    ) -> Option<u64> {
        fields.get(name).and_then(|node| self.number(node, name, bounds))
    }

    /// The truth value of a key; `default` when it is not given.
    pub(super) fn truth_of(&mut self, fields: &Fields<'_>, name: &str, default: Truth) -> bool {
        let default = default == Truth::Yes;
        let Some(node) = fields.get(name) else { return default };
        match &node.content {
            Content::Scalar(text) if text == "true" => true,
            Content::Scalar(text) if text == "false" => false,
            _ => {
                let what = format!("{name} is true or false, and here is {}", shown(node));
                let meant = match &node.content {
                    Content::Scalar(text) => match text.to_lowercase().as_str() {
                        "yes" | "on" | "y" | "1" | "true" => "true",
                        _ => "false",
                    },
                    _ if default => "false",
                    _ => "true",
                };
                self.wrong(node, what, format!("write {name}: {meant}"));
                default
            }
        }
    }

    /// One of some words.
    pub(super) fn word<T: Copy>(&mut self, node: &Node, name: &str, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(node, name)?.value;
        if let Some((_, meant)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*meant);
        }
        let known = words.iter().map(|(word, _)| *word);
        let all = known.clone().collect::<Vec<_>>().join(", ");
        let fix = match nearest(&text, known) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("write one of {all}"),
        };
        self.wrong(node, format!("{name} is one of {all}, and here is {:?}", excerpt(&text)), fix);
        None
    }

    /// A duration such as `500ms` or `1h30m`.
    pub(super) fn duration(
        &mut self,
        node: &Node,
        name: &str,
        bounds: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let text = self.text(node, name)?.value;
        let fix = match duration(&text) {
            Ok(found) if bounds.contains(&found) => return Some(found),
            Ok(found) if found < *bounds.start() => format!("make it at least {}", show(*bounds.start())),
            Ok(_) => format!("make it at most {}", show(*bounds.end())),
            Err(NotADuration::NoUnit) => {
                format!("add the unit: {name}: {text}s for seconds, {text}ms for less")
            }
            Err(NotADuration::Malformed) => format!("write it as {name}: 500ms, 15s, 1h30m or 1d"),
        };
        let what = format!(
            "{name} is a duration from {} to {}, and here is {:?}",
            show(*bounds.start()),
            show(*bounds.end()),
            excerpt(&text)
        );
        self.wrong(node, what, fix);
        None
    }

    /// The text of a key, where it is given.
    pub(super) fn text_of(&mut self, fields: &Fields<'_>, name: &str) -> Option<At<String>> {
        fields.get(name).and_then(|node| self.text(node, name))
    }
}

/// What a key says that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Truth {
    Yes,
    No,
}

/// A value for a message.
pub(super) fn shown(node: &Node) -> String {
    match &node.content {
        Content::Scalar(text) => format!("{:?}", excerpt(text)),
        _ => node.type_words().to_owned(),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NotADuration {
    NoUnit,
    Malformed,
}

/// Whole numbers with units, largest first, without spaces.
fn duration(text: &str) -> Result<Duration, NotADuration> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NotADuration::NoUnit);
    }
    let (mut rest, mut total) = (text, 0_u64);
    let mut units = UNITS.iter();
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        let letters = after.len() - after.trim_start_matches(|c: char| c.is_ascii_lowercase()).len();
        let (unit, after) = after.split_at(letters);
        // Each unit once, and none that is larger than the one before.
        let (_, millis) = units.find(|(name, _)| *name == unit).ok_or(NotADuration::Malformed)?;
        let number: u64 = number.parse().map_err(|_| NotADuration::Malformed)?;
        let part = number.checked_mul(*millis).ok_or(NotADuration::Malformed)?;
        total = total.checked_add(part).ok_or(NotADuration::Malformed)?;
        rest = after;
    }
    if text.is_empty() { Err(NotADuration::Malformed) } else { Ok(Duration::from_millis(total)) }
}

/// A duration as [`duration`] reads it.
fn show(duration: Duration) -> String {
    let mut left = duration.as_millis();
    let mut text = String::new();
    for (unit, millis) in UNITS {
        let count = left / u128::from(millis);
        left %= u128::from(millis);
        if count > 0 {
            text.push_str(&format!("{count}{unit}"));
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_have_units_from_large_to_small() {
        let check =
            |text: &str, millis| assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");

        check("500ms", 500);
        check("1s", 1_000);
        check("1h30m", 5_400_000);
        check("1d1h1m1s1ms", 90_061_001);
        assert_eq!(duration("15"), Err(NotADuration::NoUnit));
        for text in
            ["", "s", "1 s", "30m1h", "1s1s", "-1s", "1.5s", "1w", "1S", "1h30", "99999999999999999999d"]
        {
            assert_eq!(duration(text), Err(NotADuration::Malformed), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(millis in 0_u64..10_000_000_000) {
            let found = Duration::from_millis(millis);
            prop_assert_eq!(duration(&show(found)), Ok(found));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9dhms 가]{0,12}") {
            if let Ok(found) = duration(&text) {
                prop_assert_eq!(duration(&show(found)), Ok(found));
            }
        }
    }
}
