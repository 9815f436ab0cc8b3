//! Which topics exist. They are looked up before the first record is sent: if an aggregate's events go to several
//! topics, no record may arrive after one whose topic does not exist.

use crate::failure::ErrorClass;
use crate::producer::Producer;
use rdkafka::types::RDKafkaErrorCode;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidemill_domain::time::{Clock, Monotonic};

/// How often to ask for a topic that brokers create on first request.
const ATTEMPTS: u32 = 10;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(100);

const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// How long a topic counts as missing before it is looked up again.
const REMEMBERED_FOR: Duration = Duration::from_secs(5);

#[derive(Debug)]
enum State {
    Exists,
    Refused { why: String, at: Monotonic },
}

#[derive(Debug)]
pub(crate) struct Known {
    clock: Arc<dyn Clock>,
    topics: Mutex<HashMap<String, State>>,
}

impl Known {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, topics: Mutex::default() }
    }

    /// Why a topic refuses records, or none. The error says why that is not known.
    pub(crate) async fn refusal(
        &self,
        topic: &str,
        producer: &Arc<Producer>,
    ) -> Result<Option<String>, String> {
        match self.topics().get(topic) {
            Some(State::Exists) => return Ok(None),
            Some(State::Refused { why, at }) if self.clock.monotonic().since(*at) < REMEMBERED_FOR => {
                return Ok(Some(why.clone()));
            }
            _ => {}
        }
        let mut attempt = 0;
        loop {
            attempt += 1;
            let (asking, name) = (producer.clone(), topic.to_owned());
            let answer = tokio::task::spawn_blocking(move || asking.find_topic(&name, ANSWER_WITHIN)).await;
            match answer.map_err(|error| error.to_string())? {
                Ok(()) => {
                    self.topics().insert(topic.to_owned(), State::Exists);
                    return Ok(None);
                }
                Err(code) if appears_soon(code) && attempt < ATTEMPTS => {
                    tokio::time::sleep(BETWEEN_ATTEMPTS).await;
                }
                Err(code) if ErrorClass::of(code) == ErrorClass::Topic => {
                    return Ok(Some(self.refuse(topic, code)));
                }
                Err(code) => {
                    let complaint = producer.complaint().unwrap_or_default();
                    return Err(format!("topic {topic}: {code} {complaint}").trim_end().to_owned());
                }
            }
        }
    }

    /// Marks a topic as rejecting records; returns the message.
    pub(crate) fn refuse(&self, topic: &str, code: RDKafkaErrorCode) -> String {
        let why = format!("topic {topic}: {code}");
        let refused = State::Refused { why: why.clone(), at: self.clock.monotonic() };
        self.topics().insert(topic.to_owned(), refused);
        why
    }

    pub(crate) fn forget(&self) {
        self.topics().retain(|_, state| matches!(state, State::Refused { .. }));
    }

    fn topics(&self) -> MutexGuard<'_, HashMap<String, State>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn appears_soon(code: RDKafkaErrorCode) -> bool {
    matches!(code, RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::LeaderNotAvailable)
}
