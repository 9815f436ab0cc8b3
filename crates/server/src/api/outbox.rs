//! The outbox: its events, those that were not taken and what operators do about them, who publishes, and attached tables.

pub mod attached;
pub mod event;
pub mod failed_event;
pub mod relay;
pub mod stats;
