//! Which topics exist. They are looked up before the first record is sent: if an aggregate's events go to several
//! topics, no record may arrive after one whose topic does not exist.

use crate::failure::ErrorClass;
use crate::producer::Producer;
use rdkafka::types::RDKafkaErrorCode;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidemill_domain::time::{Clock, Monotonic};

/// How often to ask for a topic that brokers create on first request.
const ATTEMPTS: u32 = 10;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(100);

/// Timeout of one answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// How long a topic counts as missing before it is looked up again.
const REMEMBERED_FOR: Duration = Duration::from_secs(5);

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    There,
    /// With the reason.
    Refused(String),
    Unknown(String),
}

#[derive(Debug)]
pub(crate) struct Known {
    clock: Arc<dyn Clock>,
    topics: Mutex<HashMap<String, State>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum State {
    There,
    Refused { why: String, at: Monotonic },
}

impl Known {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, topics: Mutex::default() }
    }

    pub(crate) async fn look(&self, topic: &str, producer: &Arc<Producer>) -> Look {
        let state = self.topics.lock().unwrap_or_else(PoisonError::into_inner).get(topic).cloned();
        match state {
            Some(State::There) => return Look::There,
            Some(State::Refused { why, at }) if self.clock.monotonic().since(at) < REMEMBERED_FOR => {
                return Look::Refused(why);
            }
            _ => {}
        }
        let mut attempt = 0;
        loop {
            attempt += 1;
            let (asking, name) = (producer.clone(), topic.to_owned());
            let answer = tokio::task::spawn_blocking(move || asking.find_topic(&name, ANSWER_WITHIN)).await;
            match answer {
                Ok(Ok(())) => {
                    self.remember(topic, State::There);
                    return Look::There;
                }
                Ok(Err(code)) if appears_soon(code) && attempt < ATTEMPTS => {
                    tokio::time::sleep(BETWEEN_ATTEMPTS).await;
                }
                Ok(Err(code)) if ErrorClass::of(code) == ErrorClass::Topic => {
                    return Look::Refused(self.refuse(topic, code));
                }
                Ok(Err(code)) => {
                    let complaint = producer.complaint().unwrap_or_default();
                    return Look::Unknown(format!("topic {topic}: {code} {complaint}").trim_end().to_owned());
                }
                Err(error) => return Look::Unknown(error.to_string()),
            }
        }
    }

    /// Marks a topic as rejecting records; returns the message.
    pub(crate) fn refuse(&self, topic: &str, code: RDKafkaErrorCode) -> String {
        let why = format!("topic {topic}: {code}");
        self.remember(topic, State::Refused { why: why.clone(), at: self.clock.monotonic() });
        why
    }

    fn remember(&self, topic: &str, state: State) {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner).insert(topic.to_owned(), state);
    }

    pub(crate) fn forget(&self) {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, state| *state != State::There);
    }
}

fn appears_soon(code: RDKafkaErrorCode) -> bool {
    matches!(code, RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::LeaderNotAvailable)
}
