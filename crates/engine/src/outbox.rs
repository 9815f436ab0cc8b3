//! The outbox: relays that publish what was committed, in order for each aggregate.
//!
//! Reading order: [`publisher`] (where records go).

pub mod publisher;

pub use publisher::{Outcome, Publisher};
