//! Pools: what is set about them, the passes that decide, and what people see.
//!
//! Reading order: [`pass`] (many requests in one transaction), [`cache`] (what a process remembers between two of
//! them), [`define`] (pools are made, changed and removed), [`operate`]
//! (what operators do to tickets), [`list`], [`event_summary`] and [`decision`] (what people see), [`meter`] (what is measured), [`audit`] (the log is followed and compared), [`history`] (what is old is forgotten), [`view`] (the
//! document's tables).

pub mod cache;
pub mod pass;
pub(crate) mod row;

pub mod define;
pub mod operate;

pub mod audit;
pub mod decision;
pub mod event_summary;
pub mod history;
pub mod list;
pub mod meter;
pub mod view;

pub use audit::{Audited, Difference};
pub use cache::PoolCache;
pub use decision::{Decision, DecisionPlace};
pub use define::Defined;
pub use event_summary::PoolStory;
pub use list::{PoolRecord, TicketRecord};
pub use meter::PoolLevel;
pub use pass::{Lapses, PassRequest};
pub use view::{BadViewName, ViewName};

/// Woken when a pass has changed something for somebody who waits elsewhere.
pub const POOL_CHANGED: &str = "pool";

pub(crate) fn object(name: &str) -> String {
    format!("pool/{name}")
}
