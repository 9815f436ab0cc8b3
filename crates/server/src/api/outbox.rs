//! The outbox: its events, those that were not taken and what operators do about them, and who publishes.

pub mod event;
pub mod exception;
pub mod relay;
pub mod stats;
