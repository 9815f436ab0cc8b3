//! Events: names and topics that are accepted, as far as the file tells.

use super::Checker;
use crate::model::{At, OutboxFile};
use tidemill_domain::outbox::event::{check_headers, check_name, check_topic};
use tidemill_domain::outbox::{BadEvent, Headers};

impl Checker<'_> {
    pub(super) fn events(&mut self, file: &OutboxFile) {
        self.plain("topic", &file.topic, check_topic, "orders");
        self.plain(
            "aggregate_type",
            &file.aggregate_type,
            |name| check_name("aggregate type", name),
            "order",
        );
        self.plain("event_type", &file.event_type, |name| check_name("event type", name), "order.loaded");
        let mut headers = Headers::new();
        for (name, _) in &file.headers {
            headers.insert(name.value.clone(), String::new());
            if let Err(bad) = check_headers(&headers) {
                self.wrong(name, bad.to_string(), "give it another name, or take it out");
                headers.remove(&name.value);
            }
        }
    }

    /// A text that is the same for all items of a run.
    fn plain(
        &mut self,
        key: &str,
        text: &At<String>,
        check: impl FnOnce(&str) -> Result<(), BadEvent>,
        example: &str,
    ) {
        let is_expression =
            ["'", "\"", "row.", "parameters."].iter().any(|start| text.value.starts_with(start));
        if is_expression {
            let what = format!("{key} is a text that all events share, and here is an expression");
            let fix = format!("write {key}: {example}, with ${{name}} for a parameter");
            let why = "only aggregate_id, payload and headers are made of the item".to_owned();
            self.wrong(text, what, fix).why = Some(why);
        } else if !text.value.contains("${")
            && let Err(bad) = check(&text.value)
        {
            let fix = format!("write it as {key}: {example}");
            self.wrong(text, bad.to_string(), fix);
        }
    }
}
