//! Items: what a step reads, processes and writes, one by one; and what can go wrong with one of them.
//!
//! A typed item is any type of the author's. [`Row`] is the item of those who have none: named [`Value`]s, as
//! they come out of a table or a file.

mod json;
mod row;
mod value;

pub use row::{FromValue, Row, RowError};
pub use value::{Decimal, NotADecimal, Value};

use crate::code::Code;
use crate::error_chain::ErrorChain;
use std::borrow::Cow;
use std::error::Error;

/// What sort of error it is. Skip and retry are decided by it.
///
/// The kinds below are used by the product's own readers, processors and writers; authors may add their own.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ErrorKind(Cow<'static, str>);

impl ErrorKind {
    /// The input does not have the form that was agreed.
    pub const PARSE: Self = Self(Cow::Borrowed("parse"));
    /// The form is right, the content is not.
    pub const VALIDATION: Self = Self(Cow::Borrowed("validation"));
    /// A read failed for a reason that has no kind of its own.
    pub const READ: Self = Self(Cow::Borrowed("read"));
    /// A processor failed for a reason that has no kind of its own.
    pub const PROCESS: Self = Self(Cow::Borrowed("process"));
    /// A write failed for a reason that has no kind of its own.
    pub const WRITE: Self = Self(Cow::Borrowed("write"));
    /// The database refused a row: a duplicate, a missing parent, a failed check.
    pub const CONSTRAINT: Self = Self(Cow::Borrowed("constraint"));
    /// It may well succeed the next time: a deadlock, a serialization failure, a lost connection, a timeout.
    pub const TRANSIENT: Self = Self(Cow::Borrowed("transient"));
    /// Going on makes no sense, whatever skip and retry say.
    pub const FATAL: Self = Self(Cow::Borrowed("fatal"));
    /// Not said. Counts as the kind of the phase in which it happened.
    const UNSPECIFIED: Self = Self(Cow::Borrowed(""));

    /// A kind of the author's own, such as `insufficient-funds`.
    pub const fn custom(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// A kind by its name, as it stands in a file or on a command line.
    pub fn named(name: &str) -> Self {
        Self(Cow::Owned(name.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

crate::newtype::display!(ErrorKind, kind => "{}", kind.0);

crate::words! {
    /// What a step was doing with an item.
    #[derive(Hash)]
    pub enum Phase {
        Read = "read",
        Process = "process",
        Write = "write",
    }
}

impl Phase {
    /// The kind of an error in this phase that says no other.
    pub const fn kind(self) -> ErrorKind {
        match self {
            Self::Read => ErrorKind::READ,
            Self::Process => ErrorKind::PROCESS,
            Self::Write => ErrorKind::WRITE,
        }
    }
}

/// An item could not be read, processed or written.
///
/// Any error becomes one by `?`. Its kind is then that of the phase in which it happened; say another with
/// [`ItemError::new`] or [`ItemError::of`].
#[derive(Debug)]
pub struct ItemError {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    origin: Option<Box<Origin>>,
    code: Option<Code>,
}

/// Where an item that failed came from, so that it can be found and mended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// File and line, table and key, or whatever leads there.
    pub place: String,
    /// The item as it stood there.
    pub raw: String,
}

impl ItemError {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None, origin: None, code: None }
    }

    /// An error of this kind, caused by another.
    pub fn of(kind: ErrorKind, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let source = source.into();
        Self { kind, message: source.to_string(), source: Some(source), origin: None, code: None }
    }

    /// An error after which going on makes no sense.
    pub fn fatal(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::of(ErrorKind::FATAL, source)
    }

    /// The same error, with a code: when it ends a step, that is what the step has failed with.
    #[must_use]
    pub fn coded(mut self, code: Code) -> Self {
        self.code = Some(code);
        self
    }

    /// The same error, with the place that the item came from.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>, raw: impl Into<String>) -> Self {
        self.origin = Some(Box::new(Origin { place: place.into(), raw: raw.into() }));
        self
    }

    /// Its kind; when it says none, that of the phase.
    pub fn kind_in(&self, phase: Phase) -> ErrorKind {
        if self.kind == ErrorKind::UNSPECIFIED { phase.kind() } else { self.kind.clone() }
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn source(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.source.as_deref()
    }

    /// Its code, where it has one of its own.
    pub const fn code(&self) -> Option<Code> {
        self.code
    }

    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_deref()
    }

    /// The message, and those of its causes that say more.
    pub fn text(&self) -> String {
        let mut text = match self.source.as_deref() {
            Some(source) => ErrorChain(source).to_string(),
            None => self.message.clone(),
        };
        if let Some(origin) = &self.origin {
            text.push_str(" (");
            text.push_str(&origin.place);
            text.push(')');
        }
        text
    }
}

/// Not an [`Error`] itself, so that every error can become one by `?`.
impl<E: Error + Send + Sync + 'static> From<E> for ItemError {
    fn from(source: E) -> Self {
        Self::of(ErrorKind::UNSPECIFIED, source)
    }
}

crate::newtype::display!(ItemError, error => "{}", error.text());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_says_no_kind_has_that_of_its_phase() {
        let parsed: Result<i64, ItemError> = "x".parse::<i64>().map_err(Into::into);

        let error = parsed.unwrap_err();

        assert_eq!(error.kind_in(Phase::Process), ErrorKind::PROCESS);
        assert_eq!(error.kind_in(Phase::Read), ErrorKind::READ);
        assert_eq!(ItemError::new(ErrorKind::PARSE, "no").kind_in(Phase::Read), ErrorKind::PARSE);
    }

    #[test]
    fn the_text_tells_the_causes_and_the_place() {
        let error = ItemError::new(ErrorKind::PARSE, "amount is empty").at("in.csv line 7", "a;;b");

        assert_eq!(error.to_string(), "amount is empty (in.csv line 7)");
        assert_eq!(error.origin().map(|origin| origin.raw.as_str()), Some("a;;b"));
    }
}
