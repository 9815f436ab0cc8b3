//! The parallel directives of a hint comment, read from left to right like Oracle does.

use super::argument::{self, Arguments, Grammar, ValueWord};
use super::degree::Degree;
use super::token::{Token, TokenKind};
use super::tree::{Warning, Warnings};
use std::num::NonZeroU32;
use std::ops::Range;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Directive {
    pub name: DirectiveName,
    pub level: Level,
    pub degree: Degree,
    /// In bytes of the text.
    pub span: Range<usize>,
    pub(super) form: Form,
}

crate::words! {
    /// `NOPARALLEL` and `NOPARALLEL_INDEX` are older spellings, `SHARED` is an internal name of `PARALLEL`.
    #[derive(Hash)]
    pub enum DirectiveName {
        Parallel = "PARALLEL",
        NoParallel = "NO_PARALLEL",
        ParallelIndex = "PARALLEL_INDEX",
        NoParallelIndex = "NO_PARALLEL_INDEX",
    }

    #[derive(Hash)]
    pub enum Level {
        Statement = "statement",
        /// A table or an index.
        Object = "object",
        /// Not in a hint.
        Clause = "clause",
    }
}

impl DirectiveName {
    fn of(text: &str, token: &Token) -> Option<Self> {
        let spellings = [
            ("PARALLEL", Self::Parallel),
            ("SHARED", Self::Parallel),
            ("NO_PARALLEL", Self::NoParallel),
            ("NOPARALLEL", Self::NoParallel),
            ("PARALLEL_INDEX", Self::ParallelIndex),
            ("NO_PARALLEL_INDEX", Self::NoParallelIndex),
            ("NOPARALLEL_INDEX", Self::NoParallelIndex),
        ];
        spellings.into_iter().find(|(word, _)| token.is_word(text, word)).map(|(_, name)| name)
    }
}

/// Where the degree is in the text, for rewriting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// It only limits, so there is nothing to lower.
    Limit,
    /// With or without a value for the whole statement.
    Statement { word: Range<usize>, value: Option<Range<usize>> },
    /// The spans that are written. A degree can be inserted at `end`.
    Object { degree: Option<Range<usize>>, instances: Option<Range<usize>>, end: usize },
    /// Not in the grammar, or not in a hint: it stays as written.
    Unreadable,
}

impl Directive {
    /// Whether it disables directives for objects in the same comment. The manual says so for `PARALLEL` but not for
    /// `NO_PARALLEL`, so there the greater degree counts.
    pub(super) fn supersedes(&self) -> bool {
        let is_certain =
            matches!(self.degree, Degree::Exact(_) | Degree::AtLeastTwo | Degree::Default | Degree::Auto);
        self.level == Level::Statement && is_certain
    }
}

pub(super) fn degree_of(directives: &[Directive]) -> Degree {
    let is_superseded = directives.iter().any(Directive::supersedes);
    let counts = |directive: &&Directive| {
        !is_superseded || directive.level == Level::Statement || directive.form == Form::Unreadable
    };
    directives.iter().filter(counts).map(|directive| directive.degree).fold(Degree::None, Degree::join)
}

/// Some reserved words of Oracle that are not hints (`INDEX` and `CLUSTER` are both).
const RESERVED: [&str; 47] = [
    "ALL", "ALTER", "AND", "ANY", "AS", "ASC", "BETWEEN", "BY", "CHECK", "CONNECT", "CREATE", "DEFAULT",
    "DELETE", "DESC", "DISTINCT", "DROP", "ELSE", "EXISTS", "FOR", "FROM", "GRANT", "GROUP", "HAVING", "IN",
    "INSERT", "INTO", "IS", "LIKE", "LOCK", "MINUS", "NOT", "NULL", "OF", "ON", "OR", "ORDER", "REVOKE",
    "SELECT", "SET", "TABLE", "THEN", "TO", "UNION", "UPDATE", "VALUES", "WHERE", "WITH",
];

pub(super) fn read(text: &str, body: &[Token], warnings: &mut Warnings) -> Vec<Directive> {
    let reader = Reader { text, body, closes: closing(text, body) };
    let mut directives = Vec::new();
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(token) = body.get(at) {
        let is_call = reader.parenthesis(at).is_some();
        if token.is_sign(text, "(") && reader.closes[at].is_some() {
            depth += 1;
        } else if token.is_sign(text, ")") {
            depth = depth.saturating_sub(1);
        } else if token.is_sign(text, ",") && depth == 0 {
            warnings.add(Warning::Comma);
        } else if let Some(name) = DirectiveName::of(text, token).filter(|_| depth == 0 || is_call) {
            // Within the arguments of another hint, `PARALLEL` alone is an alias; with arguments it cannot be one.
            let (directive, next) = reader.directive(at, name, warnings);
            directives.push(if depth == 0 { directive } else { nested(directive, warnings) });
            at = next;
            continue;
        } else if token.is_word(text, "OPT_PARAM") {
            if reader.is_parallel_parameter(at) {
                warnings.add(Warning::ParallelParameter);
            }
        } else if depth == 0 && token.is_word(text, "NO_STATEMENT_QUEUING") {
            warnings.add(Warning::NoStatementQueuing);
        } else if depth == 0 && RESERVED.iter().any(|word| token.is_word(text, word)) {
            warnings.add(Warning::ReservedWord);
            break;
        }
        at += 1;
    }
    warn_of_contradictions(&directives, warnings);
    directives
}

/// A directive within the arguments of another hint: it is unknown whether Oracle reads it.
fn nested(directive: Directive, warnings: &mut Warnings) -> Directive {
    if directive.form == Form::Limit {
        return directive;
    }
    warnings.add(Warning::Unreadable);
    let degree = directive.degree.join(default_or(0));
    Directive { level: Level::Object, degree, form: Form::Unreadable, ..directive }
}

fn warn_of_contradictions(directives: &[Directive], warnings: &mut Warnings) {
    let mut asked = directives.iter().filter(|directive| directive.degree != Degree::None);
    let is_serial = directives.iter().any(|directive| directive.degree == Degree::Serial);
    let mut of_statement = directives.iter().filter(|directive| directive.level == Level::Statement);
    let first = of_statement.next();
    if (is_serial && asked.any(|directive| directive.degree != Degree::Serial))
        || of_statement.any(|other| first.is_some_and(|first| first.degree != other.degree))
    {
        warnings.add(Warning::Contradiction);
    }
}

#[derive(Clone, Copy)]
struct Close {
    at: usize,
    /// It contains no other parenthesis.
    is_flat: bool,
}

/// The closing parenthesis of each opening one.
fn closing(text: &str, body: &[Token]) -> Vec<Option<Close>> {
    let (mut closes, mut open, mut last) = (vec![None; body.len()], Vec::new(), None);
    for (at, token) in body.iter().enumerate() {
        if token.is_sign(text, "(") {
            open.push(at);
            last = Some(at);
        } else if token.is_sign(text, ")") {
            if let Some(opened) = open.pop() {
                closes[opened] = Some(Close { at, is_flat: last == Some(opened) });
            }
            last = Some(at);
        }
    }
    closes
}

struct Reader<'t> {
    text: &'t str,
    body: &'t [Token],
    closes: Vec<Option<Close>>,
}

impl Reader<'_> {
    /// The opening parenthesis after a word, perhaps after a space.
    fn parenthesis(&self, at: usize) -> Option<usize> {
        let next = self.after_space(at + 1);
        self.body.get(next).filter(|token| token.is_sign(self.text, "(")).map(|_| next)
    }

    fn after_space(&self, at: usize) -> usize {
        at + usize::from(self.body.get(at).is_some_and(|token| token.kind == TokenKind::Space))
    }

    fn is_parallel_parameter(&self, at: usize) -> bool {
        let first = self.parenthesis(at).and_then(|open| self.body.get(self.after_space(open + 1)));
        first.is_some_and(|token| {
            let name = token.of(self.text).trim_matches(['\'', '"', ' ']).trim_start_matches('_');
            name.get(..8).is_some_and(|begin| begin.eq_ignore_ascii_case("parallel"))
        })
    }

    /// The directive whose name is at `at`, and where to continue.
    fn directive(&self, at: usize, name: DirectiveName, warnings: &mut Warnings) -> (Directive, usize) {
        let is_limit = matches!(name, DirectiveName::NoParallel | DirectiveName::NoParallelIndex);
        let open = self.parenthesis(at);
        let close = open.and_then(|open| self.closes[open]);
        let (next, arguments) = match (open, close) {
            (None, _) => (at + 1, None),
            // The arguments may contain a directive, which a limit must not hide.
            (Some(_), close) if is_limit && !close.is_some_and(|close| close.is_flat) => {
                (at + 1, Some(&[][..]))
            }
            (Some(open), Some(close)) => (close.at + 1, self.body.get(open + 1..close.at)),
            // Everything that follows may be an argument.
            (Some(open), None) => (self.body.len(), self.body.get(open + 1..)),
        };
        let all = arguments.unwrap_or_default();
        if all.iter().any(|token| argument::is_too_large(self.text, token)) {
            warnings.add(Warning::TooLarge);
        }
        let grammar = match name {
            DirectiveName::Parallel | DirectiveName::NoParallel => Grammar::Parallel,
            DirectiveName::ParallelIndex | DirectiveName::NoParallelIndex => Grammar::Index,
        };
        let is_closed = open.is_some() == close.is_some();
        let read = arguments.filter(|_| is_closed).and_then(|all| argument::read(self.text, all, grammar));
        let word = self.body[at].span.clone();
        let (level, degree, form) = match (name, arguments, read) {
            (DirectiveName::NoParallel, None, _) => (Level::Statement, Degree::Serial, Form::Limit),
            // It is about one object only.
            (DirectiveName::NoParallel | DirectiveName::NoParallelIndex, _, read) => {
                if !matches!(read, Some(Arguments::Object { .. })) {
                    warnings.add(Warning::Unreadable);
                }
                (Level::Object, Degree::None, Form::Limit)
            }
            (DirectiveName::Parallel, None, _) => {
                (Level::Statement, Degree::AtLeastTwo, Form::Statement { word, value: None })
            }
            (_, _, Some(Arguments::Statement(value))) => {
                let degree = match value.word {
                    ValueWord::Number(number) => exact(number, warnings),
                    ValueWord::Default => Degree::Default,
                    ValueWord::Auto => Degree::Auto,
                    ValueWord::Manual => Degree::Manual,
                };
                (Level::Statement, degree, Form::Statement { word, value: Some(value.span) })
            }
            (_, _, Some(Arguments::Object { values, end })) => {
                let words: Vec<ValueWord> = values.iter().map(|value| value.word).collect();
                let degree = degree_for_object(&words, warnings);
                let mut spans = values.into_iter().map(|value| value.span);
                (Level::Object, degree, Form::Object { degree: spans.next(), instances: spans.next(), end })
            }
            (_, _, None) => {
                warnings.add(Warning::Unreadable);
                let numbers = all.iter().filter_map(|token| argument::number(self.text, token));
                (Level::Object, default_or(numbers.max().unwrap_or(0)), Form::Unreadable)
            }
        };
        let span = self.body[at].span.start..self.body[next - 1].span.end;
        (Directive { name, level, degree, span, form }, next)
    }
}

pub(super) fn default_or(number: u32) -> Degree {
    Degree::DefaultOr(NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN))
}

/// The database decides if the degree is invalid.
fn exact(number: u32, warnings: &mut Warnings) -> Degree {
    if number == 0 {
        warnings.add(Warning::ZeroDegree);
    }
    NonZeroU32::new(number).map_or(default_or(0), Degree::Exact)
}

pub(super) fn degree_for_object(words: &[ValueWord], warnings: &mut Warnings) -> Degree {
    if words.len() > 1 {
        warnings.add(Warning::Instances);
    }
    match *words {
        [ValueWord::Number(degree)] => exact(degree, warnings),
        [ValueWord::Number(degree), ValueWord::Number(instances)] if degree > 0 && instances > 0 => {
            exact(degree.saturating_mul(instances), warnings)
        }
        [ValueWord::Number(degree), ValueWord::Number(instances)] => {
            warnings.add(Warning::ZeroDegree);
            default_or(degree.max(instances))
        }
        [ValueWord::Number(degree), _] => default_or(degree),
        [_, ValueWord::Number(instances)] => default_or(instances),
        _ => Degree::Default,
    }
}
