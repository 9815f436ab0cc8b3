//! The keys of a table and their values. Unknown keys are reported with the nearest known one.

use crate::Source;
use crate::diagnostic::{Diagnostic, did_you_mean, excerpt};
use crate::document::{Content, Key, Node};
use crate::model::{At, Place};
use crate::parse::Gaps;
use std::ops::RangeInclusive;
use std::time::Duration;
use tidemill_domain::duration::{self, BadDuration};

/// Declares tables: their name in messages, their keys, and an example.
macro_rules! tables {
    ($($name:ident = $what:literal [$($key:literal)*] $example:literal;)+) => {$(
        const $name: Table = Table { what: $what, keys: &[$($key),*], example: $example };
    )+};
}

pub(super) use tables;

#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    /// For messages: `a parameter`.
    pub(super) what: &'static str,
    pub(super) keys: &'static [&'static str],
    pub(super) example: &'static str,
}

/// Our keys, and common other names for them.
const OTHER_WORDS: [(&str, &[&str]); 21] = [
    ("delimiter", &["separator", "seperator", "sep"]),
    ("encoding", &["charset"]),
    ("path", &["file", "filename"]),
    ("columns", &["fields", "names"]),
    ("read", &["reader", "input"]),
    ("process", &["processor", "transform"]),
    ("write", &["output"]),
    ("filter", &["where"]),
    ("map", &["select"]),
    ("chunk", &["commit_interval", "batch_size"]),
    ("threads", &["workers"]),
    ("command", &["run", "shell"]),
    ("parameters", &["params"]),
    ("on", &["transitions"]),
    ("zone", &["timezone", "tz"]),
    ("units", &["parallel", "parallelism"]),
    ("min", &["least"]),
    ("class", &["priority"]),
    ("aggregate_id", &["key", "id"]),
    ("event_type", &["type"]),
    ("payload", &["body", "value"]),
];

#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'n> {
    pub(super) table: Table,
    pub(super) place: Place,
    pub(super) entries: &'n [(Key, Node)],
}

impl<'n> Fields<'n> {
    pub(super) fn get(&self, name: &str) -> Option<&'n Node> {
        self.entries.iter().find(|(key, _)| key.name == name).map(|(_, node)| node)
    }

    pub(super) fn key(&self, name: &str) -> Option<&'n Key> {
        self.entries.iter().map(|(key, _)| key).find(|key| key.name == name)
    }
}

#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) source: &'a Source,
    pub(super) problems: Vec<Diagnostic>,
    pub(super) steps: usize,
    pub(super) gaps: Gaps,
}

impl Reader<'_> {
    pub(super) fn wrong(&mut self, node: &Node, what: impl Into<String>, fix: impl Into<String>) {
        self.problems.push(Diagnostic::at(self.source, node.place, node.chars, what, fix));
    }

    pub(super) fn wrong_key(
        &mut self,
        key: &Key,
        what: impl Into<String>,
        why: Option<String>,
        fix: impl Into<String>,
    ) {
        let mut problem = Diagnostic::at(self.source, key.place, key.chars, what, fix);
        problem.why = why;
        self.problems.push(problem);
    }

    pub(super) fn wrong_at(&mut self, place: Place, what: impl Into<String>, fix: impl Into<String>) {
        self.problems.push(Diagnostic::at(self.source, place, 1, what, fix));
    }

    pub(super) fn table<'n>(&mut self, node: &'n Node, name: &str, table: Table) -> Option<Fields<'n>> {
        let fields = self.entries(node, name, table)?;
        for (key, _) in fields.entries {
            if !table.keys.contains(&key.name.as_str()) {
                self.unknown(key, table.what, table.keys);
            }
        }
        Some(fields)
    }

    /// Does not check the keys.
    pub(super) fn entries<'n>(&mut self, node: &'n Node, name: &str, table: Table) -> Option<Fields<'n>> {
        let entries = self.named(node, &format!("{name} is a table of keys"), table.example)?;
        Some(Fields { table, place: node.place, entries })
    }

    /// The entries of a table with any keys; `what` describes the table.
    pub(super) fn named<'n>(
        &mut self,
        node: &'n Node,
        what: &str,
        example: &str,
    ) -> Option<&'n [(Key, Node)]> {
        if let Content::Map(entries) = &node.content {
            return Some(entries);
        }
        let what = format!("{what}, and here is {}", node.type_words());
        self.wrong(node, what, format!("write it as {example}"));
        None
    }

    pub(super) fn unknown(&mut self, key: &Key, what: &str, known: &[&str]) {
        let why = format!("the keys of {what} are {}", known.join(", "));
        let is_meant =
            |(ours, others): &&(&str, &[&str])| others.contains(&&*key.name) && known.contains(ours);
        let fix = match OTHER_WORDS.iter().find(is_meant) {
            Some((ours, _)) => format!("did you mean {ours}?"),
            None => did_you_mean(&key.name, known.iter().copied(), || "correct it or take it out".to_owned()),
        };
        let what = format!("unknown key {:?} in {what}", excerpt(&key.name));
        self.wrong_key(key, what, Some(why), fix);
    }

    /// Reports a missing key.
    pub(super) fn required<'n>(&mut self, fields: &Fields<'n>, name: &str) -> Option<&'n Node> {
        let found = fields.get(name);
        if found.is_none() {
            let what = format!("{} needs the key {name:?}, and here is none", fields.table.what);
            self.wrong_at(fields.place, what, format!("write it as {}", fields.table.example));
        }
        found
    }

    pub(super) fn required_text(&mut self, fields: &Fields<'_>, name: &str) -> Option<At<String>> {
        self.required(fields, name).and_then(|node| self.text(node, name))
    }

    /// A single value counts as a list of one.
    pub(super) fn items<'n>(&mut self, node: &'n Node, name: &str) -> Option<&'n [Node]> {
        match &node.content {
            Content::List(items) => Some(items),
            Content::Scalar(_) => Some(std::slice::from_ref(node)),
            Content::Null | Content::Map(_) => {
                let what = format!("{name} is a list, and here is {}", node.type_words());
                self.wrong(node, what, format!("write it as {name}: [first, second]"));
                None
            }
        }
    }

    /// Refuses an empty text.
    pub(super) fn text(&mut self, node: &Node, name: &str) -> Option<At<String>> {
        match &node.content {
            Content::Scalar(text) if !text.is_empty() => Some(At { value: text.clone(), place: node.place }),
            Content::Scalar(_) | Content::Null => {
                let fix = format!("give {name} a value, or take it out");
                self.wrong(node, format!("{name} has no value"), fix);
                None
            }
            Content::List(_) | Content::Map(_) => {
                let what = format!("{name} is a text, and here is {}", node.type_words());
                let fix = format!("write it as {name}: \"…\"; a text that begins with {{ or [ needs quotes");
                self.wrong(node, what, fix);
                None
            }
        }
    }

    pub(super) fn texts(&mut self, node: &Node, name: &str) -> Option<Vec<At<String>>> {
        let items = self.items(node, name)?;
        if items.is_empty() {
            let fix = format!("name at least one, or take {name} out");
            self.wrong(node, format!("{name} is an empty list"), fix);
            return None;
        }
        all(items.iter().map(|item| self.text(item, name)))
    }

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

    /// A word that has other names, which are reported with ours.
    pub(super) fn word_or<T: Clone>(
        &mut self,
        node: &Node,
        name: &str,
        words: &[(&str, T)],
        others: &[(&str, &[&str])],
    ) -> Option<T> {
        if let Content::Scalar(text) = &node.content
            && let Some((ours, _)) = others.iter().find(|(_, others)| others.contains(&&*text.to_lowercase()))
        {
            let all = words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
            let what = format!("{name} is one of {all}, and here is {text:?}");
            self.wrong(node, what, format!("write {name}: {ours}"));
            return None;
        }
        self.word(node, name, words)
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

/// None if one is missing. Evaluates all of them, so that all problems are reported.
pub(crate) fn all<T>(read: impl Iterator<Item = Option<T>>) -> Option<Vec<T>> {
    read.collect::<Vec<_>>().into_iter().collect()
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
