//! Alerts: what is wrong, and who must not be told of it for a while.

pub(crate) mod list;
pub(crate) mod page;

pub(crate) use page::page;
