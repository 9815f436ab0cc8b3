//! The pages of pools.
//!
//! Reading order: `address` (which page), `list` (all pools), `create` (a new pool), `graph` (usage over time), `page` (one
//! pool) with its tabs `ticket`, `history` and `settings`, `field` (settings in forms), `order` (pause, resume and release),
//! `breaker` (open and close), `replay` (the past with other settings).

pub(crate) mod address;
pub(crate) mod breaker;
pub(crate) mod create;
pub(crate) mod graph;
pub(crate) mod list;
pub(crate) mod order;
pub(crate) mod page;
pub(crate) mod replay;
pub(crate) mod settings;

mod field;
mod history;
mod ticket;

pub use address::PoolPage;
