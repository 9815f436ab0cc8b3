//! Acquire, release and status in the words of the EMR Batch Agent: the three requests and their answers, as the
//! clients that exist write and read them. The same JSON comes by the addresses `/acquire`, `/release` and `/status`,
//! and as the payload of a call in the form of AWS Lambda.
//!
//! Fields that we add come after those of the document, and all of ours in a request may be left out: a client that
//! knows the document only never notices. Unknown fields are ignored, because such clients send more than they must.

pub mod answer;
pub mod request;

mod field;

mod serve;
mod told;

pub(crate) mod handle;

pub use answer::{AcquireAnswer, ReleaseAnswer, StatusAnswer};
pub use field::BadField;
pub use request::{Acquire, Action, Holder, PoolKey, Release, Request, Status};
pub(crate) use serve::{Caller, lease};

/// How the document's clients are answered.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EmrAgentOptions {
    /// Whether `available` of a grant is counted up to the end of the pool, as the document does there and nowhere
    /// else, and not up to what is granted.
    pub compat_available: bool,
    /// What becomes of requests for a pool that does not exist.
    pub unknown: UnknownPool,
}

tidemill_domain::words! {
    /// What becomes of requests for a pool that does not exist.
    #[derive(Default)]
    pub enum UnknownPool {
        /// They are refused: a misspelt number must not open the door.
        #[default]
        Refuse = "refuse",
        /// They are let through without a lease, for those who protect some of their databases only.
        Allow = "allow",
    }
}
