//! The topic of receipts: 16 partitions, one per group, of which only the last record counts. It is created if missing.
//! The new owner of a group reads it after it has fenced all other writers.

use crate::options::KafkaOptions;
use rdkafka::admin::{
    AdminClient, AdminOptions, ConfigResource, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError as ClientError;
use rdkafka::message::Message;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::outbox::{Group, Receipt};
use tidemill_domain::time::Clock;
use tidemill_engine::outbox::{NotTaken, SinkRefusal};

/// Only whole segments are compacted.
const SEGMENT_BYTES: &str = "16777216";

/// Offsets before the end to read first. A transaction uses two: the record and its end marker.
const TAIL: i64 = 256;

const POLL: Duration = Duration::from_millis(100);

/// How often to look for a topic that was just created.
const ATTEMPTS: u32 = 20;

type Admin = Arc<AdminClient<DefaultClientContext>>;

#[derive(Clone, Debug)]
pub(crate) struct Receipts {
    pub(crate) topic: String,
    config: ClientConfig,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Receipts {
    pub(crate) fn new(options: &KafkaOptions, transactional_id: &str, clock: Arc<dyn Clock>) -> Self {
        let mut config = options.client_config(&[], &[]);
        config.set_log_level(RDKafkaLogLevel::Critical);
        Self { topic: format!("{transactional_id}-receipts"), config, clock }
    }

    /// Creates the topic if it is missing, and checks its settings.
    pub(crate) async fn prepare(&self, within: Duration) -> Result<(), NotTaken> {
        let admin: Admin = Arc::new(self.config.create().map_err(unavailable)?);
        let count = i32::try_from(Group::COUNT).unwrap_or(i32::MAX);
        // -1 is the brokers' default.
        let topic = NewTopic::new(&self.topic, count, TopicReplication::Fixed(-1))
            .set("cleanup.policy", "compact")
            .set("segment.bytes", SEGMENT_BYTES);
        let options = AdminOptions::new().request_timeout(Some(within)).operation_timeout(Some(within));
        // Without the right to create it, it may still exist.
        let made = admin.create_topics([&topic], &options).await.map_err(unavailable)?;
        let refused = made.into_iter().find_map(Result::err).map(|(_, code)| code);
        self.check_partitions(&admin, within, refused).await?;
        self.check_policy(&admin, &options).await
    }

    /// Why it was not created matters only if it does not exist.
    async fn check_partitions(
        &self,
        admin: &Admin,
        within: Duration,
        refused: Option<RDKafkaErrorCode>,
    ) -> Result<(), NotTaken> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let (asking, name) = (admin.clone(), self.topic.clone());
            let asked = tokio::task::spawn_blocking(move || {
                let metadata = asking.inner().fetch_metadata(Some(&name), within)?;
                let found = metadata.topics().first();
                let count = found.map_or(0, |topic| topic.partitions().len());
                Ok((count, found.and_then(|topic| topic.error()).map(RDKafkaErrorCode::from)))
            });
            let asked = asked.await.map_err(|error| self.missing(&error.to_string()))?;
            let (count, error) = asked.map_err(unavailable)?;
            match error {
                None if count == Group::COUNT => return Ok(()),
                None if count > 0 => {
                    let what = format!(
                        "the topic {} has {count} partitions, and needs {}",
                        self.topic,
                        Group::COUNT
                    );
                    return Err(not_fit(what));
                }
                error if attempt >= ATTEMPTS => return Err(self.missing(&not_there(error, refused))),
                _ => tokio::time::sleep(POLL).await,
            }
        }
    }

    fn missing(&self, why: &str) -> NotTaken {
        NotTaken::Unavailable { why: format!("topic {}: {why}", self.topic) }
    }

    async fn check_policy(&self, admin: &Admin, options: &AdminOptions) -> Result<(), NotTaken> {
        let about = ResourceSpecifier::Topic(&self.topic);
        let answers = admin.describe_configs([&about], options).await.map_err(unavailable)?;
        let policy =
            |config: &ConfigResource| config.get("cleanup.policy").and_then(|entry| entry.value.clone());
        match answers.into_iter().next() {
            Some(Ok(config)) => match policy(&config) {
                Some(policy) if policy != "compact" => {
                    let topic = &self.topic;
                    Err(not_fit(format!("the topic {topic} has cleanup.policy={policy}, and needs compact")))
                }
                _ => Ok(()),
            },
            Some(Err(RDKafkaErrorCode::TopicAuthorizationFailed)) => {
                tracing::warn!(
                    "the settings of the topic {} may not be looked at; it must be compacted",
                    self.topic
                );
                Ok(())
            }
            Some(Err(code)) => Err(self.missing(&code.to_string())),
            None => Err(self.missing("no settings")),
        }
    }

    /// `None` if the group never sent anything.
    pub(crate) async fn read(&self, group: Group, within: Duration) -> Result<Option<Receipt>, NotTaken> {
        let this = self.clone();
        let read = tokio::task::spawn_blocking(move || this.read_here(group, within)).await;
        let bytes = read.map_err(|error| NotTaken::Unavailable { why: error.to_string() })??;
        bytes.map(|bytes| Receipt::from_json(&bytes)).transpose().map_err(|error| {
            NotTaken::Refused(SinkRefusal {
                code: Code::BadReceipt,
                what: format!("the last receipt of group {group} in the topic {}: {error}", self.topic),
                fix: "use a program that is as new as the one that wrote it; see also `tidemill explain TM1442`".to_owned(),
            })
        })
    }

    fn read_here(&self, group: Group, within: Duration) -> Result<Option<Vec<u8>>, NotTaken> {
        let until = self.clock.monotonic().plus(within);
        let left = || until.since(self.clock.monotonic());
        let consumer = self.consumer()?;
        let partition = i32::from(group.get());
        let (low, high) = loop {
            match consumer.fetch_watermarks(&self.topic, partition, left()) {
                Ok(found) => break found,
                Err(error) if is_passing(&error) && !left().is_zero() => std::thread::sleep(POLL),
                Err(error) => return Err(unavailable(error)),
            }
        };
        let mut starts = vec![low.max(high.saturating_sub(TAIL))];
        // Many aborted or compacted records may lie between the last receipt and the end.
        starts.extend((starts[0] > low).then_some(low));
        let assign = |offset: i64| {
            let mut list = TopicPartitionList::new();
            list.add_partition_offset(&self.topic, partition, Offset::Offset(offset))
                .and_then(|()| consumer.assign(&list))
                .map_err(unavailable)
        };
        for start in starts {
            assign(start)?;
            let (mut last, mut next, mut is_asked_again) = (None, start, false);
            loop {
                match consumer.poll(POLL.min(left())) {
                    Some(Ok(message)) if message.offset() < next => {}
                    Some(Ok(message)) => {
                        last = message.payload().map(<[u8]>::to_vec);
                        (next, is_asked_again) = (message.offset() + 1, false);
                    }
                    // A new leader may report the end too early. The next offset is the end marker, unless a second
                    // request brings more.
                    Some(Err(ClientError::PartitionEOF(_))) if next < high && !is_asked_again => {
                        is_asked_again = true;
                        assign(next)?;
                    }
                    Some(Err(ClientError::PartitionEOF(_))) => break,
                    Some(Err(error)) if is_passing(&error) => {}
                    Some(Err(error)) => return Err(unavailable(error)),
                    None if left().is_zero() => {
                        return Err(self.missing("its end was not reached in time"));
                    }
                    None => {}
                }
            }
            if last.is_some() {
                return Ok(last);
            }
        }
        Ok(None)
    }

    /// Reads committed records only, and commits no offsets.
    fn consumer(&self) -> Result<BaseConsumer, NotTaken> {
        let mut config = self.config.clone();
        config
            .set("group.id", &self.topic)
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            // How long the broker waits for more at the end of a partition.
            .set("fetch.wait.max.ms", "50")
            .set("isolation.level", "read_committed")
            .set("auto.offset.reset", "earliest");
        config.create().map_err(unavailable)
    }
}

fn not_there(error: Option<RDKafkaErrorCode>, refused: Option<RDKafkaErrorCode>) -> String {
    let found = error.map_or_else(|| "it has no partitions".to_owned(), |error| error.to_string());
    match refused {
        Some(code) => format!("{found}; it could not be made: {code}"),
        None => found,
    }
}

/// Transient: brokers that restart, and new topics without a leader.
fn is_passing(error: &ClientError) -> bool {
    use RDKafkaErrorCode::{
        AllBrokersDown, BrokerTransportFailure, LeaderNotAvailable, NotLeaderForPartition, OperationTimedOut,
        Resolve, UnknownTopicOrPartition,
    };
    matches!(
        error.rdkafka_error_code(),
        Some(
            AllBrokersDown
                | BrokerTransportFailure
                | LeaderNotAvailable
                | NotLeaderForPartition
                | OperationTimedOut
                | Resolve
                | UnknownTopicOrPartition
        )
    )
}

fn unavailable(error: ClientError) -> NotTaken {
    NotTaken::Unavailable { why: error.to_string() }
}

fn not_fit(what: String) -> NotTaken {
    let fix = "delete the topic, and it is created again with the right settings, or set outbox.kafka.transactional_id to another name; stop all relays first".to_owned();
    NotTaken::Refused(SinkRefusal { code: Code::ReceiptsNotFit, what, fix })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_topic_that_is_not_there_it_is_told_why_it_could_not_be_made() {
        let unknown = Some(RDKafkaErrorCode::UnknownTopicOrPartition);

        let told = not_there(unknown, Some(RDKafkaErrorCode::TopicAuthorizationFailed));

        assert!(told.contains("; it could not be made: ") && told.contains("authorization"), "{told}");
        assert!(!not_there(unknown, None).contains("could not be made"));
    }
}
