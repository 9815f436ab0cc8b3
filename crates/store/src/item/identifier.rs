//! The author's names of tables and columns, checked and quoted.

use tidemill_domain::item::{ErrorKind, ItemError};

/// PostgreSQL silently truncates longer names.
const NAME_BYTES_MAX: usize = 63;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Quote {
    Double,
    Backtick,
}

/// Doubles quotes in the name, so it cannot end early.
pub(crate) fn quoted(name: &str, quote: Quote) -> Result<String, ItemError> {
    let refused = if name.is_empty() {
        Some("is empty")
    } else if name.len() > NAME_BYTES_MAX {
        Some("is longer than 63 bytes")
    } else if name.contains('\0') {
        Some("contains NUL")
    } else {
        None
    };
    if let Some(why) = refused {
        let shown: String = name.chars().take(NAME_BYTES_MAX).collect();
        return Err(ItemError::new(
            ErrorKind::FATAL,
            format!("{shown:?} cannot be the name of a table or column: it {why}"),
        ));
    }
    Ok(match quote {
        Quote::Double => format!("\"{}\"", name.replace('"', "\"\"")),
        Quote::Backtick => format!("`{}`", name.replace('`', "``")),
    })
}

/// A table, or `schema.table`.
pub(crate) fn quoted_table(name: &str, quote: Quote) -> Result<String, ItemError> {
    let parts: Vec<String> = name.split('.').map(|part| quoted(part, quote)).collect::<Result<_, _>>()?;
    Ok(parts.join("."))
}

/// As a list of columns.
pub(crate) fn quoted_list<S: AsRef<str>>(names: &[S], quote: Quote) -> Result<String, ItemError> {
    let names: Vec<String> =
        names.iter().map(|name| quoted(name.as_ref(), quote)).collect::<Result<_, _>>()?;
    Ok(names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_cannot_leave_its_quotes() {
        assert_eq!(quoted("id", Quote::Double).unwrap(), "\"id\"");
        assert_eq!(quoted("a\"; drop table t; --", Quote::Double).unwrap(), "\"a\"\"; drop table t; --\"");
        assert_eq!(quoted("a`b", Quote::Backtick).unwrap(), "`a``b`");
    }

    #[test]
    fn what_no_database_takes_as_a_name_is_refused() {
        for (name, why) in [("", "empty"), ("a\0b", "NUL"), (&"ä".repeat(32), "63 bytes")] {
            let error = quoted(name, Quote::Double).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(quoted(&"a".repeat(63), Quote::Double).is_ok());
    }

    proptest! {
        #[test]
        fn every_quote_inside_is_doubled(name in "[a\"`]{1,20}") {
            for (quote, mark) in [(Quote::Double, '"'), (Quote::Backtick, '`')] {
                let text = quoted(&name, quote).unwrap();
                let inside = &text[1..text.len() - 1];
                prop_assert_eq!(inside.replace(&format!("{mark}{mark}"), &mark.to_string()), name.clone());
                prop_assert_eq!(inside.matches(mark).count(), 2 * name.matches(mark).count());
            }
        }
    }
}
