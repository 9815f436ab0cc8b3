//! Pools: their settings, the passes that decide, and views for people.
//!
//! Reading order: [`pass`] (many requests in one transaction), [`cache`] (kept between two passes), [`define`] (create,
//! change, remove, release), [`list`], [`event_summary`] and [`decision`] (views),
//! [`meter`] (metrics), [`demand`] (for autoscalers), [`audit`] (replays the log), [`past`] (what happened, for
//! simulations), [`history`] (retention), [`view`] (the document's tables).

pub mod audit;
pub mod cache;
pub mod decision;
pub mod define;
pub mod demand;
pub mod event_summary;
pub mod history;
pub mod list;
pub mod meter;
pub mod pass;
pub mod past;
pub(crate) mod row;
pub mod view;

pub use audit::{Audited, Difference, LastAudit};
pub use cache::PoolCache;
pub use decision::{Decision, DecisionPlace};
pub use define::Defined;
pub use event_summary::PoolEventSummary;
pub use list::{PoolRecord, TicketRecord};
pub use meter::PoolLevel;
pub use pass::{Lapses, PassRequest};
pub use view::{BadViewName, ViewName};

/// Wake-up topic: a pass has changed something for a process that waits elsewhere.
pub const POOL_CHANGED: &str = "pool";

pub(crate) fn object(name: &str) -> String {
    format!("pool/{name}")
}
