//! Why a topic could not be read, and what caused a record to be rejected.

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
    /// It does not exist, or we may not read it.
    #[error("the topic {topic} cannot be read: {why}")]
    Topic { topic: String, why: String },
    #[error(
        "partition {partition} of the topic {topic} was to be read from offset {offset} on, and has {first} to {end}"
    )]
    Gone {
        topic: String,
        partition: i32,
        offset: i64,
        first: i64,
        /// One past the last offset.
        end: i64,
    },
    #[error("the thread that reads the topic has ended")]
    Ended,
    /// The position that the last run saved is invalid.
    #[error("the saved position of the reader {reader:?} is not understood")]
    Saved { reader: String },
}

impl ReadFailure {
    /// `None` where a failed execution says enough.
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
        let fix = match self {
            Self::Settings(error) => return error.fix(),
            Self::Unreachable { .. } => {
                "check outbox.kafka.bootstrap_servers and its security settings, and that the brokers run"
            }
            Self::Topic { .. } => "check the name of the topic, and that this user may read and describe it",
            Self::Gone { .. } => {
                "the topic forgets sooner than it is read, or was made anew: raise its retention, and let a new \
                 instance begin where something is left (from: earliest, every_run: true)"
            }
            Self::Ended => "look into the log, and try again",
            Self::Saved { .. } => "start the job anew",
        };
        fix.to_owned()
    }

    /// As a failure of the step: no further item can be read.
    pub(crate) fn of_step(self) -> ItemError {
        let error = ItemError::new(ErrorKind::FATAL, format!("{self}; {}", self.fix()));
        match self.code() {
            Some(code) => error.coded(code),
            None => error,
        }
    }
}

/// What caused a record to be rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ErrorClass {
    /// This record, or one of the batch it was sent in; it will never be accepted.
    Record,
    /// Its topic, so every record of that topic.
    Topic,
    /// The brokers are unreachable or busy; a retry may succeed.
    Sink,
}

impl ErrorClass {
    /// Errors that are not known to be final are worth a retry.
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
