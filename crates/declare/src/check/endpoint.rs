//! Topics to read and events to write: valid names and start positions.

use super::Checker;
use crate::model::{At, ChunkFile, KafkaFile, OutboxFile};
use tidemill_domain::outbox::event::{check_headers, check_name, check_topic};
use tidemill_domain::outbox::{BadEvent, Headers};
use tidemill_kafka::From;

impl Checker<'_> {
    pub(super) fn kafka(&mut self, file: &KafkaFile, chunk: &ChunkFile) {
        if !file.topic.value.contains("${")
            && let Err(bad) = check_topic(&file.topic.value)
        {
            self.wrong(&file.topic, bad.to_string(), "write it as topic: orders");
        }
        self.beginning(file);
        if let Some(partitions) = &chunk.partitions {
            let what = "a topic is read by one step, one partition after the other, and not divided";
            let fix = "take partitions out; threads: 4 processes several chunks at once";
            self.wrong_at(partitions.place, 1, what, fix);
        }
    }

    fn beginning(&mut self, file: &KafkaFile) {
        let Some(from) = &file.from else { return };
        if from.value.contains("${") {
            if file.is_every_run.is_none() {
                let what = "`from` has another value in each instance, and `every_run` is missing";
                let fix = "write every_run: true to begin there in every instance, or every_run: false to begin there \
                           once and go on where the instance before ended";
                self.wrong(from, what, fix);
            }
            return;
        }
        match from.value.parse::<From>() {
            Err(bad) => {
                let fix = "write from: earliest, from: latest, or from: 2026-11-15T00:00:00Z";
                self.wrong(from, bad.to_string(), fix);
            }
            Ok(From::Latest) if file.is_every_run == Some(true) => {
                let what = "every run would begin where it ends, and read nothing";
                let why = "a run ends where the topic ends when it begins".to_owned();
                self.wrong(from, what, "take every_run out: then only the first run reads nothing").why =
                    Some(why);
            }
            Ok(_) => {}
        }
    }

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

    /// Checks a text that is the same for all items of a run.
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
