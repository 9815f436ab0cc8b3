//! Topics to read: names that Kafka accepts, and beginnings that make sense.

use super::Checker;
use crate::model::{ChunkFile, KafkaFile};
use tidemill_domain::outbox::event::check_topic;
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
            self.wrong_at(
                partitions.place,
                1,
                what,
                "take partitions out; threads: 4 processes several chunks at once",
            );
        }
    }

    fn beginning(&mut self, file: &KafkaFile) {
        let Some(from) = &file.from else { return };
        let is_every_run = file.is_every_run.as_ref().map(|every_run| every_run.value);
        if from.value.contains("${") {
            if is_every_run.is_none() {
                let what = "from has another value in each instance, and nobody says what it counts for";
                let fix = "write every_run: true to begin there in every instance, or every_run: false to begin there \
                           once and go on where the instance before ended";
                self.wrong(from, what, fix);
            }
            return;
        }
        match from.value.parse::<From>() {
            Err(bad) => {
                self.wrong(
                    from,
                    bad.to_string(),
                    "write from: earliest, from: latest, or from: 2026-11-15T00:00:00Z",
                );
            }
            Ok(From::Latest) if is_every_run == Some(true) => {
                let what = "every run would begin where it ends, and read nothing";
                let why = "a run ends where the topic ends when it begins".to_owned();
                self.wrong(from, what, "take every_run out: then only the first run reads nothing").why =
                    Some(why);
            }
            Ok(_) => {}
        }
    }
}
