//! Whose fault it is that a record was not taken, by the code of the client.

use rdkafka::types::RDKafkaErrorCode as Code;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorClass {
    /// The record's own: it will never be taken. If it travelled in a batch, one of that batch is meant.
    Record,
    /// That of its topic, for every record of it.
    Topic,
    /// Nobody's here: the brokers cannot be reached, or are busy with themselves. It may be taken later.
    Sink,
}

/// Whose fault a failure is. What is not known to be final is worth another attempt.
pub fn of(code: Code) -> ErrorClass {
    match code {
        Code::MessageSizeTooLarge
        | Code::MessageBatchTooLarge
        | Code::InvalidMessageSize
        | Code::InvalidTimestamp
        | Code::InvalidRecord
        | Code::PolicyViolation => ErrorClass::Record,
        Code::UnknownTopic
        | Code::UnknownTopicOrPartition
        | Code::UnknownPartition
        | Code::InvalidTopic
        | Code::TopicAuthorizationFailed => ErrorClass::Topic,
        _ => ErrorClass::Sink,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(of(code), ErrorClass::Sink, "{code}");
        }
        assert_eq!(of(Code::MessageSizeTooLarge), ErrorClass::Record);
        assert_eq!(of(Code::TopicAuthorizationFailed), ErrorClass::Topic);
    }
}
