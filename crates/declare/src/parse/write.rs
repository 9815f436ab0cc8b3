//! Destinations: tables, statements and procedures, topics, several at once, and a choice by item.

use super::endpoint::FORMATS;
use super::{Fields, Reader, Table, Truth, all, tables};
use crate::document::{Content, Node};
use crate::model::{At, BranchFile, KafkaWriteFile, StatementFile, TableFile, WriteFile, WriteMode};
use std::time::Duration;
use tidemill_kafka::Format;

tables! {
    // `key` is the older name of `on`.
    TABLE = "sql to write" ["table" "mode" "on" "key" "columns" "connection"]
        "sql: { table: t, mode: upsert, on: id }";
    STATEMENT = "sql with a statement" ["statement" "connection" "assert_updates"]
        "sql: { statement: \"update t set name = :name where id = :id\" }";
    CALL = "sql with a call" ["call" "connection"]
        "sql: { call: \"archive_order(:id, :amount)\" }";
    KAFKA = "kafka to write" ["topic" "key" "payload" "format" "headers" "timeout"]
        "kafka: { topic: orders, key: \"row.id\" }";
    BRANCH = "a branch of choose" ["when" "to" "else"]
        "choose: [{ when: \"row.kind == 'a'\", to: { sql: { table: a } } }, { else: { sql: { table: others } } }]";
}

impl Reader<'_> {
    /// Writers that all get each item.
    pub(super) fn all_of(&mut self, node: &Node, parts: &[Node]) -> Option<At<WriteFile>> {
        if parts.is_empty() {
            self.wrong(node, "write is an empty list", "write it as write: [{ sql: … }, { csv: … }]");
            return None;
        }
        let parts = all(parts.iter().map(|part| self.write(part)))?;
        Some(At { value: WriteFile::All(parts), place: node.place })
    }

    pub(super) fn choose(&mut self, node: &Node) -> Option<Vec<BranchFile>> {
        let Content::List(branches) = &node.content else {
            let what = format!("choose is a list of branches, and here is {}", node.type_words());
            self.wrong(node, what, format!("write it as {}", BRANCH.example));
            return None;
        };
        if branches.is_empty() {
            self.wrong(node, "choose has no branch", format!("write it as {}", BRANCH.example));
            return None;
        }
        let last = branches.len() - 1;
        all(branches.iter().enumerate().map(|(index, node)| self.branch(node, index == last)))
    }

    fn branch(&mut self, node: &Node, is_last: bool) -> Option<BranchFile> {
        let fields = self.table(node, "a branch", BRANCH)?;
        let Some((key, otherwise)) = fields.key("else").zip(fields.get("else")) else {
            let when = self.required_text(&fields, "when");
            let to = self.required(&fields, "to").and_then(|node| self.write(node));
            return Some(BranchFile { when: Some(when?), to: to? });
        };
        if !is_last || fields.entries.len() > 1 {
            let what = "else takes all items that are left, so it stands alone and last";
            self.wrong_key(key, what, None, "make it the last branch: { else: { sql: … } }");
            return None;
        }
        Some(BranchFile { when: None, to: self.write(otherwise)? })
    }

    pub(super) fn sql_write(&mut self, node: &Node) -> Option<WriteFile> {
        let has = |name: &str| matches!(&node.content, Content::Map(entries) if entries.iter().any(|(key, _)| key.name == name));
        match (has("statement"), has("call")) {
            (true, _) => self.statement(node).map(WriteFile::Statement),
            (false, true) => self.call(node).map(WriteFile::Statement),
            (false, false) => self.rows(node).map(WriteFile::Sql),
        }
    }

    pub(super) fn rows(&mut self, node: &Node) -> Option<TableFile> {
        let fields = self.table(node, "sql", TABLE)?;
        let table = self.required_text(&fields, "table");
        let modes = [
            ("copy", WriteMode::Copy),
            ("insert", WriteMode::Insert),
            ("upsert", WriteMode::Upsert(Vec::new())),
            ("delete", WriteMode::Delete(Vec::new())),
        ];
        let mode = fields.get("mode").map_or(Some(WriteMode::Insert), |node| self.word(node, "mode", &modes));
        let columns = fields.get("columns").map_or(Some(Vec::new()), |node| self.texts(node, "columns"));
        let connection = self.text_of(&fields, "connection");
        let mode = mode.and_then(|mode| self.keyed(&fields, mode))?;
        match (&mode, fields.key("connection"), fields.key("columns")) {
            (WriteMode::Copy, Some(key), _) => {
                let what = "mode: copy writes to the database of the job itself, so it has no connection";
                let why = "rows and position commit together; in another database they could not".to_owned();
                let fix = "take connection out, or write mode: insert, upsert or delete, which are at least once there";
                self.wrong_key(key, what, Some(why), fix);
            }
            (WriteMode::Delete(_), _, Some(key)) => {
                let what = "mode: delete writes no columns";
                self.wrong_key(key, what, None, "take columns out; on has those by which a row is found");
            }
            _ => {}
        }
        Some(TableFile { table: table?, mode, columns: columns?, connection, events: None })
    }

    /// The mode with the columns by which it finds rows.
    fn keyed(&mut self, fields: &Fields<'_>, mut mode: WriteMode) -> Option<WriteMode> {
        let on =
            ["on", "key"].into_iter().find_map(|name| Some((name, fields.key(name)?, fields.get(name)?)));
        match (&mut mode, on, fields.get("mode")) {
            (WriteMode::Upsert(columns) | WriteMode::Delete(columns), Some((name, _, node)), _) => {
                *columns = self.texts(node, name)?;
            }
            (WriteMode::Upsert(_), None, Some(node)) => {
                let what = "mode: upsert needs the key by which a row is found again";
                self.wrong(node, what, "add on: with the columns of a unique index, such as on: id");
                return None;
            }
            (WriteMode::Delete(_), None, Some(node)) => {
                let what = "mode: delete needs the columns by which a row is found";
                self.wrong(node, what, "add on: with columns of the item, such as on: id");
                return None;
            }
            (_, Some((name, key, _)), _) => {
                let what = format!("only mode: upsert and mode: delete have {name:?}");
                self.wrong_key(key, what, None, format!("write mode: upsert, or take {name} out"));
            }
            _ => {}
        }
        Some(mode)
    }

    /// Events commit with the rows, so both are in the job's own database.
    pub(super) fn beside_events(&mut self, table: TableFile) -> Option<TableFile> {
        let Some(connection) = &table.connection else { return Some(table) };
        let what = "rows and events commit together, and rows of another database could not";
        let fix = "take connection out, or write a list: write: [{ sql: … }, { outbox: … }]";
        self.wrong_at(connection.place, what, fix);
        None
    }

    fn statement(&mut self, node: &Node) -> Option<StatementFile> {
        let fields = self.table(node, "sql", STATEMENT)?;
        let statement = self.required_text(&fields, "statement");
        let connection = self.text_of(&fields, "connection");
        let must_change = self.truth_of(&fields, "assert_updates", Truth::Yes);
        Some(StatementFile { statement: statement?, is_call: false, connection, must_change })
    }

    fn call(&mut self, node: &Node) -> Option<StatementFile> {
        let fields = self.table(node, "sql", CALL)?;
        let statement = self.required_text(&fields, "call");
        let connection = self.text_of(&fields, "connection");
        let statement = statement?;
        let name = statement.value.split('(').next().unwrap_or_default().trim();
        let has_arguments = statement.value.contains('(') && statement.value.trim_end().ends_with(')');
        if !has_arguments || name.is_empty() || name.contains(char::is_whitespace) {
            let what = "call is the name of a procedure, with its arguments in parentheses";
            let place = fields.get("call").unwrap_or(node);
            self.wrong(place, what, format!("write it as {}", CALL.example));
            return None;
        }
        Some(StatementFile { statement, is_call: true, connection, must_change: false })
    }

    pub(super) fn kafka_write(&mut self, node: &Node) -> Option<KafkaWriteFile> {
        let fields = self.table(node, "kafka", KAFKA)?;
        let topic = self.required_text(&fields, "topic");
        let (key, payload) = (self.text_of(&fields, "key"), self.text_of(&fields, "payload"));
        let formats = &FORMATS[..2];
        let format =
            fields.get("format").map_or(Some(Format::Json), |node| self.word(node, "format", formats));
        let headers = fields.get("headers").map_or(Some(Vec::new()), |node| {
            self.headers(node, "expressions", "headers: { trace: \"row.trace\" }")
        });
        let bounds = Duration::from_secs(1)..=Duration::from_secs(3600);
        let timeout = fields.get("timeout").and_then(|node| self.duration(node, "timeout", bounds));
        Some(KafkaWriteFile { topic: topic?, key, payload, format: format?, headers: headers?, timeout })
    }
}
