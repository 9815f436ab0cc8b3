//! The overview: what needs attention, how full pools are, what the outbox has to publish, what has just happened, who
//! runs, who holds what, and how the database is.

pub(crate) mod attention;
pub(crate) mod database;
pub(crate) mod event;
pub(crate) mod lease;
pub(crate) mod outbox;
pub(crate) mod page;
pub(crate) mod pool;
pub(crate) mod process;
pub(crate) mod tile;

pub(crate) use page::page;
