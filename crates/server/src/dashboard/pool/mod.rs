//! The pages of pools.
//!
//! Reading order: `address` (which page), `list` (all pools), `graph` (usage over time), `page` (one
//! pool) with its tabs `ticket`, `history` and `settings`, `order` (pause, resume and release).

pub(crate) mod address;
pub(crate) mod graph;
pub(crate) mod list;
pub(crate) mod order;
pub(crate) mod page;
pub(crate) mod settings;

mod history;
mod ticket;

pub use address::PoolPage;
