//! Why a topic could not be read, and whose fault it is that a record was not taken.

use crate::options::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::item::{ErrorKind, ItemError};

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadFailure {
    #[error(transparent)]
    Settings(#[from] KafkaError),
    #[error("Kafka at {servers} did not answer within {waited:?}: {why}")]
    Unreachable { servers: String, waited: Duration, why: String },
    /// It is not there, or we may not read it.
    #[error("the topic {topic} cannot be read: {why}")]
    Topic { topic: String, why: String },
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

/// Whose fault it is that a record was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ErrorClass {
    /// The record's own: it will never be taken. If it travelled in a batch, one of that batch is meant.
    Record,
    /// That of its topic, for every record of it.
    Topic,
    /// Nobody's here: the brokers cannot be reached, or are busy with themselves. It may be taken later.
    Sink,
}

impl ErrorClass {
    /// Whose fault a failure is. What is not known to be final is worth another attempt.
    pub(crate) fn of(code: RDKafkaErrorCode) -> Self {
        match code {
            RDKafkaErrorCode::MessageSizeTooLarge
            | RDKafkaErrorCode::MessageBatchTooLarge
            | RDKafkaErrorCode::InvalidMessageSize
            | RDKafkaErrorCode::InvalidTimestamp
            | RDKafkaErrorCode::InvalidRecord
            | RDKafkaErrorCode::PolicyViolation => Self::Record,
            RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::UnknownPartition
            | RDKafkaErrorCode::InvalidTopic
            | RDKafkaErrorCode::TopicAuthorizationFailed => Self::Topic,
            _ => Self::Sink,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::types::RDKafkaErrorCode as Code;

    #[test]
    fn only_what_another_attempt_does_not_change_is_final() {
        for code in [
            Code::BrokerTransportFailure,
            Code::MessageTimedOut,
            Code::PurgeQueue,
            Code::PurgeInflight,
            Code::Fatal,
            Code::GaplessGuarantee,
            Code::NotLeaderForPartition,
            Code::NotEnoughReplicas,
            Code::OutOfOrderSequenceNumber,
            Code::ClusterAuthorizationFailed,
            Code::InvalidDifferentRecord,
            Code::Authentication,
        ] {
            assert_eq!(ErrorClass::of(code), ErrorClass::Sink, "{code}");
        }
        assert_eq!(ErrorClass::of(Code::MessageSizeTooLarge), ErrorClass::Record);
        assert_eq!(ErrorClass::of(Code::TopicAuthorizationFailed), ErrorClass::Topic);
    }
}
