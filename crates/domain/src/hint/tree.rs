//! A hint text, and which of its hint comments count.
//!
//! The text is a comment alone or a whole statement. In a statement, the first hint comment after one of five keywords
//! counts, once for each query block. In a text without such a keyword, the first hint comment counts. Clauses outside of
//! comments count too.

use super::clause;
use super::degree::Degree;
use super::directive::{self, Directive};
use super::token::{self, CommentTokens, Node, Token, TokenKind};
use std::ops::Range;

pub const HINT_BYTES_MAX: usize = 64 * 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the hint has {bytes} bytes; {HINT_BYTES_MAX} are allowed")]
pub struct HintTooLong {
    pub bytes: usize,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hint {
    text: String,
    comments: Vec<HintComment>,
    clauses: Vec<Directive>,
    degree: Degree,
    warnings: Vec<Warning>,
}

crate::getters!(Hint {
    &text: str, &comments: [HintComment], &clauses: [Directive], degree: Degree, &warnings: [Warning]
});

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HintComment {
    /// Why it does not count; none if it does.
    pub ignored: Option<Warning>,
    pub span: Range<usize>,
    /// Empty unless the comment counts.
    pub directives: Vec<Directive>,
}

impl Hint {
    /// Reads any text. Hints that make no sense become warnings.
    pub fn parse(text: &str) -> Result<Self, HintTooLong> {
        if text.len() > HINT_BYTES_MAX {
            return Err(HintTooLong { bytes: text.len() });
        }
        let nodes = token::read(text);
        let mut warnings = Warnings::default();
        let mut place = Place::of(text, &nodes);
        let mut comments = Vec::new();
        for node in &nodes {
            match node {
                Node::Plain(token) => {
                    place = place.after(text, token);
                    warn_of_comment(text, token, &mut warnings);
                }
                Node::Comment(tokens) => {
                    comments.push(comment(text, tokens, place.ignores(), &mut warnings));
                    place = place.after_hint();
                }
            }
        }
        // A directive supersedes only those of its own comment.
        let degrees = comments.iter().map(|comment| directive::degree_of(&comment.directives));
        let clauses = clause::read(text, &nodes, &mut warnings);
        let degree = degrees.fold(degree_of_clauses(&clauses), Degree::join);
        Ok(Self { text: text.to_owned(), comments, clauses, degree, warnings: warnings.0 })
    }

    /// The degree of the clauses alone, which stays where hints are lowered or have no effect.
    pub fn clause_degree(&self) -> Degree {
        degree_of_clauses(&self.clauses)
    }

    /// Those of the comments that count, in order.
    pub fn directives(&self) -> impl Iterator<Item = &Directive> {
        self.comments.iter().flat_map(|comment| &comment.directives)
    }
}

fn degree_of_clauses(clauses: &[Directive]) -> Degree {
    clauses.iter().map(|clause| clause.degree).fold(Degree::None, Degree::join)
}

/// The reader's position with respect to hints.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Not in a statement, before any hint.
    Fragment,
    /// Right after a keyword that takes hints.
    AfterWord,
    /// Right after the hint that counts; in a fragment, anywhere after it.
    AfterHint { is_fragment: bool },
    /// Anywhere else in a statement.
    Elsewhere,
}

impl Place {
    fn of(text: &str, nodes: &[Node]) -> Self {
        let is_statement =
            nodes.iter().any(|node| matches!(node, Node::Plain(token) if takes_hints(text, token)));
        if is_statement { Self::Elsewhere } else { Self::Fragment }
    }

    fn ignores(self) -> Option<Warning> {
        match self {
            Self::Fragment | Self::AfterWord => None,
            Self::AfterHint { .. } => Some(Warning::SecondComment),
            Self::Elsewhere => Some(Warning::Misplaced),
        }
    }

    fn after_hint(self) -> Self {
        match self {
            Self::Fragment => Self::AfterHint { is_fragment: true },
            Self::AfterWord => Self::AfterHint { is_fragment: false },
            same => same,
        }
    }

    fn after(self, text: &str, token: &Token) -> Self {
        match (self, token.kind) {
            (_, TokenKind::Space | TokenKind::Comment) => self,
            (Self::Fragment | Self::AfterHint { is_fragment: true }, _) => self,
            _ if takes_hints(text, token) => Self::AfterWord,
            _ => Self::Elsewhere,
        }
    }
}

fn takes_hints(text: &str, token: &Token) -> bool {
    ["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE"].iter().any(|word| token.is_word(text, word))
}

fn comment(
    text: &str,
    tokens: &CommentTokens,
    ignored: Option<Warning>,
    warnings: &mut Warnings,
) -> HintComment {
    let last = tokens.close.as_ref().or(tokens.body.last()).unwrap_or(&tokens.open);
    let span = tokens.open.span.start..last.span.end;
    let directives = match ignored {
        None => directive::read(text, &tokens.body, warnings),
        Some(why) => {
            warnings.add(why);
            Vec::new()
        }
    };
    // A line comment ends with the text.
    if tokens.close.is_none() && !tokens.open.of(text).starts_with('-') {
        warnings.add(Warning::Unterminated);
    }
    HintComment { ignored, span, directives }
}

/// A plain comment that was probably meant as a hint.
fn warn_of_comment(text: &str, token: &Token, warnings: &mut Warnings) {
    if token.kind != TokenKind::Comment {
        return;
    }
    // Both kinds of comment start with two characters.
    let inside = token.of(text)[2..].trim_start();
    if inside.starts_with('+') {
        warnings.add(Warning::SpaceBeforePlus);
    } else if inside.as_bytes().windows(8).any(|word| word.eq_ignore_ascii_case(b"parallel")) {
        warnings.add(Warning::PlainComment);
    }
}

crate::words! {
    /// What is odd about a hint. Oracle does not report it.
    #[derive(Hash)]
    pub enum Warning => text: &'static str {
        SecondComment = "second_comment" => "only the first hint comment counts; others are ignored",
        Misplaced = "misplaced" => "a hint comment that does not follow SELECT, INSERT, UPDATE, DELETE or MERGE is ignored",
        SpaceBeforePlus = "space_before_plus" => "the + must follow the start of the comment without a space; this is not a hint",
        PlainComment = "plain_comment" => "a comment without a + mentions PARALLEL; it is not a hint",
        Unterminated = "unterminated" => "the hint comment is not closed",
        ReservedWord = "reserved_word" => "a reserved word between hints; what follows it is ignored",
        Comma = "comma" => "a comma between hints; Oracle may ignore what follows it, here it counts",
        Unreadable = "unreadable" => "a parallel hint cannot be read; the most that it could mean counts",
        ZeroDegree = "zero_degree" => "0 is not a degree; the default degree counts",
        TooLarge = "too_large" => "a number is too large; it counts as 4294967295",
        Instances = "instances" => "a second number multiplies the degree by a number of instances",
        Contradiction = "contradiction" => "parallel hints contradict each other; the greatest degree counts",
        NoStatementQueuing = "no_statement_queuing" => "NO_STATEMENT_QUEUING bypasses the queue for parallel servers",
        ParallelParameter = "parallel_parameter" => "OPT_PARAM sets a parameter of parallel execution, which may bypass limits",
        Clause = "clause" => "a PARALLEL clause or ALTER SESSION outside of hints counts too; it cannot be lowered, so its degree is granted whole",
        NumberCounts = "number_counts" => "the number of the request is not the degree of the hint; the number counts, because it comes before the hint",
        HintCounts = "hint_counts" => "the number of the request is less than the degree of the hint; the degree counts, because it cannot be lowered",
    }
}

/// Each warning once, in order.
#[derive(Default)]
pub(super) struct Warnings(pub(super) Vec<Warning>);

impl Warnings {
    pub(super) fn add(&mut self, warning: Warning) {
        if !self.0.contains(&warning) {
            self.0.push(warning);
        }
    }
}
