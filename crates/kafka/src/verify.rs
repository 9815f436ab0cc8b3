//! Reads back what relays have published, to compare it with the table. It counts only committed records, up to where
//! the topics end when a round begins.

use crate::consumer::{Bounds, Consumer, Isolation, Span};
use crate::failure::ReadFailure;
use crate::header;
use crate::options::KafkaOptions;
use rdkafka::Message as _;
use rdkafka::message::{BorrowedMessage, Headers as _};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::lease::Epoch;
use tidemill_domain::outbox::verify::{Lane, Place};
use tidemill_domain::outbox::{Aggregate, EventId, Published, Seq, Slot};
use tidemill_engine::outbox::verify::{Destination, ReadBack, TailEntry, VerifyError};

/// The topics of an outbox, and how far each was read.
#[derive(Debug)]
pub struct TopicsBack {
    options: KafkaOptions,
    /// Topics to read besides those in the table.
    more: Vec<String>,
    patience: Duration,
    /// The partitions in the order of discovery, with the next offset: the index is the place's number.
    known: Vec<(String, i32, Option<i64>)>,
}

impl TopicsBack {
    /// Reads the topics that events of the table go to, and these.
    pub fn new(options: KafkaOptions, more: Vec<String>, patience: Duration) -> Self {
        Self { options, more, patience, known: Vec::new() }
    }

    fn topics(&self, destinations: &[Destination]) -> BTreeSet<String> {
        let named = destinations.iter().map(|(event_type, topic, is_redirected)| {
            self.options.topics.of(event_type, topic, *is_redirected).into_owned()
        });
        named.chain(self.more.iter().cloned()).collect()
    }

    fn read_topic(
        &mut self,
        topic: &str,
        found: &mut dyn FnMut(Lane, Place, TailEntry),
    ) -> Result<(), ReadFailure> {
        // A new one per topic and round, so that no record of an earlier round can arrive.
        let consumer = Consumer::new(&self.options, Isolation::ReadCommitted, self.patience)?;
        let whole = Consumer::new(&self.options, Isolation::ReadUncommitted, self.patience)?;
        let partitions = match consumer.partitions(topic) {
            Ok(partitions) => partitions,
            // A relay that has published nothing needs no topic. If it has published, everything is lost.
            Err(failure @ ReadFailure::Topic { .. }) => {
                tracing::warn!("{failure}; it counts as empty");
                return Ok(());
            }
            Err(failure) => return Err(failure),
        };
        for partition in partitions {
            let bounds = settled(&consumer, whole.bounds(topic, partition)?, topic, partition)?;
            let is_it = |known: &(String, i32, _)| known.0 == topic && known.1 == partition;
            let file = self.known.iter().position(is_it).unwrap_or_else(|| {
                self.known.push((topic.to_owned(), partition, None));
                self.known.len() - 1
            });
            // Records deleted since the last round were seen by it, or count as lost.
            let from = self.known[file].2.unwrap_or(bounds.first).max(bounds.first);
            let span = Span { topic, partition, from, to: bounds.end };
            consumer.read(&span, &mut |seen| {
                if let Some(message) = seen {
                    let place = Place { file, line: u64::try_from(message.offset()).unwrap_or(0) };
                    found(Lane(file), place, of(message));
                }
                ControlFlow::Continue(())
            })?;
            self.known[file].2 = Some(bounds.end.max(from));
        }
        Ok(())
    }
}

impl ReadBack for TopicsBack {
    fn wants_destinations(&self) -> bool {
        true
    }

    fn read(
        &mut self,
        destinations: &[Destination],
        found: &mut dyn FnMut(Lane, Place, TailEntry),
    ) -> Result<(), VerifyError> {
        for topic in self.topics(destinations) {
            self.read_topic(&topic, found).map_err(|failure| VerifyError::Unreadable {
                code: failure.code().unwrap_or(Code::KafkaUnreachable),
                what: failure.to_string(),
                fix: failure.fix(),
            })?;
        }
        Ok(())
    }

    fn name(&self, place: Place) -> String {
        match self.known.get(place.file) {
            Some((topic, partition, _)) => format!("{topic}/{partition} offset {}", place.line),
            None => String::new(),
        }
    }
}

/// The bounds once the transactions that were open have ended: committed records after an open one are not visible yet.
fn settled(consumer: &Consumer, whole: Bounds, topic: &str, partition: i32) -> Result<Bounds, ReadFailure> {
    let mut looks = 0;
    loop {
        let bounds = consumer.bounds(topic, partition)?;
        if bounds.end >= whole.end {
            return Ok(Bounds { end: whole.end, ..bounds });
        }
        if looks == LOOKS_MAX {
            tracing::warn!(
                "a transaction in {topic}/{partition} stays open; what is behind it is not verified"
            );
            return Ok(bounds);
        }
        looks += 1;
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// How often to check for open transactions; `BETWEEN_LOOKS` is the pause.
const LOOKS_MAX: u32 = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

fn of(message: &BorrowedMessage<'_>) -> TailEntry {
    let headers = message.headers();
    let text = |name: &str| {
        let found = headers.into_iter().flat_map(|headers| headers.iter()).find(|header| header.key == name);
        found.map(|header| header.value.and_then(|value| std::str::from_utf8(value).ok()))
    };
    let Some(id) = text(header::EVENT_ID) else { return TailEntry::Foreign };
    let number = |name: &str| text(name).flatten()?.parse::<i64>().ok();
    let published = || {
        Some(Published {
            id: id?.parse::<EventId>().ok()?,
            slot: Slot::new(u8::try_from(number(header::SLOT)?).ok()?),
            epoch: Epoch::new(number(header::EPOCH)?),
            seq: Seq::new(number(header::SEQ)?),
            aggregate: Aggregate {
                kind: text(header::AGGREGATE_TYPE).flatten()?.to_owned(),
                id: String::from_utf8(message.key()?.to_vec()).ok()?,
            },
        })
    };
    published().map_or(TailEntry::Torn, TailEntry::Published)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::{Route, Topics};

    #[test]
    fn what_was_redirected_is_looked_for_where_it_was_sent() {
        let mut options = KafkaOptions::new("localhost:9092");
        let route = Route { event_type: "order.*".into(), topic: "orders.v2".into() };
        options.topics = Topics::new("", vec![route]).unwrap();
        let back = TopicsBack::new(options, vec!["old".into()], Duration::from_secs(1));

        let destination =
            |topic: &str, is_redirected| ("order.paid".to_owned(), topic.to_owned(), is_redirected);
        let topics = back.topics(&[destination("orders", false), destination("rescue", true)]);

        assert_eq!(topics.into_iter().collect::<Vec<_>>(), ["old", "orders.v2", "rescue"]);
    }
}
