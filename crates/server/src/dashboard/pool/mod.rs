//! Pools: the list, one pool with who holds and who waits, and what can be done about them.
//!
//! Reading order: `address` (which page), `bar` and `graph` (what is seen at a glance), `list` (all pools), `page` (one
//! of them) with its tabs `holder`, `queue`, `history` and `settings`, `order` (what is done), `live` (what changes by
//! itself).

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
