//! The arguments of a parallel directive.

use super::token::{Token, TokenKind};
use std::ops::Range;

pub(super) enum Arguments {
    /// `(8)`, `(DEFAULT)`, `(AUTO)`, `(MANUAL)`: for the whole statement.
    Statement(Value),
    /// `(A)`, `(A, 8)`, `(@SEL$1 A@SEL$1 8 2)`: for one object, with degree and instances. A degree can be inserted at `end`.
    Object { values: Vec<Value>, end: usize },
}

pub(super) struct Value {
    pub(super) word: ValueWord,
    pub(super) span: Range<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ValueWord {
    Number(u32),
    Default,
    Auto,
    Manual,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Grammar {
    /// A value, or an object with values.
    Parallel,
    Index,
}

/// None if the arguments do not follow the grammar.
pub(super) fn read(text: &str, tokens: &[Token], grammar: Grammar) -> Option<Arguments> {
    let tokens: Vec<&Token> = tokens.iter().filter(|token| token.kind != TokenKind::Space).collect();
    if let ([only], Grammar::Parallel) = (&*tokens, grammar)
        && let Some(word) = value_word(text, only)
    {
        return Some(Arguments::Statement(Value { word, span: only.span.clone() }));
    }
    let mut cursor = Cursor { text, tokens: &tokens, end: 0 };
    if cursor.sign("@") {
        cursor.name()?;
    }
    cursor.object()?;
    if grammar == Grammar::Index {
        cursor.indexes()?;
    }
    let values = cursor.values()?;
    (cursor.tokens.is_empty() && values.len() <= 2).then_some(Arguments::Object { values, end: cursor.end })
}

pub(super) fn number(text: &str, token: &Token) -> Option<u32> {
    // Digits that do not parse are too large a number.
    (token.kind == TokenKind::Number).then(|| token.of(text).parse().unwrap_or(u32::MAX))
}

pub(super) fn is_too_large(text: &str, token: &Token) -> bool {
    token.kind == TokenKind::Number && token.of(text).parse::<u32>().is_err()
}

pub(super) fn value_word(text: &str, token: &Token) -> Option<ValueWord> {
    let is = |word| token.is_word(text, word);
    match number(text, token) {
        Some(number) => Some(ValueWord::Number(number)),
        None if is("DEFAULT") => Some(ValueWord::Default),
        None if is("AUTO") => Some(ValueWord::Auto),
        None if is("MANUAL") => Some(ValueWord::Manual),
        None => None,
    }
}

struct Cursor<'t> {
    text: &'t str,
    tokens: &'t [&'t Token],
    /// The end of the last token taken.
    end: usize,
}

impl Cursor<'_> {
    fn take_if(&mut self, matches: impl Fn(&Token) -> bool) -> Option<Range<usize>> {
        let (first, rest) = self.tokens.split_first().filter(|(first, _)| matches(first))?;
        self.tokens = rest;
        self.end = first.span.end;
        Some(first.span.clone())
    }

    fn sign(&mut self, sign: &str) -> bool {
        let text = self.text;
        self.take_if(|token| token.is_sign(text, sign)).is_some()
    }

    /// Quoted or not. `DEFAULT` is reserved, so it is a value.
    fn name(&mut self) -> Option<()> {
        let text = self.text;
        let is_plain = |token: &Token| {
            token.kind == TokenKind::Word
                && !token.of(text).starts_with(|c: char| c.is_ascii_digit())
                && !token.is_word(text, "DEFAULT")
        };
        self.take_if(|token| token.kind == TokenKind::Identifier || is_plain(token)).map(|_| ())
    }

    /// A table or alias, optionally within views or a query block.
    fn object(&mut self) -> Option<()> {
        self.name()?;
        while self.sign(".") {
            self.name()?;
        }
        if self.sign("@") { self.name() } else { Some(()) }
    }

    /// Indexes by name, or by their columns in parentheses. A comma may precede each.
    fn indexes(&mut self) -> Option<()> {
        loop {
            let before = (self.tokens, self.end);
            self.sign(",");
            if self.name().is_some() {
                while self.sign(".") {
                    self.name()?;
                }
            } else if self.sign("(") {
                while !self.sign(")") {
                    self.take_if(|_| true)?;
                }
            } else {
                // The comma belongs to a value.
                (self.tokens, self.end) = before;
                return Some(());
            }
        }
    }

    /// The values up to the end. A comma may precede each.
    fn values(&mut self) -> Option<Vec<Value>> {
        let text = self.text;
        let mut values = Vec::new();
        while !self.tokens.is_empty() {
            self.sign(",");
            let Some(first) = self.tokens.first() else { break };
            let is_of_object = |word: &ValueWord| matches!(word, ValueWord::Number(_) | ValueWord::Default);
            let word = value_word(text, first).filter(is_of_object)?;
            values.push(Value { word, span: self.take_if(|_| true)? });
        }
        Some(values)
    }
}
