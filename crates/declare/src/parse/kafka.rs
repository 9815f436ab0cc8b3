//! A topic to read: `kafka`.

use super::fields::{Reader, Table};
use super::scalar::Truth;
use crate::document::Node;
use crate::model::{At, KafkaFile};
use std::time::Duration;
use tidemill_kafka::{Format, Isolation, RowFormat};

const KAFKA: Table = Table {
    what: "kafka",
    keys: &["topic", "from", "every_run", "isolation", "format", "key", "timeout"],
    example: "kafka: { topic: orders }",
};

const FORMATS: [(&str, Format); 3] =
    [("json", Format::Json), ("text", Format::Text), ("bytes", Format::Bytes)];

const ISOLATIONS: [(&str, Isolation); 2] =
    [("read_committed", Isolation::ReadCommitted), ("read_uncommitted", Isolation::ReadUncommitted)];

impl Reader<'_> {
    pub(super) fn kafka(&mut self, node: &Node) -> Option<KafkaFile> {
        let fields = self.table(node, "kafka", KAFKA)?;
        let topic = self.required(&fields, "topic").and_then(|node| self.text(node, "topic"));
        let from = self.text_of(&fields, "from");
        let is_every_run = fields.get("every_run").map(|node| {
            let value = self.truth_of(&fields, "every_run", Truth::No);
            At { value, place: node.place }
        });
        let isolation = match fields.get("isolation") {
            Some(node) => self.word(node, "isolation", &ISOLATIONS),
            None => Some(Isolation::default()),
        };
        let usual = RowFormat::default();
        let payload = match fields.get("format") {
            Some(node) => self.word(node, "format", &FORMATS),
            None => Some(usual.payload),
        };
        let key = match fields.get("key") {
            Some(node) => self.word(node, "key", &FORMATS),
            None => Some(usual.key),
        };
        let bounds = Duration::from_secs(1)..=Duration::from_secs(3600);
        let timeout = fields.get("timeout").and_then(|node| self.duration(node, "timeout", bounds));
        let format = RowFormat { key: key?, payload: payload? };
        Some(KafkaFile { topic: topic?, from, is_every_run, isolation: isolation?, format, timeout })
    }
}
