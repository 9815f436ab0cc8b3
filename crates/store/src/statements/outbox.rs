//! Statements on the outbox.

pub(crate) mod attached;
pub(crate) mod failed_event;
pub(crate) mod reading;
pub(crate) mod relay;
