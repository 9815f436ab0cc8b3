//! The outbox over HTTP.

mod event;
mod stats;
