//! The overview: what needs attention, usage of pools, the outbox, renders, recent events, processes, leases and the database.

pub(crate) mod attention;
pub(crate) mod outbox;
pub(crate) mod page;
pub(crate) mod pool;
pub(crate) mod process;
pub(crate) mod render;

pub(crate) use page::page;
