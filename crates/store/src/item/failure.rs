//! What a database error means for an item: retry, skip, or fail.

use crate::error::StoreError;
use crate::postgres::answer::said_plainly;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::postgres::PgDatabaseError;
use sqlx::sqlite::SqliteError;
use tidemill_domain::item::{ErrorKind, ItemError};

/// The kind of an error of the store or the driver; `None` for other errors.
pub fn kind_of_cause(error: &(dyn std::error::Error + 'static)) -> Option<ErrorKind> {
    if let Some(error) = error.downcast_ref::<StoreError>() {
        return error.item_kind();
    }
    error.downcast_ref::<sqlx::Error>().and_then(statement_kind)
}

/// `None` if it has no special meaning.
pub(crate) fn statement_kind(error: &sqlx::Error) -> Option<ErrorKind> {
    match error {
        sqlx::Error::Database(answer) => {
            if let Some(answer) = answer.try_downcast_ref::<PgDatabaseError>() {
                postgres_kind(answer.code())
            } else if let Some(answer) = answer.try_downcast_ref::<MySqlDatabaseError>() {
                mysql_kind(answer.number(), answer.code().unwrap_or_default())
            } else if answer.try_downcast_ref::<SqliteError>().is_some() {
                answer.code().and_then(|code| code.parse().ok()).and_then(sqlite_kind)
            } else {
                None
            }
        }
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) => Some(ErrorKind::TRANSIENT),
        sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed => Some(ErrorKind::TRANSIENT),
        // The store was closed.
        sqlx::Error::PoolClosed => Some(ErrorKind::FATAL),
        _ => None,
    }
}

fn postgres_kind(code: &str) -> Option<ErrorKind> {
    match code {
        // Serialization, deadlock, lock not available, cancelled or timed out, too many connections, shut down.
        "40001" | "40P01" | "55P03" | "57014" | "53300" | "25P03" | "57P01" | "57P02" | "57P03" | "57P05" => {
            Some(ErrorKind::TRANSIENT)
        }
        _ if code.starts_with("08") => Some(ErrorKind::TRANSIENT),
        _ if code.starts_with("23") => Some(ErrorKind::CONSTRAINT),
        // Syntax, unknown tables and columns, missing rights; full disks; a read-only server.
        _ if code.starts_with("42") || code == "53100" || code == "25006" => Some(ErrorKind::FATAL),
        _ => None,
    }
}

/// The low byte is the error class.
fn sqlite_kind(code: i32) -> Option<ErrorKind> {
    const ERROR: i32 = 1;
    const PERM: i32 = 3;
    const BUSY: i32 = 5;
    const LOCKED: i32 = 6;
    const READONLY: i32 = 8;
    const CORRUPT: i32 = 11;
    const FULL: i32 = 13;
    const CONSTRAINT: i32 = 19;
    match code & 0xff {
        BUSY | LOCKED => Some(ErrorKind::TRANSIENT),
        CONSTRAINT => Some(ErrorKind::CONSTRAINT),
        ERROR | PERM | READONLY | CORRUPT | FULL => Some(ErrorKind::FATAL),
        _ => None,
    }
}

fn mysql_kind(number: u16, state: &str) -> Option<ErrorKind> {
    match number {
        // Too many connections, shut down, lock wait, deadlock, interrupted, killed, out of time.
        1040 | 1053 | 1205 | 1213 | 1317 | 1927 | 1969 | 3024 => Some(ErrorKind::TRANSIENT),
        _ if state.starts_with("08") || state.starts_with("40") => Some(ErrorKind::TRANSIENT),
        _ if state.starts_with("23") => Some(ErrorKind::CONSTRAINT),
        _ if state.starts_with("42") => Some(ErrorKind::FATAL),
        _ => None,
    }
}

/// The database's message, with its details.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Answer {
    text: String,
    source: sqlx::Error,
}

/// Kind `otherwise` if the error has no special meaning.
pub(crate) fn item_error(error: sqlx::Error, otherwise: ErrorKind) -> ItemError {
    let kind = statement_kind(&error).unwrap_or(otherwise);
    ItemError::of(kind, answer(error))
}

/// The error of a query: transient or fatal.
pub(crate) fn reading(error: sqlx::Error) -> ItemError {
    match statement_kind(&error) {
        Some(kind) if kind == ErrorKind::TRANSIENT => ItemError::of(kind, answer(error)),
        _ => ItemError::of(ErrorKind::FATAL, answer(error)),
    }
}

fn answer(error: sqlx::Error) -> Answer {
    let error = said_plainly(error);
    let detail = match &error {
        sqlx::Error::Database(answer) => {
            answer.try_downcast_ref::<PgDatabaseError>().and_then(PgDatabaseError::detail)
        }
        _ => None,
    };
    let text = match detail {
        Some(detail) => format!("{error} ({})", detail.trim_end_matches('.')),
        None => error.to_string(),
    };
    Answer { text, source: error }
}

/// Fails the step.
pub(crate) fn fatal(text: impl Into<String>) -> ItemError {
    ItemError::new(ErrorKind::FATAL, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_of_the_three_databases_are_told_apart() {
        let transient = Some(ErrorKind::TRANSIENT);
        let constraint = Some(ErrorKind::CONSTRAINT);
        let fatal = Some(ErrorKind::FATAL);
        for (code, kind) in [
            ("40P01", &transient),
            ("40001", &transient),
            ("08006", &transient),
            ("57014", &transient),
            ("23505", &constraint),
            ("23503", &constraint),
            ("42P01", &fatal),
            ("53100", &fatal),
            ("22001", &None),
        ] {
            assert_eq!(&postgres_kind(code), kind, "{code}");
        }
        for (code, kind) in
            [(5, &transient), (517, &transient), (2067, &constraint), (787, &constraint), (1, &fatal)]
        {
            assert_eq!(&sqlite_kind(code), kind, "{code}");
        }
        for (number, state, kind) in [
            (1213, "40001", &transient),
            (1205, "HY000", &transient),
            (1062, "23000", &constraint),
            (1064, "42000", &fatal),
            (1365, "22012", &None),
        ] {
            assert_eq!(&mysql_kind(number, state), kind, "{number}");
        }
    }

    #[test]
    fn a_lost_connection_may_come_back_and_a_closed_store_does_not() {
        let lost = || sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());

        assert_eq!(statement_kind(&lost()), Some(ErrorKind::TRANSIENT));
        assert_eq!(statement_kind(&sqlx::Error::PoolClosed), Some(ErrorKind::FATAL));
        assert_eq!(statement_kind(&sqlx::Error::RowNotFound), None);
        assert_eq!(item_error(lost(), ErrorKind::READ).to_string().matches("connection reset").count(), 1);
    }
}
