//! The outbox: relays that publish what was committed, in order for each aggregate.
//!
//! Reading order: [`publisher`] (where records go), [`sink`] (files and the standard output), [`relay`] (what takes them
//! there), [`keeper`] (what is seen to now and then), [`gauge`] (how it stands), [`verify`] (what arrived, compared with the table).

pub mod publisher;
pub mod sink;

pub mod relay;

pub mod gauge;
pub mod keeper;

pub mod verify;

pub(crate) mod metrics;

pub use keeper::{KeeperOptions, Kept};
pub use publisher::{NotTaken, Outcome, Publisher, SinkRefusal};
pub use relay::{Relay, RelayError, RelayOptions};
pub use sink::{SinkError, SinkOptions};
pub use verify::{ReadBack, Verified, Verifier, VerifyError};
