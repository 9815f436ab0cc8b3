//! Where a relay sends records. Files and the standard output are in `sink`; what needs a network lives
//! with its adapter.

use std::fmt;
use std::pin::Pin;
use tidemill_domain::outbox::Record;

/// A publication that is under way.
pub type Publishing<'a> = Pin<Box<dyn Future<Output = Vec<Outcome>> + Send + 'a>>;

/// What became of one record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is there, and will still be there after a crash of whoever has it.
    Delivered,
    /// It was not taken, and this is about this record: its aggregate waits, the others go on.
    Refused {
        /// What happened; stored and shown, so it must hold no secret.
        why: String,
        /// Whether the next attempt may succeed.
        is_permanent: bool,
    },
    /// It was not sent because an earlier record of its aggregate was refused.
    Held,
    /// It was not taken, and this is about the sink: nothing is wrong with the record, so it is sent again until it is
    /// taken, and no attempt is counted.
    Unavailable {
        /// What happened.
        why: String,
    },
}

/// A place where records go.
pub trait Publisher: fmt::Debug + Send + Sync {
    /// What people call it, such as `file:/var/spool/events.jsonl`. Holds no secret.
    fn name(&self) -> String;

    /// Whether it will never take a record again, so that waiting for it is of no use.
    fn is_gone(&self) -> bool {
        false
    }

    /// Publishes records in their order and says what became of each, in the same order. Of one aggregate, nothing is
    /// delivered after a record that was not. The same record may come again, when nobody could write down that it had
    /// arrived.
    fn publish<'a>(&'a self, records: &'a [Record]) -> Publishing<'a>;
}
