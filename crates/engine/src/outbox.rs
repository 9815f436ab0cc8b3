//! The outbox: relays that publish committed events, in order for each aggregate.

pub mod publisher;
pub mod sink;

pub mod relay;

pub mod gauge;
pub mod keeper;

pub mod verify;

use publisher::Publishing;

pub use keeper::{KeeperOptions, Kept};
pub use publisher::{NotTaken, Outcome, Publisher, SinkRefusal};
pub use relay::{Relay, RelayError, RelayOptions};
pub use sink::{SinkError, SinkOptions};
pub use verify::{ReadBack, Verified, Verifier, VerifyError};
