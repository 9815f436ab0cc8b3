//! Splits a hint text into tokens. Every byte belongs to exactly one token, so the text can be rebuilt.
//!
//! Runs in linear time: a quote without an end is searched only once, because no second one of its kind follows.

use std::ops::Range;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TokenKind {
    Space,
    /// Letters, digits, `_`, `$` and `#`.
    Word,
    Number,
    /// `"…"`.
    Identifier,
    /// `'…'`, or `q'[…]'` outside of hints.
    Text,
    Comment,
    /// `/*+`, `--+`, and their ends.
    Edge,
    Sign,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) span: Range<usize>,
}

impl Token {
    pub(super) fn of<'t>(&self, text: &'t str) -> &'t str {
        &text[self.span.clone()]
    }

    pub(super) fn is_sign(&self, text: &str, sign: &str) -> bool {
        self.kind == TokenKind::Sign && self.of(text) == sign
    }

    pub(super) fn is_word(&self, text: &str, word: &str) -> bool {
        self.kind == TokenKind::Word && self.of(text).eq_ignore_ascii_case(word)
    }
}

/// A token of the statement, or a hint comment with its tokens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Node {
    Plain(Token),
    Comment(CommentTokens),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CommentTokens {
    pub(super) open: Token,
    pub(super) body: Vec<Token>,
    /// None where the text ends first.
    pub(super) close: Option<Token>,
}

pub(super) fn read(text: &str) -> Vec<Node> {
    let mut reader = Reader { text, at: 0, has_open_alternative: false };
    let mut nodes = Vec::new();
    while reader.at < text.len() {
        nodes.push(reader.node());
    }
    nodes
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// A `q'[` without an end was found. No other is searched, or the time would be quadratic.
    has_open_alternative: bool,
}

impl Reader<'_> {
    fn node(&mut self) -> Node {
        let rest = &self.text[self.at..];
        if rest.starts_with("/*+") {
            return self.hint("*/");
        }
        if rest.starts_with("--+") {
            return self.hint("\n");
        }
        if let Some(behind) = rest.strip_prefix("/*") {
            let length = behind.find("*/").map_or(rest.len(), |found| found + 4);
            return Node::Plain(self.take(TokenKind::Comment, length));
        }
        if rest.starts_with("--") {
            let length = rest.find('\n').unwrap_or(rest.len());
            return Node::Plain(self.take(TokenKind::Comment, length));
        }
        let token = match self.alternative_length() {
            Some(length) => self.take(TokenKind::Text, length),
            None => self.word(self.text.len()),
        };
        Node::Plain(token)
    }

    fn hint(&mut self, end: &str) -> Node {
        let open = self.take(TokenKind::Edge, 3);
        let found = self.text[self.at..].find(end);
        let limit = found.map_or(self.text.len(), |length| self.at + length);
        let mut body = Vec::new();
        while self.at < limit {
            body.push(self.word(limit));
        }
        let close = found.map(|_| self.take(TokenKind::Edge, end.len()));
        Node::Comment(CommentTokens { open, body, close })
    }

    /// The next token before `limit`. There must be one.
    fn word(&mut self, limit: usize) -> Token {
        let rest = &self.text[self.at..limit];
        let run = |belongs: fn(char) -> bool| rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        let first = rest.chars().next().unwrap_or_default();
        if first.is_whitespace() {
            return self.take(TokenKind::Space, run(char::is_whitespace));
        }
        if is_of_word(first) {
            let length = run(is_of_word);
            let is_number = rest[..length].bytes().all(|byte| byte.is_ascii_digit());
            return self.take(if is_number { TokenKind::Number } else { TokenKind::Word }, length);
        }
        // A quote without an end is ignored: the text after it is read as usual.
        if let ('"' | '\'', Some(found)) = (first, rest.get(1..).and_then(|behind| behind.find(first))) {
            return self.take(if first == '"' { TokenKind::Identifier } else { TokenKind::Text }, found + 2);
        }
        self.take(TokenKind::Sign, first.len_utf8())
    }

    /// The length of a string such as `q'[…]'` that begins here.
    fn alternative_length(&mut self) -> Option<usize> {
        let rest = &self.text[self.at..];
        if self.has_open_alternative {
            return None;
        }
        let behind =
            rest.strip_prefix(['n', 'N']).unwrap_or(rest).strip_prefix(['q', 'Q'])?.strip_prefix('\'')?;
        let opening = behind.chars().next().filter(|c| !c.is_whitespace())?;
        let closing = match opening {
            '[' => ']',
            '(' => ')',
            '{' => '}',
            '<' => '>',
            same => same,
        };
        let begin = rest.len() - behind.len() + opening.len_utf8();
        let end = String::from_iter([closing, '\'']);
        let found = rest[begin..].find(&end);
        self.has_open_alternative = found.is_none();
        found.map(|length| begin + length + end.len())
    }

    fn take(&mut self, kind: TokenKind, length: usize) -> Token {
        let begin = self.at;
        self.at += length;
        Token { kind, span: begin..self.at }
    }
}

pub(super) fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '#')
}
