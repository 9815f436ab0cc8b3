//! An attached table: an existing outbox table with a status column, which relays serve beside their own. This file has
//! its name and settings; [`check`] says whether a table can be attached, and [`row`] reads its rows.
//!
//! ```text
//!   PENDING ──claimed──► SENDING ──delivered──► PUBLISHED
//!      ▲                    │
//!      ├──refused, held, or its relay died
//!      └──replay── FAILED ◄─┴──attempts used up, or refused for good
//! ```
//!
//! Invariant: no row is claimed while an earlier one of its aggregate is open and not claimed with it.

pub mod check;
pub mod row;

use super::event::{BadEvent, check_name, check_topic};
use crate::time::Timestamp;

/// In PostgreSQL.
pub const NAME_BYTES_MAX: usize = 63;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableName {
    schema: String,
    table: String,
}

crate::getters!(TableName { &schema: str, &table: str });

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadTableName {
    #[error(
        "{name:?} is not a valid name of a {what}: use 1 to {NAME_BYTES_MAX} bytes of letters, digits, '_' and '$', not starting with a digit"
    )]
    Name { what: &'static str, name: String },
    #[error("{name} is a table of Tidemill itself")]
    Own { name: String },
}

crate::code::coded!(BadTableName, BadTableName);

impl TableName {
    /// Names are as in the catalogue: case is kept.
    pub fn new(schema: &str, table: &str) -> Result<Self, BadTableName> {
        for (what, name) in [("schema", schema), ("table", table)] {
            let is_letter = |letter: char| letter.is_alphabetic() || letter == '_';
            let is_good = name.len() <= NAME_BYTES_MAX
                && name.starts_with(is_letter)
                && name.chars().all(|one| is_letter(one) || one.is_ascii_digit() || one == '$');
            if !is_good {
                return Err(BadTableName::Name { what, name: name.to_owned() });
            }
        }
        if is_own(table) {
            return Err(BadTableName::Own { name: table.to_owned() });
        }
        Ok(Self { schema: schema.to_owned(), table: table.to_owned() })
    }

    pub fn quoted(&self) -> String {
        format!("{}.{}", quote(&self.schema), quote(&self.table))
    }

    /// The name of Tidemill's index on this table. A long table name is cut and made unique by a hash.
    pub fn index(&self, index: Index) -> String {
        const KEPT: usize = 35;
        let (table, word) = (&self.table, index.as_str());
        if table.len() <= KEPT {
            return format!("tidemill_{table}_{word}");
        }
        let cut = (0..=KEPT).rev().find(|end| table.is_char_boundary(*end)).unwrap_or(0);
        let kept = table.get(..cut).unwrap_or_default();
        format!("tidemill_{kept}_{:08x}_{word}", hash(table))
    }

    pub fn index_quoted(&self, index: Index) -> String {
        format!("{}.{}", quote(&self.schema), quote(&self.index(index)))
    }
}

crate::newtype::display!(TableName, name => "{}.{}", name.schema, name.table);

/// Of Tidemill: `outbox_event` and its partitions by exact name, because others may have an `outbox_events`.
fn is_own(table: &str) -> bool {
    let is_partition = |rest: &str| {
        let number = rest.strip_prefix("_p").unwrap_or_default();
        rest == "_default" || !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    table.starts_with("tidemill_")
        || table.strip_prefix("outbox_event").is_some_and(|rest| rest.is_empty() || is_partition(rest))
}

pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// FNV-1a: must never change, because it is part of stored names.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

crate::words! {
    pub enum Index {
        Slot = "slot",
        Aggregate = "aggregate",
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttachedTable {
    pub name: TableName,
    pub topic: String,
    pub aggregate_type: String,
    /// Used where a row's headers have no event type.
    pub event_type: String,
    /// The zone of columns that have none.
    pub time_zone: String,
}

impl AttachedTable {
    /// Types default to the table's name, the time zone to UTC.
    pub fn new(
        name: TableName,
        topic: &str,
        aggregate_type: Option<&str>,
        event_type: Option<&str>,
        time_zone: Option<&str>,
    ) -> Result<Self, BadEvent> {
        let aggregate_type = aggregate_type.unwrap_or(name.table()).to_owned();
        let event_type = event_type.unwrap_or(name.table()).to_owned();
        check_topic(topic)?;
        check_name("aggregate type", &aggregate_type)?;
        check_name("event type", &event_type)?;
        let time_zone = time_zone.unwrap_or("UTC").to_owned();
        check_name("time zone", &time_zone)?;
        Ok(Self { name, topic: topic.to_owned(), aggregate_type, event_type, time_zone })
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RowOutcome {
    /// The sink has it.
    Published,
    /// It was refused and is tried again.
    Again { next_attempt_at: Timestamp, attempts: u32, error: String },
    /// It was refused for good.
    Failed { attempts: u32, error: String },
    /// It was not sent, or that is unknown; it does not count as an attempt.
    Back,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RowRefusal {
    #[error("there is no such FAILED row")]
    NotFailed,
    #[error("the row was skipped, and readers may have seen later ones")]
    Skipped,
}

crate::code::coded!(RowRefusal, AttachedRowRefused);
crate::code::fixes!(RowRefusal {
    NotFailed => "see `tidemill outbox failed --table TABLE`; other rows need no action";
    Skipped => "write a new row that corrects it, if one is needed";
});

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_is_accepted_is_one_quoted_name(schema in "\\PC{0,70}", table in "\\PC{0,70}") {
            if let Ok(name) = TableName::new(&schema, &table) {
                let quoted = name.quoted();
                prop_assert_eq!(quoted.matches('"').count(), 4);
                prop_assert!(!quoted.contains([';', '\'', ' ', '\\', '\0', '-']));
            }
        }

        #[test]
        fn plain_names_are_accepted(table in "[a-zA-Z_][a-zA-Z0-9_$]{0,62}") {
            prop_assert_eq!(TableName::new("public", &table).is_err(), is_own(&table));
        }

        #[test]
        fn only_our_own_tables_are_not_for_attaching(rest in "|_default|_p[0-9]{1,19}|_?[a-z0-9_]{0,9}") {
            let name = format!("outbox_event{rest}");
            // As the store names them.
            let number = rest.strip_prefix("_p").filter(|digits| !digits.is_empty());
            let is_partition = number.is_some_and(|digits| digits.chars().all(|digit| digit.is_ascii_digit()));
            let is_ours = rest.is_empty() || rest == "_default" || is_partition;

            prop_assert_eq!(TableName::new("public", &name).is_err(), is_ours);
            let prefixed = format!("tidemill_{name}");
            prop_assert!(TableName::new("public", &prefixed).is_err());
        }

        #[test]
        fn names_of_indexes_fit_and_differ(a in "[a-z]{30,63}", b in "[a-z]{30,63}") {
            let of = |table: &str, index| TableName::new("public", table).unwrap().index(index);
            prop_assert!(of(&a, Index::Aggregate).len() <= NAME_BYTES_MAX);
            prop_assert_ne!(of(&a, Index::Slot), of(&a, Index::Aggregate));
            prop_assert_eq!(of(&a, Index::Slot) == of(&b, Index::Slot), a == b);
        }
    }

    #[test]
    fn what_is_called_almost_like_ours_may_be_attached() {
        for name in ["outbox_events", "outbox_event_archive", "outbox_event_p", "outbox_event_p1a", "outbox"]
        {
            assert!(TableName::new("public", name).is_ok(), "{name}");
        }
        for name in ["outbox_event", "outbox_event_default", "outbox_event_p1", "tidemill_x"] {
            assert!(matches!(TableName::new("public", name), Err(BadTableName::Own { .. })), "{name}");
        }
    }

    #[test]
    fn a_quotation_mark_does_not_end_a_name() {
        assert_eq!(quote("a\"b"), "\"a\"\"b\"");
        assert!(TableName::new("public", "a\"b").is_err());
        assert!(TableName::new("public", "tidemill_lease").is_err());
    }

    #[test]
    fn a_checked_name_is_quoted() {
        use crate::outbox::attached::TableName;
        let table = TableName::new("public", "transfer_events").unwrap();
        assert_eq!(table.quoted(), "\"public\".\"transfer_events\"");
        assert!(TableName::new("public", "a; drop table b").is_err());
    }
}
