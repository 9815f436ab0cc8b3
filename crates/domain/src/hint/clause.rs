//! Parallel clauses outside of hints: `PARALLEL 8` and `PARALLEL (DEGREE 8 INSTANCES 2)` of `CREATE` and `ALTER`, and
//! `ALTER SESSION FORCE PARALLEL QUERY`.
//!
//! `PARALLEL` is not a reserved word. Where it could be a clause, it counts as one. In a query it is a name, and the
//! query of a `CREATE` comes after its clauses.

use super::argument::{self, ValueWord};
use super::degree::Degree;
use super::directive::{self, Directive, DirectiveName, Form, Level};
use super::token::{Node, Token, TokenKind};
use super::tree::{Warning, Warnings};

pub(super) fn read<'t>(text: &str, nodes: &'t [Node], warnings: &mut Warnings) -> Vec<Directive> {
    let plain = |node: &'t Node| match node {
        Node::Plain(token) if !matches!(token.kind, TokenKind::Space | TokenKind::Comment) => Some(token),
        _ => None,
    };
    let tokens: Vec<&Token> = nodes.iter().filter_map(plain).collect();
    let reader = Reader { text, tokens: &tokens };
    let first = tokens.iter().position(|token| token.kind == TokenKind::Word);
    let queries = ["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH"];
    let mut is_query = first.is_some_and(|first| reader.is(first, &queries));
    let mut clauses = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if reader.is(at, &["CREATE", "ALTER"]) {
            is_query = false;
        } else if reader.is(at, &["SELECT"]) {
            is_query = true;
        }
        if is_query || !reader.is(at, &["PARALLEL"]) {
            at += 1;
            continue;
        }
        let (degree, next) = reader.degree(at, warnings);
        if degree != Degree::None {
            warnings.add(Warning::Clause);
            clauses.push(Directive {
                name: DirectiveName::Parallel,
                level: Level::Clause,
                degree,
                span: tokens[at].span.start..tokens[next - 1].span.end,
                form: Form::Unreadable,
            });
        }
        at = next;
    }
    clauses
}

struct Reader<'t> {
    text: &'t str,
    tokens: &'t [&'t Token],
}

impl Reader<'_> {
    /// Whether one of these words is at `at`, perhaps right after a number.
    fn is(&self, at: usize, words: &[&str]) -> bool {
        self.tokens.get(at).is_some_and(|token| {
            let found = &token.of(self.text)[digits(self.text, token)..];
            token.kind == TokenKind::Word && words.iter().any(|word| found.eq_ignore_ascii_case(word))
        })
    }

    /// The degree of the clause whose `PARALLEL` is at `at`, and where to continue.
    fn degree(&self, at: usize, warnings: &mut Warnings) -> (Degree, usize) {
        let Some(&next) = self.tokens.get(at + 1) else { return (Degree::Default, at + 1) };
        if self.is(at + 1, &["QUERY", "DML", "DDL"]) {
            let is_disabled = at > 0 && self.is(at - 1, &["DISABLE"]);
            // A degree follows as a clause of its own.
            let has_degree = self.is(at + 2, &["PARALLEL"]);
            let degree = if is_disabled || has_degree { Degree::None } else { Degree::Default };
            return (degree, at + 2);
        }
        if next.is_sign(self.text, "(") {
            let is_end =
                |token: &&Token| token.is_sign(self.text, ")") || token.is_word(self.text, "PARALLEL");
            let all = &self.tokens[at + 2..];
            let inside = &all[..all.iter().position(is_end).unwrap_or(all.len())];
            let end = at + 2 + inside.len();
            let is_closed = self.tokens.get(end).is_some_and(|token| token.is_sign(self.text, ")"));
            let values = self.values(inside).filter(|_| is_closed);
            return (self.degree_of(inside, values, warnings), end + usize::from(is_closed));
        }
        match leading_number(self.text, next) {
            Some(_) => (self.degree_of(&[next], self.values(&[next]), warnings), at + 2),
            None => (Degree::Default, at + 1),
        }
    }

    fn degree_of(
        &self,
        inside: &[&Token],
        values: Option<Vec<ValueWord>>,
        warnings: &mut Warnings,
    ) -> Degree {
        if inside.iter().any(|token| argument::is_too_large(self.text, token)) {
            warnings.add(Warning::TooLarge);
        }
        match values {
            Some(values) => directive::degree_for_object(&values, warnings),
            None => {
                warnings.add(Warning::Unreadable);
                let numbers = inside.iter().filter_map(|token| leading_number(self.text, token));
                directive::default_or(numbers.max().unwrap_or(0))
            }
        }
    }

    /// The degree, and the instances if there are any. None if they cannot be read.
    fn values(&self, inside: &[&Token]) -> Option<Vec<ValueWord>> {
        let value = |token: &Token| argument::value_word(self.text, token);
        let is = |token: &Token, word| token.is_word(self.text, word);
        let inside: Vec<&Token> =
            inside.iter().filter(|token| !token.is_sign(self.text, ",")).copied().collect();
        match *inside {
            [degree] => Some(vec![value(degree)?]),
            [name, degree] if is(name, "DEGREE") => Some(vec![value(degree)?]),
            [name, instances] if is(name, "INSTANCES") => Some(vec![ValueWord::Default, value(instances)?]),
            [first, degree, second, instances] if is(first, "DEGREE") && is(second, "INSTANCES") => {
                Some(vec![value(degree)?, value(instances)?])
            }
            [first, instances, second, degree] if is(first, "INSTANCES") && is(second, "DEGREE") => {
                Some(vec![value(degree)?, value(instances)?])
            }
            _ => None,
        }
    }
}

/// How many digits it begins with: Oracle reads `8AS` as `8 AS`.
fn digits(text: &str, token: &Token) -> usize {
    token.of(text).bytes().take_while(u8::is_ascii_digit).count()
}

fn leading_number(text: &str, token: &Token) -> Option<u32> {
    let digits = &token.of(text)[..digits(text, token)];
    // Digits that do not parse are too large a number.
    (!digits.is_empty()).then(|| digits.parse().unwrap_or(u32::MAX))
}
