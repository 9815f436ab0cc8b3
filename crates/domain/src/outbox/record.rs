//! A record: an event as it is published, with its place in its slot, so that whoever reads what was published can tell
//! what is missing and what came twice.

use super::adopted::TableName;
use super::event::{Aggregate, EventId, Headers, Payload, Seq, Slot};
use crate::lease::Epoch;
use crate::time::Timestamp;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub id: EventId,
    /// The adopted table that it is from; none of those of the outbox itself.
    pub table: Option<TableName>,
    pub slot: Slot,
    pub epoch: Epoch,
    pub seq: Seq,
    pub aggregate: Aggregate,
    pub event_type: String,
    pub topic: String,
    /// Whether somebody has said that it goes there, whatever becomes of others of its type.
    pub is_redirected: bool,
    pub headers: Headers,
    pub payload: Payload,
    pub created_at: Timestamp,
}
