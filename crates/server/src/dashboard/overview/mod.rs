//! The overview: who runs, who holds what, how full pools are, what the outbox has to publish, how the database is, what
//! is wrong and what has just happened.

pub(crate) mod database;
pub(crate) mod event;
pub(crate) mod lease;
pub(crate) mod outbox;
pub(crate) mod page;
pub(crate) mod pool;
pub(crate) mod process;
pub(crate) mod tile;

pub(crate) use page::page;
