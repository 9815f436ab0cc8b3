//! Where a relay sends records. Files and the standard output are in `sink`; what needs a network lives
//! with its adapter.

use crate::lease_guard::LeaseGuard;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use tidemill_domain::code::Code;
use tidemill_domain::outbox::{EventId, Group, Record};

pub type Publishing<'a> = Pin<Box<dyn Future<Output = Vec<Outcome>> + Send + 'a>>;

/// Groups that are being taken: of each, the events that its receipt names.
pub type Taking<'a> = Pin<Box<dyn Future<Output = Vec<Result<Vec<EventId>, NotTaken>>> + Send + 'a>>;

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
    Unavailable { why: String },
}

/// Why a sink with transactions does not take a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotTaken {
    /// It cannot say anything now; it is asked again.
    Unavailable { why: String },
    /// It would not be right, and somebody has to see to it.
    Refused(SinkRefusal),
}

/// What somebody has to see to before a sink can be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SinkRefusal {
    pub code: Code,
    pub what: String,
    pub fix: String,
}

/// A place where records go.
///
/// One with transactions (its name says so, see `domain::outbox::relay`) sends the records of a group together with a
/// receipt, and says of a record that is on the last receipt that it was delivered, without sending it.
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

    /// Takes groups from whoever had them, who can send nothing of them any more once this has answered. `system` tells the
    /// database from all others. Once `guard` is over, nothing is taken any more: that would be from the rightful owner.
    fn take<'a>(&'a self, groups: &'a [Group], system: Option<&'a str>, guard: &'a LeaseGuard) -> Taking<'a> {
        let _only_with_transactions = (system, guard);
        Box::pin(std::future::ready(groups.iter().map(|_| Ok(Vec::new())).collect()))
    }

    /// Lets go of groups; all, without any.
    fn leave(&self, groups: &[Group]) {
        let _only_with_transactions = groups;
    }

    /// The database knows that these were published, so receipts need not name them any more.
    fn settled(&self, events: &[EventId]) {
        let _only_with_transactions = events;
    }

    /// Whether somebody else has taken a group of those that this one has.
    fn is_ousted(&self) -> bool {
        false
    }

    /// Where records go that are not from the outbox's own table, if it is not here. Their numbers are not those of events.
    fn beside(&self) -> Option<Arc<dyn Publisher>> {
        None
    }
}
