//! Answers of PostgreSQL without the line that the driver appends: it is a line of PostgreSQL's own source.

use crate::error::BoxError;
use sqlx::error::DatabaseError;
use sqlx::postgres::PgDatabaseError;
use std::borrow::Cow;
use std::error::Error;
use std::fmt;

/// Other errors stay as they are.
pub(crate) fn said_plainly(error: sqlx::Error) -> sqlx::Error {
    match error {
        sqlx::Error::Database(answer) => match answer.try_downcast::<PgDatabaseError>() {
            Ok(answer) => sqlx::Error::Database(Box::new(PlainAnswer(*answer))),
            Err(other) => sqlx::Error::Database(other),
        },
        other => other,
    }
}

/// An answer of PostgreSQL that is displayed as its message. It can still be downcast to the driver's type.
#[derive(Debug)]
struct PlainAnswer(PgDatabaseError);

impl fmt::Display for PlainAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.message())
    }
}

impl Error for PlainAnswer {}

impl DatabaseError for PlainAnswer {
    fn message(&self) -> &str {
        self.0.message()
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(self.0.code()))
    }

    fn as_error(&self) -> &(dyn Error + Send + Sync + 'static) {
        &self.0
    }

    fn as_error_mut(&mut self) -> &mut (dyn Error + Send + Sync + 'static) {
        &mut self.0
    }

    fn into_error(self: Box<Self>) -> BoxError {
        Box::new(self.0)
    }

    fn is_transient_in_connect_phase(&self) -> bool {
        self.0.is_transient_in_connect_phase()
    }

    fn constraint(&self) -> Option<&str> {
        self.0.constraint()
    }

    fn table(&self) -> Option<&str> {
        self.0.table()
    }

    fn kind(&self) -> sqlx::error::ErrorKind {
        self.0.kind()
    }
}
