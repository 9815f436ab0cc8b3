//! The outbox: its events, those that were not taken and what operators do about them, who publishes, and adopted tables.

pub mod adopted;
pub mod event;
pub mod exception;
pub mod relay;
pub mod stats;
