//! Scalars: numbers, booleans, durations and keywords.

use super::{Fields, Reader};
use crate::diagnostic::{did_you_mean, excerpt};
use crate::document::{Content, Node};
use crate::model::At;
use std::ops::RangeInclusive;
use std::time::Duration;
use tidemill_domain::duration::{self, BadDuration};

impl Reader<'_> {
    pub(super) fn number<N: TryFrom<u64>>(
        &mut self,
        node: &Node,
        name: &str,
        bounds: RangeInclusive<u64>,
    ) -> Option<N> {
        let found = match &node.content {
            Content::Scalar(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
            _ => None,
        };
        let found = found.filter(|number| bounds.contains(number));
        if found.is_none() {
            let (least, most) = (bounds.start(), bounds.end());
            let what =
                format!("{name} is a whole number from {least} to {most}, and here is {}", shown(node));
            let fix = format!("write a number within these bounds, such as {name}: {}", least.max(&10));
            self.wrong(node, what, fix);
        }
        found.and_then(|number| N::try_from(number).ok())
    }

    pub(super) fn number_of<N: TryFrom<u64>>(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        bounds: RangeInclusive<u64>,
    ) -> Option<N> {
        fields.get(name).and_then(|node| self.number(node, name, bounds))
    }

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

    pub(super) fn word<T: Clone>(&mut self, node: &Node, name: &str, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(node, name)?.value;
        if let Some((_, meant)) = words.iter().find(|(word, _)| *word == text) {
            return Some(meant.clone());
        }
        let known = words.iter().map(|(word, _)| *word);
        let all = known.clone().collect::<Vec<_>>().join(", ");
        let fix = did_you_mean(&text, known, || format!("write one of {all}"));
        self.wrong(node, format!("{name} is one of {all}, and here is {:?}", excerpt(&text)), fix);
        None
    }

    pub(super) fn duration(
        &mut self,
        node: &Node,
        name: &str,
        bounds: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let text = self.text(node, name)?.value;
        let fix = match duration::parse(&text) {
            Ok(found) if bounds.contains(&found) => return Some(found),
            Ok(found) if found < *bounds.start() => {
                format!("make it at least {}", duration::show(*bounds.start()))
            }
            Ok(_) => format!("make it at most {}", duration::show(*bounds.end())),
            Err(BadDuration::NoUnit) => {
                format!("add the unit: {name}: {text}s for seconds, {text}ms for less")
            }
            Err(BadDuration::Malformed) => format!("write it as {name}: 500ms, 15s, 1h30m or 1d"),
        };
        let what = format!(
            "{name} is a duration from {} to {}, and here is {:?}",
            duration::show(*bounds.start()),
            duration::show(*bounds.end()),
            excerpt(&text)
        );
        self.wrong(node, what, fix);
        None
    }

    pub(super) fn text_of(&mut self, fields: &Fields<'_>, name: &str) -> Option<At<String>> {
        fields.get(name).and_then(|node| self.text(node, name))
    }
}

/// The default of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Truth {
    Yes,
    No,
}

pub(super) fn shown(node: &Node) -> String {
    match &node.content {
        Content::Scalar(text) => format!("{:?}", excerpt(text)),
        _ => node.type_words().to_owned(),
    }
}
