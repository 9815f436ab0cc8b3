//! Sources and destinations: files, SQL, Kafka, and the outbox.

use super::file::Way;
use super::{Reader, Table, Truth, all, tables};
use crate::document::{Content, Node};
use crate::model::{At, KafkaFile, OutboxFile, ReadFile, TableFile, WriteFile};
use std::time::Duration;
use tidemill_kafka::{Format, Isolation, RowFormat};

tables! {
    READ = "read" ["csv" "fixed_width" "jsonl" "json" "xml" "excel" "parquet" "arrow" "avro" "sql" "kafka" "http"]
        "read: { csv: { path: \"in.csv\" } }, or with fixed_width, jsonl, json, xml, excel, parquet, arrow, avro, sql, kafka or http";
    WRITE = "write" ["sql" "csv" "fixed_width" "jsonl" "json" "xml" "parquet" "arrow" "avro" "outbox" "http" "kafka" "choose"]
        "write: { sql: { table: t, mode: insert } }, or with csv, fixed_width, jsonl, json, xml, parquet, arrow, avro, outbox, http, kafka or choose";
    QUERY = "sql to read" ["query" "key" "connection" "page" "count"]
        "sql: { query: \"select id, name from t\", key: id }";
    KAFKA = "kafka" ["topic" "from" "every_run" "isolation" "format" "key" "timeout"]
        "kafka: { topic: orders }";
    OUTBOX = "outbox" ["topic" "aggregate_type" "aggregate_id" "event_type" "payload" "headers"]
        "outbox: { topic: orders, aggregate_type: order, aggregate_id: \"row.id\", event_type: order.loaded }";
}

pub(super) const FORMATS: [(&str, Format); 3] =
    [("json", Format::Json), ("text", Format::Text), ("bytes", Format::Bytes)];

impl Reader<'_> {
    pub(super) fn read(&mut self, node: &Node) -> Option<At<ReadFile>> {
        let (kind, value) = self.one_of(node, READ)?;
        let read = match kind {
            "sql" => self.query(value)?,
            "kafka" => ReadFile::Kafka(self.kafka(value)?),
            "http" => ReadFile::Http(Box::new(self.http_read(value)?)),
            format => ReadFile::File(self.file(format, value, Way::Read)?),
        };
        Some(At { value: read, place: node.place })
    }

    pub(super) fn write(&mut self, node: &Node) -> Option<At<WriteFile>> {
        if let Content::List(parts) = &node.content {
            return self.all_of(node, parts);
        }
        if let Some((rows, events)) = rows_and_events(node) {
            let (rows, events) = (self.rows(rows), self.outbox(events));
            let table = self.beside_events(rows?)?;
            let write = WriteFile::Sql(TableFile { events: Some(Box::new(events?)), ..table });
            return Some(At { value: write, place: node.place });
        }
        let (kind, value) = self.one_of(node, WRITE)?;
        let write = match kind {
            "outbox" => WriteFile::Outbox(Box::new(self.outbox(value)?)),
            "http" => WriteFile::Http(Box::new(self.http_write(value)?)),
            "sql" => self.sql_write(value)?,
            "kafka" => WriteFile::Kafka(Box::new(self.kafka_write(value)?)),
            "choose" => WriteFile::Choose(self.choose(value)?),
            format => WriteFile::File(self.file(format, value, Way::Write)?),
        };
        Some(At { value: write, place: node.place })
    }

    /// The one key of a table that says which kind it is.
    fn one_of<'n>(&mut self, node: &'n Node, table: Table) -> Option<(&'n str, &'n Node)> {
        let fields = self.table(node, table.what, table)?;
        let known = |name: &str| table.keys.contains(&name);
        let found: Vec<_> = fields.entries.iter().filter(|(key, _)| known(&key.name)).collect();
        match found.as_slice() {
            [(key, value)] => Some((key.name.as_str(), value)),
            [] => {
                // A misspelt key was already reported.
                if fields.entries.is_empty() {
                    let what = format!("{} does not say what", table.what);
                    self.wrong(node, what, format!("write it as {}", table.example));
                }
                None
            }
            [.., (key, _)] => {
                let names = found.iter().map(|(key, _)| key.name.as_str()).collect::<Vec<_>>().join(" and ");
                let what = format!("{} is one thing, and here are {names}", table.what);
                let is_write = table.keys.contains(&"outbox");
                let why = is_write.then(|| "only sql and outbox go together".to_owned());
                let fix = match is_write {
                    true => {
                        "write a list, and each item goes to all of them: write: [{ sql: … }, { csv: … }]"
                    }
                    false => "take one of them out, or make two steps",
                };
                self.wrong_key(key, what, why, fix);
                None
            }
        }
    }

    fn query(&mut self, node: &Node) -> Option<ReadFile> {
        let fields = self.table(node, "sql", QUERY)?;
        let query = self.required_text(&fields, "query");
        let key = fields.get("key").map_or(Some(Vec::new()), |node| self.texts(node, "key"));
        let connection = self.text_of(&fields, "connection");
        let page = self.number_of(&fields, "page", 1..=100_000);
        let key = key?.into_iter().map(|column| column.value).collect();
        let is_counted = self.truth_of(&fields, "count", Truth::No);
        Some(ReadFile::Sql { query: query?, key, connection, page, is_counted })
    }

    fn kafka(&mut self, node: &Node) -> Option<KafkaFile> {
        let fields = self.table(node, "kafka", KAFKA)?;
        let topic = self.required_text(&fields, "topic");
        let from = self.text_of(&fields, "from");
        let is_every_run = fields.key("every_run").map(|_| self.truth_of(&fields, "every_run", Truth::No));
        let isolations = Isolation::ALL.map(|isolation| (isolation.as_str(), isolation));
        let isolation = fields
            .get("isolation")
            .map_or(Some(Isolation::default()), |node| self.word(node, "isolation", &isolations));
        let usual = RowFormat::default();
        let payload =
            fields.get("format").map_or(Some(usual.payload), |node| self.word(node, "format", &FORMATS));
        let key = fields.get("key").map_or(Some(usual.key), |node| self.word(node, "key", &FORMATS));
        let bounds = Duration::from_secs(1)..=Duration::from_secs(3600);
        let timeout = fields.get("timeout").and_then(|node| self.duration(node, "timeout", bounds));
        let format = RowFormat { key: key?, payload: payload? };
        Some(KafkaFile { topic: topic?, from, is_every_run, isolation: isolation?, format, timeout })
    }

    fn outbox(&mut self, node: &Node) -> Option<OutboxFile> {
        let fields = self.table(node, "outbox", OUTBOX)?;
        let mut text = |name: &str| self.required_text(&fields, name);
        let (topic, aggregate_type) = (text("topic"), text("aggregate_type"));
        let (aggregate_id, event_type) = (text("aggregate_id"), text("event_type"));
        let payload = fields.get("payload").map_or(Some(None), |node| self.text(node, "payload").map(Some));
        let headers = fields.get("headers").map_or(Some(Vec::new()), |node| {
            self.headers(node, "expressions", "headers: { trace: \"row.trace\" }")
        });
        Some(OutboxFile {
            topic: topic?,
            aggregate_type: aggregate_type?,
            aggregate_id: aggregate_id?,
            event_type: event_type?,
            payload: payload?,
            headers: headers?,
        })
    }

    pub(super) fn headers(
        &mut self,
        node: &Node,
        values: &str,
        example: &str,
    ) -> Option<Vec<(At<String>, At<String>)>> {
        let entries = self.named(node, &format!("headers is a table of names and {values}"), example)?;
        all(entries.iter().map(|(key, value)| {
            let name = At { value: key.name.clone(), place: key.place };
            self.text(value, &key.name).map(|text| (name, text))
        }))
    }
}

/// Rows and events that are written together.
fn rows_and_events(node: &Node) -> Option<(&Node, &Node)> {
    let Content::Map(entries) = &node.content else { return None };
    let of = |name: &str| entries.iter().find(|(key, _)| key.name == name).map(|(_, value)| value);
    if entries.len() == 2 { of("sql").zip(of("outbox")) } else { None }
}
