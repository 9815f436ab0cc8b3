//! The outbox over HTTP.

mod stats;
