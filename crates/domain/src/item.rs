//! Items: what a step reads, processes and writes, one by one; and what can go wrong with one of them.
//!
//! An item can have any type. [`Row`] is for jobs without a type: named [`Value`]s from a table or a file.

mod columnar;
mod order;
mod row;
mod rule;
mod value;

pub use columnar::{BadFieldType, Codec, ColumnarFormat, ColumnarKind, DIGITS_MAX, FieldType};
pub use order::Direction;
pub use row::{FromValue, Row, RowError};
pub use rule::{ColumnRules, ColumnType, is_missing};
pub use value::{Decimal, NotADecimal, Value};

use crate::code::Code;
use crate::error_chain::ErrorChain;
use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Decides on skip and retry. Tidemill's own components use the kinds below; you can add others.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ErrorKind(Cow<'static, str>);

impl ErrorKind {
    /// The input does not have the agreed format.
    pub const PARSE: Self = Self(Cow::Borrowed("parse"));
    /// The format is right, the content is not.
    pub const VALIDATION: Self = Self(Cow::Borrowed("validation"));
    /// Any other failed read.
    pub const READ: Self = Self(Cow::Borrowed("read"));
    /// Any other failed processing.
    pub const PROCESS: Self = Self(Cow::Borrowed("process"));
    /// Any other failed write.
    pub const WRITE: Self = Self(Cow::Borrowed("write"));
    /// The database refused a row: a duplicate, a missing parent, a failed check.
    pub const CONSTRAINT: Self = Self(Cow::Borrowed("constraint"));
    /// May succeed the next time: a deadlock, a serialization failure, a lost connection, a timeout.
    pub const TRANSIENT: Self = Self(Cow::Borrowed("transient"));
    /// Ends the step, whatever skip and retry allow.
    pub const FATAL: Self = Self(Cow::Borrowed("fatal"));
    /// Counts as the kind of the phase in which it happened.
    const UNSPECIFIED: Self = Self(Cow::Borrowed(""));

    /// Your own kind, such as `insufficient-funds`.
    pub const fn custom(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// A kind by its name, as in a file or on a command line.
    pub fn named(name: &str) -> Self {
        Self(Cow::Owned(name.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

crate::newtype::display!(ErrorKind, kind => "{}", kind.0);

crate::words! {
    #[derive(Hash)]
    pub enum Phase => kind: ErrorKind {
        Read = "read" => ErrorKind::READ,
        Process = "process" => ErrorKind::PROCESS,
        Write = "write" => ErrorKind::WRITE,
    }
}

/// An item could not be read, processed or written.
///
/// `?` converts any error, with the kind of its phase; set another with [`ItemError::new`] or [`ItemError::of`].
#[derive(Debug)]
pub struct ItemError {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    origin: Option<Box<Origin>>,
    /// The columns with wrong values, separated by commas.
    columns: Option<Box<str>>,
    code: Option<Code>,
}

crate::getters!(ItemError { &message: str, code: Option<Code> });

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// File and line, or table and key.
    pub place: String,
    /// The item as it was read.
    pub raw: String,
    /// The columns that the header of its file names.
    pub header: Option<Arc<[String]>>,
}

impl ItemError {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None, origin: None, columns: None, code: None }
    }

    /// An error of this kind with its cause.
    pub fn of(kind: ErrorKind, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let source = source.into();
        let message = source.to_string();
        Self { source: Some(source), ..Self::new(kind, message) }
    }

    /// An error that ends the step.
    pub fn fatal(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::of(ErrorKind::FATAL, source)
    }

    crate::setters! {
        /// Sets the code with which the step fails.
        #[must_use]
        pub fn coded(self, code: Code) { self.code = Some(code) }
        /// Sets where the item came from.
        #[must_use]
        pub fn at(self, place: impl Into<String>, raw: impl Into<String>) {
            self.origin = Some(Box::new(Origin { place: place.into(), raw: raw.into(), header: None }))
        }
        /// Sets the columns that the header of the file names, after [`at`](Self::at).
        #[must_use]
        pub fn below(self, header: Option<Arc<[String]>>) {
            if let Some(origin) = &mut self.origin {
                origin.header = header;
            }
        }
        /// Sets the columns with wrong values; rejects show them.
        #[must_use]
        pub fn in_columns(self, columns: &[&str]) { self.columns = Some(columns.join(", ").into()) }
    }

    /// The same kind of error, and what it is about. An error without a kind gets that of the phase.
    #[must_use]
    pub fn about(&self, phase: Phase, what: impl fmt::Display) -> Self {
        let error = Self::new(self.kind_in(phase), format!("{what}: {}", self.text()));
        Self { code: self.code, ..error }
    }

    /// Its kind, or that of the phase.
    pub fn kind_in(&self, phase: Phase) -> ErrorKind {
        if self.kind == ErrorKind::UNSPECIFIED { phase.kind() } else { self.kind.clone() }
    }

    pub fn source(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.source.as_deref()
    }

    /// The columns with wrong values, separated by commas; none if that is not known.
    pub fn columns(&self) -> Option<&str> {
        self.columns.as_deref()
    }

    pub fn origin(&self) -> Option<&Origin> {
        self.origin.as_deref()
    }

    /// The message, those of its causes that add something, and the place.
    pub fn text(&self) -> String {
        let mut text = match self.source.as_deref() {
            Some(source) => ErrorChain(source).to_string(),
            None => self.message.clone(),
        };
        if let Some(origin) = &self.origin {
            text.push_str(&format!(" ({})", origin.place));
        }
        text
    }
}

/// `ItemError` is not an [`Error`] itself, so that `?` converts every error.
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
    fn what_an_error_is_about_changes_neither_its_kind_nor_its_code() {
        let error = ItemError::new(ErrorKind::TRANSIENT, "gone").coded(Code::EarlierRunOpen);

        let about = error.about(Phase::Read, "statement 2");

        assert_eq!((about.kind_in(Phase::Read), about.code()), (ErrorKind::TRANSIENT, error.code()));
        assert_eq!(about.to_string(), "statement 2: gone");
        assert_eq!(
            ItemError::from(std::fmt::Error).about(Phase::Read, "q").kind_in(Phase::Write),
            ErrorKind::READ
        );
    }

    #[test]
    fn the_text_tells_the_causes_and_the_place() {
        let error = ItemError::new(ErrorKind::PARSE, "amount is empty").at("in.csv line 7", "a;;b");

        assert_eq!(error.to_string(), "amount is empty (in.csv line 7)");
        assert_eq!(error.origin().map(|origin| origin.raw.as_str()), Some("a;;b"));
    }
}
