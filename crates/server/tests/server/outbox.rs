//! The outbox over HTTP.

mod attached;
mod event;
mod stats;
