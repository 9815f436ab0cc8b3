//! Where a relay publishes records. Files and standard output are in `sink`; sinks that need a network are in other
//! crates.

use crate::{BoxFuture, LeaseGuard};
use std::fmt;
use std::sync::Arc;
use tidemill_domain::code::Code;
use tidemill_domain::outbox::{EventId, Group, Record};

pub type Publishing<'a> = BoxFuture<'a, Vec<Outcome>>;

/// For each group: the events that its receipt names.
pub type Taking<'a> = BoxFuture<'a, Vec<Result<Vec<EventId>, NotTaken>>>;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is durable at the receiver.
    Delivered,
    /// This record was rejected: its aggregate waits, others continue.
    Refused {
        /// Stored and shown, so it must not contain a secret.
        why: String,
        is_permanent: bool,
    },
    /// Not sent, because an earlier record of its aggregate was refused.
    Held,
    /// The sink is unavailable: the record is sent again, and no attempt is counted.
    Unavailable { why: String },
}

/// Why a sink with transactions does not take a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotTaken {
    /// Unavailable for now; it is asked again.
    Unavailable { why: String },
    /// A person has to act.
    Refused(SinkRefusal),
}

/// What a person has to fix before a sink can be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SinkRefusal {
    pub code: Code,
    pub what: String,
    pub fix: String,
}

/// A destination of records.
///
/// A sink with transactions (see `domain::outbox::relay`) sends the records of a group together with a receipt. It
/// reports records that are on the last receipt as delivered, without sending them.
pub trait Publisher: fmt::Debug + Send + Sync {
    /// For people, such as `file:/var/spool/events.jsonl`. Must not contain a secret.
    fn name(&self) -> String;

    /// Whether it will never accept a record again.
    fn is_gone(&self) -> bool {
        false
    }

    /// Publishes records in order, and returns an outcome for each. After a record that was not delivered, no later
    /// record of its aggregate is. The same record may come again, if its delivery could not be recorded.
    fn publish<'a>(&'a self, records: &'a [Record]) -> Publishing<'a>;

    /// Takes groups from their previous owner, which can then no longer send. `system` identifies the database. Once
    /// `guard` is over, nothing may be taken: that would be from the rightful owner.
    fn take<'a>(&'a self, groups: &'a [Group], system: Option<&'a str>, guard: &'a LeaseGuard) -> Taking<'a> {
        let _only_with_transactions = (system, guard);
        Box::pin(std::future::ready(groups.iter().map(|_| Ok(Vec::new())).collect()))
    }

    /// Releases groups; all of them if the list is empty.
    fn leave(&self, groups: &[Group]) {
        let _only_with_transactions = groups;
    }

    /// The database knows that these were published, so receipts need not name them any more.
    fn settled(&self, events: &[EventId]) {
        let _only_with_transactions = events;
    }

    /// Whether another relay has taken one of its groups.
    fn is_ousted(&self) -> bool {
        false
    }

    /// The publisher for records of attached tables, if it is another one: their ids are not event ids.
    fn beside(&self) -> Option<Arc<dyn Publisher>> {
        None
    }
}
