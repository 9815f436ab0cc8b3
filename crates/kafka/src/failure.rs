//! Why a topic could not be read.

use crate::options::KafkaError;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::item::{ErrorKind, ItemError};

/// Why a topic could not be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadFailure {
    /// The settings of the client.
    #[error(transparent)]
    Settings(#[from] KafkaError),
    #[error("Kafka at {servers} did not answer within {waited:?}: {why}")]
    Unreachable { servers: String, waited: Duration, why: String },
    /// It is not there, or we may not read it.
    #[error("the topic {topic} cannot be read: {why}")]
    Topic { topic: String, why: String },
    /// Records are gone that were to be read.
    #[error(
        "partition {partition} of the topic {topic} was to be read from offset {offset} on, and has {first} to {end}"
    )]
    Gone {
        topic: String,
        partition: i32,
        /// What was to be read next.
        offset: i64,
        /// The first that is there.
        first: i64,
        /// The one behind the last.
        end: i64,
    },
    /// The thread that reads has ended without a word.
    #[error("the thread that reads the topic has ended")]
    Ended,
    /// What was saved by the last run makes no sense.
    #[error("the saved position of the reader {reader:?} is not understood")]
    Saved { reader: String },
}

impl ReadFailure {
    /// Its stable code; none when a failed execution is all that there is to say.
    pub const fn code(&self) -> Option<Code> {
        match self {
            Self::Settings(error) => Some(error.code()),
            Self::Unreachable { .. } => Some(Code::KafkaUnreachable),
            Self::Topic { .. } => Some(Code::TopicUnreadable),
            Self::Gone { .. } => Some(Code::OffsetGone),
            Self::Ended | Self::Saved { .. } => None,
        }
    }

    /// What the reader can do about it.
    pub fn fix(&self) -> String {
        match self {
            Self::Settings(error) => error.fix(),
            Self::Unreachable { .. } => {
                "check outbox.kafka.bootstrap_servers and its security settings, and that the brokers run".into()
            }
            Self::Topic { .. } => {
                "check the name of the topic, and that this user may read and describe it".into()
            }
            Self::Gone { .. } => {
                "the topic forgets sooner than it is read, or was made anew: raise its retention, and let a new \
                 instance begin where something is left (from: earliest, every_run: true)"
                    .into()
            }
            Self::Ended => "look into the log, and try again".into(),
            Self::Saved { .. } => "start the job anew".into(),
        }
    }

    /// As what a step fails with: no item can be read any more.
    pub(crate) fn of_step(self) -> ItemError {
        let error = ItemError::new(ErrorKind::FATAL, format!("{self}; {}", self.fix()));
        match self.code() {
            Some(code) => error.coded(code),
            None => error,
        }
    }
}
