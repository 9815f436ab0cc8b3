//! Events to write: `outbox`, alone or beside `sql`.

use super::fields::{Reader, Table};
use crate::document::{Content, Node};
use crate::model::{At, OutboxFile};

const OUTBOX: Table = Table {
    what: "outbox",
    keys: &["topic", "aggregate_type", "aggregate_id", "event_type", "payload", "headers"],
    example: "outbox: { topic: orders, aggregate_type: order, aggregate_id: \"row.id\", event_type: order.loaded }",
};

impl Reader<'_> {
    pub(super) fn outbox(&mut self, node: &Node) -> Option<OutboxFile> {
        let fields = self.table(node, "outbox", OUTBOX)?;
        let mut text = |name: &str| self.required(&fields, name).and_then(|node| self.text(node, name));
        let (topic, aggregate_type) = (text("topic"), text("aggregate_type"));
        let (aggregate_id, event_type) = (text("aggregate_id"), text("event_type"));
        let payload = fields.get("payload").map_or(Some(None), |node| self.text(node, "payload").map(Some));
        let headers = fields.get("headers").map_or(Some(Vec::new()), |node| self.headers(node));
        Some(OutboxFile {
            topic: topic?,
            aggregate_type: aggregate_type?,
            aggregate_id: aggregate_id?,
            event_type: event_type?,
            payload: payload?,
            headers: headers?,
        })
    }

    fn headers(&mut self, node: &Node) -> Option<Vec<(At<String>, At<String>)>> {
        let Content::Map(entries) = &node.content else {
            let what =
                format!("headers is a table of names and expressions, and here is {}", node.type_words());
            self.wrong(node, what, "write it as headers: { trace: \"row.trace\" }");
            return None;
        };
        let headers: Vec<_> = entries
            .iter()
            .map(|(key, value)| {
                let name = At { value: key.name.clone(), place: key.place };
                self.text(value, &key.name).map(|text| (name, text))
            })
            .collect();
        headers.into_iter().collect()
    }
}

/// Rows and events that are written together; none when that is not what a `write` says.
pub(super) fn rows_and_events(node: &Node) -> Option<(&Node, &Node)> {
    let Content::Map(entries) = &node.content else { return None };
    let of = |name: &str| entries.iter().find(|(key, _)| key.name == name).map(|(_, value)| value);
    if entries.len() == 2 { of("sql").zip(of("outbox")) } else { None }
}
