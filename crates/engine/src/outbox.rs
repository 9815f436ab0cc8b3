//! The outbox: relays that publish what was committed, in order for each aggregate.
//!
//! Reading order: [`publisher`] (where records go), [`sink`] (files and the standard output), [`verify`] (what arrived,
//! compared with the table).

pub mod keeper;
pub mod publisher;
pub mod sink;

pub mod verify;

pub(crate) mod metrics;

pub use keeper::{KeeperOptions, Kept};
pub use publisher::{Outcome, Publisher};
pub use sink::{SinkError, SinkOptions};
pub use verify::{Verified, Verifier, VerifyError};
