//! The outbox over HTTP.

mod adopted;
mod event;
mod stats;
