//! Statements on the outbox.

pub(crate) mod adopted;
pub(crate) mod audit;
pub(crate) mod event;
pub(crate) mod exception;
pub(crate) mod lag;
pub(crate) mod notice;
pub(crate) mod partition;
pub(crate) mod reading;
pub(crate) mod relay;
pub(crate) mod restore;
pub(crate) mod retention;
