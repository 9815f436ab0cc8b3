//! Whether a table can be attached: all problems at once, each with the statement that fixes it.

use super::{AttachedTable, Index, TableName, quote};

pub const STATUSES: [&str; 4] = ["PENDING", "SENDING", "PUBLISHED", "FAILED"];

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnSchema {
    pub name: String,
    /// Without length, as PostgreSQL writes it.
    pub type_name: String,
    pub is_nullable: bool,
    pub chars_max: Option<u32>,
    pub labels: Option<Vec<String>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableSchema {
    /// No view, no partitioned table.
    pub is_ordinary: bool,
    pub columns: Vec<ColumnSchema>,
    /// `event_id` alone is unique.
    pub has_unique_id: bool,
    pub may_enter: bool,
    pub lacking: Vec<String>,
    pub user: String,
    pub disallowed: Vec<String>,
    pub has_sending: bool,
    pub has_failed: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    pub what: String,
    /// A statement, or what to do.
    pub remedy: String,
}

crate::newtype::display!(Fault, fault => "{}: {}", fault.what, fault.remedy);

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Findings {
    pub faults: Vec<Fault>,
    pub warnings: Vec<String>,
}

/// Its name, its possible types, and the type for `add column`.
type NeededColumn = (&'static str, &'static [&'static str], &'static str);

const TIMES: &[&str] = &["timestamp with time zone", "timestamp without time zone"];

const NEEDED: [NeededColumn; 7] = [
    ("event_id", &["bigint", "integer", "smallint"], "bigint generated always as identity primary key"),
    (
        "aggregate_id",
        &["text", "character varying", "bigint", "integer", "smallint", "uuid"],
        "text not null",
    ),
    ("payload", &["text", "character varying", "json", "jsonb", "bytea"], "text"),
    ("headers", &["text", "character varying", "json", "jsonb"], "text"),
    ("status", &["text", "character varying"], "text not null default 'PENDING'"),
    ("next_retry_at", TIMES, "timestamptz not null default now()"),
    ("updated_at", TIMES, "timestamptz not null default now()"),
];

/// `found` is none when there is no such table.
pub fn check(name: &TableName, found: Option<&TableSchema>) -> Findings {
    let mut findings = Findings::default();
    let Some(found) = found else {
        findings.fault(
            format!("there is no table {name}"),
            "check the spelling and --schema; names are case-sensitive".to_owned(),
        );
        return findings;
    };
    if !found.is_ordinary {
        findings.fault(
            format!("{name} is not an ordinary table"),
            "attach an ordinary table; views and partitioned tables are not supported".to_owned(),
        );
    }
    for (word, types, made_as) in NEEDED {
        match found.columns.iter().find(|column| column.name == word) {
            None => findings.fault(
                format!("the column {word} is missing"),
                format!("alter table {} add column {word} {made_as}", name.quoted()),
            ),
            Some(column) => check_column(name, types, column, &mut findings),
        }
    }
    let has_id = found.columns.iter().any(|column| column.name == "event_id");
    if has_id && !found.has_unique_id {
        findings.fault(
            "event_id is not unique".to_owned(),
            format!("alter table {} add unique (event_id)", name.quoted()),
        );
    }
    if !found.disallowed.is_empty() {
        findings.fault(
            format!("a check on status does not allow {}", found.disallowed.join(", ")),
            format!("drop that check from {} and add one that allows {}", name.quoted(), STATUSES.join(", ")),
        );
    }
    let (user, schema) = (&found.user, name.schema());
    if !found.may_enter {
        findings.fault(
            format!("{user} lacks the privilege usage on the schema {schema}"),
            format!("grant usage on schema {} to {}", quote(schema), quote(user)),
        );
    }
    if !found.lacking.is_empty() {
        let lacking = found.lacking.join(", ");
        findings.fault(
            format!("{user} lacks the privilege {lacking} on {name}"),
            format!("grant {lacking} on {} to {}", name.quoted(), quote(user)),
        );
    }
    if found.has_sending {
        findings.warnings.push(
            "there are rows in status SENDING: stop the relay that served this table before; they are sent again"
                .to_owned(),
        );
    }
    if found.has_failed {
        findings.warnings.push(
            "there are rows in status FAILED: later rows of their aggregates wait until they are replayed or skipped"
                .to_owned(),
        );
    }
    findings
}

/// A required index is missing or invalid. Without it every poll would read the whole table.
pub fn lost_index(table: &AttachedTable, index: Index) -> Fault {
    let AttachedTable { name, topic, .. } = table;
    let schema =
        if name.schema() == "public" { String::new() } else { format!(" --schema {}", name.schema()) };
    Fault {
        what: format!("the index {} is missing or not valid", name.index(index)),
        remedy: format!("run `tidemill outbox attach {}{schema} --topic {topic}` again", name.table()),
    }
}

fn check_column(name: &TableName, types: &[&str], column: &ColumnSchema, findings: &mut Findings) {
    let (table, word) = (name.quoted(), column.name.as_str());
    let is_status = word == "status";
    match &column.labels {
        Some(labels) if is_status => {
            for status in STATUSES.iter().filter(|status| !labels.iter().any(|label| label == *status)) {
                findings.fault(
                    format!("the type {} of status lacks {status}", column.type_name),
                    format!("alter type {} add value '{status}'", column.type_name),
                );
            }
        }
        _ if !types.contains(&column.type_name.as_str()) => {
            let or = if is_status { ", or an enum" } else { "" };
            findings.fault(
                format!("{word} is of type {}", column.type_name),
                format!(
                    "it must be one of {}{or}: alter table {table} alter column {word} type {}",
                    types.join(", "),
                    types.first().unwrap_or(&"text")
                ),
            );
        }
        _ => {}
    }
    let longest = STATUSES.iter().map(|status| status.len()).max().unwrap_or(0);
    if is_status && column.chars_max.is_some_and(|most| (most as usize) < longest) {
        findings.fault(
            format!("status has room for {} characters", column.chars_max.unwrap_or(0)),
            format!("alter table {table} alter column status type varchar({longest})"),
        );
    }
    if column.is_nullable && matches!(word, "aggregate_id" | "status" | "next_retry_at") {
        findings.warnings.push(format!("rows without {word} are never published, and {word} may be null"));
    }
    if column.type_name == "timestamp without time zone" {
        findings.warnings.push(format!("{word} has no time zone: set it with --time-zone"));
    }
}

impl Findings {
    fn fault(&mut self, what: String, remedy: String) {
        self.faults.push(Fault { what, remedy });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name() -> TableName {
        TableName::new("public", "transfer_events").unwrap()
    }

    fn column(name: &str, type_name: &str) -> ColumnSchema {
        let type_name = type_name.to_owned();
        ColumnSchema { name: name.to_owned(), type_name, is_nullable: false, chars_max: None, labels: None }
    }

    /// The table of the document.
    fn table() -> TableSchema {
        TableSchema {
            is_ordinary: true,
            columns: vec![
                column("event_id", "bigint"),
                column("aggregate_id", "character varying"),
                column("payload", "jsonb"),
                column("headers", "text"),
                column("status", "character varying"),
                column("next_retry_at", "timestamp with time zone"),
                column("updated_at", "timestamp with time zone"),
                column("created_at", "timestamp with time zone"),
            ],
            has_unique_id: true,
            may_enter: true,
            lacking: Vec::new(),
            user: "app".to_owned(),
            disallowed: Vec::new(),
            has_sending: false,
            has_failed: false,
        }
    }

    #[test]
    fn the_table_of_the_document_is_fit() {
        assert_eq!(check(&name(), Some(&table())), Findings::default());
    }

    #[test]
    fn an_enum_needs_all_words() {
        let mut found = table();
        found.columns[4].type_name = "transfer_status".to_owned();
        found.columns[4].labels = Some(STATUSES.map(str::to_owned).to_vec());
        assert_eq!(check(&name(), Some(&found)).faults, []);

        found.columns[4].labels = Some(vec!["PENDING".to_owned(), "PUBLISHED".to_owned()]);

        let faults = check(&name(), Some(&found)).faults;
        assert_eq!(faults.len(), 2);
        assert_eq!(faults[0].remedy, "alter type transfer_status add value 'SENDING'");
    }

    #[test]
    fn privileges_that_are_missing_are_named_with_the_statements_that_give_them() {
        let found = TableSchema {
            may_enter: false,
            lacking: vec!["select".to_owned(), "update".to_owned()],
            user: "app".to_owned(),
            ..table()
        };

        let faults = check(&name(), Some(&found)).faults;

        assert_eq!(faults[0].what, "app lacks the privilege usage on the schema public");
        assert_eq!(faults[0].remedy, "grant usage on schema \"public\" to \"app\"");
        assert_eq!(faults[1].what, "app lacks the privilege select, update on public.transfer_events");
        assert_eq!(faults[1].remedy, "grant select, update on \"public\".\"transfer_events\" to \"app\"");
    }

    #[test]
    fn what_is_no_table_is_one_fault() {
        assert_eq!(check(&name(), None).faults.len(), 1);
    }

    #[test]
    fn a_fault_names_the_column_and_the_statement() {
        let mut found = table();
        found.columns.retain(|column| column.name != "next_retry_at");

        let findings = check(&name(), Some(&found));

        assert_eq!(
            findings.faults,
            [Fault {
                what: "the column next_retry_at is missing".to_owned(),
                remedy: "alter table \"public\".\"transfer_events\" add column next_retry_at timestamptz not null default now()"
                    .to_owned(),
            }]
        );
    }

    #[test]
    fn a_lost_index_is_made_by_attaching_again() {
        let of = |schema| {
            let name = TableName::new(schema, "transfer_events").unwrap();
            lost_index(&AttachedTable::new(name, "transfers", None, None, None).unwrap(), Index::Slot)
                .to_string()
        };

        assert_eq!(
            of("public"),
            "the index tidemill_transfer_events_slot is missing or not valid: \
             run `tidemill outbox attach transfer_events --topic transfers` again"
        );
        assert!(of("sales").contains(" --schema sales "));
    }

    proptest! {
        #[test]
        fn every_missing_or_wrong_column_is_told_at_once(fate in prop::collection::vec(0_u8..3, 7)) {
            let mut found = table();
            let mut expected = 0;
            for (needed, fate) in NEEDED.iter().zip(&fate) {
                match fate {
                    0 => {}
                    1 => {
                        found.columns.retain(|column| column.name != needed.0);
                        expected += 1;
                    }
                    _ => {
                        let columns = found.columns.iter_mut();
                        columns.filter(|column| column.name == needed.0).for_each(|column| column.type_name = "point".to_owned());
                        expected += 1;
                    }
                }
            }

            let findings = check(&name(), Some(&found));

            prop_assert_eq!(findings.faults.len(), expected);
            for (needed, fate) in NEEDED.iter().zip(&fate) {
                let is_named = findings.faults.iter().any(|fault| fault.what.contains(needed.0));
                prop_assert_eq!(is_named, *fate != 0);
            }
        }
    }
}
