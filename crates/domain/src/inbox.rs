//! The inbox: which messages a consumer has handled, so that duplicates are recognised.

pub const CONSUMER_BYTES_MAX: usize = 200;
pub const MESSAGE_ID_BYTES_MAX: usize = 500;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    consumer: &'a str,
    id: &'a str,
}

crate::getters!(Message<'_> { &consumer: str, &id: str });

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadMessage {
    #[error("the name of a consumer is 1 to {CONSUMER_BYTES_MAX} bytes without control characters")]
    Consumer,
    #[error("the id of a message is 1 to {MESSAGE_ID_BYTES_MAX} bytes without control characters")]
    Id,
}

crate::code::coded!(BadMessage, BadMessageId);
crate::code::fixes!(BadMessage {
    Consumer => "give the consumer a short name that never changes, such as billing";
    Id => "use the producer's id of the message, such as the header tidemill-event-id, or a hash of it";
});

impl<'a> Message<'a> {
    pub fn new(consumer: &'a str, id: &'a str) -> Result<Self, BadMessage> {
        let is_fit =
            |text: &str, most: usize| (1..=most).contains(&text.len()) && !text.chars().any(char::is_control);
        crate::newtype::check_all([
            (is_fit(consumer, CONSUMER_BYTES_MAX), BadMessage::Consumer),
            (is_fit(id, MESSAGE_ID_BYTES_MAX), BadMessage::Id),
        ])?;
        Ok(Self { consumer, id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_and_ids_have_bounds() {
        let long = "x".repeat(CONSUMER_BYTES_MAX);
        let longer = "x".repeat(CONSUMER_BYTES_MAX + 1);
        let id = "한".repeat(MESSAGE_ID_BYTES_MAX / 3);
        let too_long = "한".repeat(MESSAGE_ID_BYTES_MAX / 3 + 1);

        assert!(Message::new(&long, &id).is_ok());
        assert_eq!(Message::new(&longer, "1"), Err(BadMessage::Consumer));
        assert_eq!(Message::new("", "1"), Err(BadMessage::Consumer));
        assert_eq!(Message::new("a\nb", "1"), Err(BadMessage::Consumer));
        assert_eq!(Message::new("a", &too_long), Err(BadMessage::Id));
        assert_eq!(Message::new("a", "1\0"), Err(BadMessage::Id));
    }

    proptest! {
        #[test]
        fn what_is_accepted_is_kept_as_it_is(consumer in "[a-z ]{1,50}", id in "\\PC{1,100}") {
            let message = Message::new(&consumer, &id).unwrap();

            prop_assert_eq!((message.consumer(), message.id()), (consumer.as_str(), id.as_str()));
        }
    }

    #[test]
    fn a_message_has_an_id() {
        use crate::inbox::Message;
        assert!(Message::new("billing", "4711").is_ok());
        assert!(Message::new("billing", "").is_err());
    }
}
