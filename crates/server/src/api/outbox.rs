//! The outbox: events that were not taken, and what operators do about them.

pub mod exception;
pub mod stats;
