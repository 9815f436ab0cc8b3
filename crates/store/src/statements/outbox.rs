//! Statements on the outbox.

pub(crate) mod attached;
pub(crate) mod audit;
pub(crate) mod event;
pub(crate) mod failed_event;
pub(crate) mod lag;
pub(crate) mod notify;
pub(crate) mod partition;
pub(crate) mod reading;
pub(crate) mod relay;
pub(crate) mod restore;
pub(crate) mod retention;
