//! A YAML file as a tree with the place of every node.
//!
//! Only mappings with text keys, lists and scalars are accepted. Anchors, aliases, tags, further documents, and files
//! that are too large or too deep are refused.

use crate::Source;
use crate::diagnostic::{Diagnostic, excerpt};
use crate::model::Place;
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};
use std::collections::BTreeMap;

pub(crate) const BYTES_MAX: usize = 1024 * 1024;

/// A job with nested flows has about ten levels.
const DEPTH_MAX: usize = 32;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    /// Number of characters in its first line.
    pub(crate) chars: usize,
    pub(crate) content: Content,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// Empty, or `null`.
    Null,
    Scalar(String),
    List(Vec<Node>),
    /// In the order of the file.
    Map(Vec<(Key, Node)>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) chars: usize,
}

impl Node {
    pub(crate) const fn type_words(&self) -> &'static str {
        match self.content {
            Content::Null => "nothing",
            Content::Scalar(_) => "a text or number",
            Content::List(_) => "a list",
            Content::Map(_) => "a table of keys",
        }
    }
}

/// Fixes, which depend on the kind of file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Remedies {
    pub(crate) empty: &'static str,
    pub(crate) large: &'static str,
    pub(crate) deep: &'static str,
    pub(crate) second: &'static str,
}

pub(crate) const OF_JOB: Remedies = Remedies {
    empty: "begin with `job: NAME`, `steps:` and a list of steps",
    large: "divide the job, or keep data out of its definition",
    deep: "put the inner steps into a job of their own",
    second: "keep one job in each file, and put the other into a file of its own",
};

pub(crate) const OF_TEST: Remedies = Remedies {
    empty: "begin with `cases:` and a list of cases",
    large: "put the data into files of their own: in.csv: { from: samples/in.csv }",
    deep: "take out some levels",
    second: "put the cases of the other document into this one",
};

/// The tree, if the file is valid YAML, and all problems.
pub(crate) fn read(source: &Source, remedies: Remedies) -> (Option<Node>, Vec<Diagnostic>) {
    if source.text().len() > BYTES_MAX {
        let what = format!("the file is larger than {} KiB", BYTES_MAX / 1024);
        return (None, vec![Diagnostic::of_file(source.path(), what, remedies.large)]);
    }
    let parser = Parser::new_from_str(source.text());
    let mut tree = Tree { source, remedies, parser, problems: Vec::new() };
    let root = tree.document().map_err(|problem| tree.problems.push(*problem)).ok();
    (root, tree.problems)
}

type Read<T> = Result<T, Box<Diagnostic>>;

struct Tree<'a> {
    source: &'a Source,
    remedies: Remedies,
    parser: Parser<'a, StrInput<'a>>,
    /// Problems after which the rest can still be read.
    problems: Vec<Diagnostic>,
}

impl<'a> Tree<'a> {
    fn document(&mut self) -> Read<Node> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
                Event::DocumentStart(_) if root.is_none() => {
                    let (event, span) = self.next()?;
                    root = Some(self.node(event, span, 0)?);
                }
                Event::DocumentStart(_) => {
                    return Err(self.refuse(span, "a second document begins here", self.remedies.second));
                }
                _ => break,
            }
        }
        root.ok_or_else(|| {
            Box::new(Diagnostic::of_file(self.source.path(), "the file is empty", self.remedies.empty))
        })
    }

    fn next(&mut self) -> Read<(Event<'a>, Span)> {
        match self.parser.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => Err(self.not_yaml(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Read<Node> {
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag) => (*anchor, tag.is_some()),
            Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => (*anchor, tag.is_some()),
            Event::Alias(_) => return Err(self.no_anchors(span)),
            _ => (0, false),
        };
        if anchor != 0 {
            return Err(self.no_anchors(span));
        }
        if tag {
            let fix = "take the word with `!` out; what a key holds is known without it";
            return Err(self.refuse(span, "tags of YAML are not read", fix));
        }
        if depth > DEPTH_MAX {
            return Err(self.too_deep(place(span)));
        }
        let place = place(span);
        let content = match event {
            Event::Scalar(text, ScalarStyle::Plain, ..) if is_null(&text) => Content::Null,
            Event::Scalar(text, ..) => Content::Scalar(text.into_owned()),
            Event::SequenceStart(..) => Content::List(self.list(depth)?),
            Event::MappingStart(..) => Content::Map(self.map(depth)?),
            _ => Content::Null,
        };
        let chars = if matches!(content, Content::Scalar(_)) { chars(span) } else { 1 };
        Ok(Node { place, chars, content })
    }

    fn list(&mut self, depth: usize) -> Read<Vec<Node>> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd | Event::StreamEnd, _) => return Ok(items),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Read<Vec<(Key, Node)>> {
        let mut entries = Vec::new();
        let mut seen: BTreeMap<String, Place> = BTreeMap::new();
        loop {
            let (event, span) = self.next()?;
            let name = match &event {
                Event::MappingEnd | Event::StreamEnd => return Ok(entries),
                Event::Scalar(text, _, 0, None) => text.clone().into_owned(),
                Event::Alias(_) => return Err(self.no_anchors(span)),
                Event::Scalar(_, _, anchor, _) if *anchor != 0 => return Err(self.no_anchors(span)),
                _ => {
                    let fix = "write a plain word before the colon; quote a text that begins with { or [";
                    return Err(self.refuse(span, "a key is a word", fix));
                }
            };
            let key = Key { name, place: place(span), chars: chars(span) };
            if let Some(first) = seen.insert(key.name.clone(), key.place) {
                let what = format!("the key {:?} is there twice", excerpt(&key.name));
                let why = format!("it stands in line {} already, and only one of them can count", first.line);
                let fix = "take one of them out";
                self.problems.push(Diagnostic::at(self.source, key.place, key.chars, what, fix).because(why));
            }
            let (event, span) = self.next()?;
            let value = self.node(event, span, depth + 1)?;
            entries.push((key, value));
        }
    }

    fn no_anchors(&self, span: Span) -> Box<Diagnostic> {
        let fix = "write the value out at each place";
        self.refuse(span, "anchors (&) and aliases (*) of YAML are not read", fix)
    }

    fn too_deep(&self, place: Place) -> Box<Diagnostic> {
        let what = format!("this is more than {DEPTH_MAX} levels deep");
        Box::new(Diagnostic::at(self.source, place, 1, what, self.remedies.deep))
    }

    fn refuse(&self, span: Span, what: impl Into<String>, fix: &str) -> Box<Diagnostic> {
        Box::new(Diagnostic::at(self.source, place(span), chars(span), what, fix))
    }

    fn not_yaml(&self, error: &ScanError) -> Box<Diagnostic> {
        let marker = error.marker();
        let mut place = Place { line: marker.line().max(1), column: marker.col() + 1 };
        if error.info().contains("recursion limit") {
            return self.too_deep(place);
        }
        if error.info().contains("unknown anchor") {
            return self.no_anchors(Span::empty(*marker));
        }
        // At the end of the text there is nothing to show; use the last line that is not blank.
        if self.source.line(place.line).is_none_or(|line| line.trim().is_empty()) {
            let lines = self.source.text().lines().enumerate().take(place.line);
            if let Some((index, line)) = lines.filter(|(_, line)| !line.trim().is_empty()).last() {
                place = Place { line: index + 1, column: line.trim_end().chars().count().max(1) };
            }
        }
        // A text that the tab makes invalid may have begun in the line before.
        let tab = (place.line..place.line + 2).find_map(|number| {
            let line = self.source.line(number)?;
            let blanks = line.chars().take_while(|c| c.is_whitespace());
            blanks.collect::<Vec<_>>().iter().position(|c| *c == '\t').map(|tab| (number, tab))
        });
        if let Some((line, tab)) = tab {
            let place = Place { line, column: tab + 1 };
            let fix = "indent with spaces; most editors can be told to do so for YAML";
            let what = "YAML does not allow tabs as indentation";
            return Box::new(Diagnostic::at(self.source, place, 1, what, fix));
        }
        let fix = match error.info() {
            info if info.contains("mapping values are not allowed") || info.contains("implicit") => {
                "put a text that has a colon and a blank in it into quotes, or correct the indentation"
            }
            info if info.contains("quoted scalar") => {
                "close the quote of this line, or of one before it; a quote inside quotes is written \\\" or ''"
            }
            info if info.contains("flow") || info.contains("',' or") => {
                "close every { and [, put commas between, and quote texts that have such characters in them"
            }
            info if info.contains("block mapping")
                || info.contains("block sequence")
                || info.contains("indent") =>
            {
                "give the keys of one table the same indentation, and each a colon with a blank behind it"
            }
            info if info.contains("start any token") => {
                "put a text that begins with one of @ ` % & * ! | > into quotes"
            }
            _ => "correct the file at this place or shortly before it",
        };
        let what = format!("not valid YAML: {}", excerpt(error.info()));
        Box::new(Diagnostic::at(self.source, place, 1, what, fix))
    }
}

fn place(span: Span) -> Place {
    Place { line: span.start.line().max(1), column: span.start.col() + 1 }
}

/// For several lines, all of the first.
fn chars(span: Span) -> usize {
    let is_one_line = span.start.line() == span.end.line();
    if is_one_line { span.end.col().saturating_sub(span.start.col()) } else { usize::MAX }
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Diagnostics;

    fn tree(text: &str) -> Result<Node, Diagnostics> {
        let (root, problems) = read(&Source::new("a.yaml", text), OF_JOB);
        Diagnostics::of(problems).map_or_else(|| Ok(root.unwrap()), Err)
    }

    fn refusal(text: &str) -> String {
        tree(text).unwrap_err().problems()[0].headline()
    }

    /// The tree as text, with places.
    fn shown(node: &Node) -> String {
        let Place { line, column } = node.place;
        match &node.content {
            Content::Null => format!("null@{line}:{column}"),
            Content::Scalar(text) => format!("{text:?}@{line}:{column}+{}", node.chars),
            Content::List(items) => {
                format!("[{}]@{line}:{column}", items.iter().map(shown).collect::<Vec<_>>().join(" "))
            }
            Content::Map(entries) => {
                let entry = |(key, value): &(Key, Node)| {
                    format!("{}@{}:{}={}", key.name, key.place.line, key.place.column, shown(value))
                };
                format!("{{{}}}@{line}:{column}", entries.iter().map(entry).collect::<Vec<_>>().join(" "))
            }
        }
    }

    #[test]
    fn everything_has_its_place() {
        let text = "a: 1\nb:\n  - 'x y'\n  - { c: \"d\" }\ne: |\n  f\ng:\n가: 나\n";

        assert_eq!(
            shown(&tree(text).unwrap()),
            "{a@1:1=\"1\"@1:4+1 b@2:1=[\"x y\"@3:5+5 {c@4:7=\"d\"@4:10+4}@4:5]@3:3 \
             e@5:1=\"f\\n\"@6:3+18446744073709551615 g@7:1=null@7:2 가@8:1=\"나\"@8:4+1}@1:1"
        );
    }

    #[test]
    fn what_job_files_do_not_need_is_refused_with_its_place() {
        let mut wrong = Vec::new();
        for (text, expected) in [
            ("a: &x 1\n", "a.yaml:1:4: anchors"),
            ("a: 1\nb: *x\n", "a.yaml:2:4: anchors"),
            ("a: !!str 1\n", "a.yaml:1:4: tags"),
            ("a: 1\n---\nb: 2\n", "a.yaml:2:1: a second document"),
            ("a: 1\na: 2\n", "a.yaml:2:1: the key \"a\" is there twice"),
            ("[a]: 1\n", "a.yaml:1:1: a key is a word"),
            ("", "a.yaml: the file is empty"),
            ("# only words\n", "a.yaml: the file is empty"),
            ("a:\n\tb: 1\n", "a.yaml:2:1: YAML does not allow tabs"),
            ("a: b: c\n", "a.yaml:1:5: not valid YAML"),
            ("a: 'b\n", "a.yaml:1:4: not valid YAML"),
            ("a: {b: 1\n", "a.yaml:1:8: not valid YAML"),
        ] {
            let found = refusal(text);
            if !found.starts_with(expected) {
                wrong.push(format!("{text:?}: {found}"));
            }
        }
        assert_eq!(wrong, Vec::<String>::new());
    }

    #[test]
    fn a_file_that_is_too_deep_or_too_large_is_refused_quickly() {
        assert!(refusal(&"[".repeat(500_000)).contains("more than 32 levels deep"));
        assert!(refusal(&"- ".repeat(500_000)).contains("more than 32 levels deep"));
        assert!(refusal(&"a: b\n".repeat(300_000)).contains("larger than 1024 KiB"));
    }
}
