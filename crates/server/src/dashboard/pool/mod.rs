//! The pages of pools.
//!
//! Reading order: `address` (which page), `bar` and `graph` (usage now and over time), `list` (all pools), `page` (one
//! pool) with its tabs `holder`, `queue`, `history` and `settings`, `order` (pause, resume and release).

pub(crate) mod address;
pub(crate) mod bar;
pub(crate) mod graph;
pub(crate) mod list;
pub(crate) mod order;
pub(crate) mod page;
pub(crate) mod settings;

mod history;
mod holder;
mod queue;

pub use address::PoolPage;
