//! Rows of the outbox.

pub(crate) mod audit;
pub(crate) mod detail;
pub(crate) mod event;
pub(crate) mod exception;
pub(crate) mod lag;
pub(crate) mod partition;
pub(crate) mod place;
pub(crate) mod relay;
pub(crate) mod restore;
