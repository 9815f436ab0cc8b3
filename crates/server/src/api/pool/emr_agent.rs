//! The EMR Batch Agent API: acquire, release and status with the JSON that its clients write and read. It is served at
//! `/acquire`, `/release` and `/status`, and as the payload of an AWS Lambda invocation.
//!
//! Our own fields come after those of the agent, and all of ours in a request are optional, so existing clients do not
//! notice them. Unknown fields are ignored, because such clients send extra ones.

pub mod request;

mod answer;
mod field;

pub(crate) mod serve;

pub use field::BadField;
pub use request::{Acquire, Action, PoolKey, Release, Request};
pub(crate) use serve::{Call, lease_for};

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EmrAgentOptions {
    /// Count `available` of a grant up to the capacity of the pool, as the agent does only there, and not up to the limit.
    pub compat_available: bool,
    pub unknown: UnknownPool,
}

tidemill_domain::words! {
    /// How requests for a pool that does not exist are answered.
    #[derive(Default)]
    pub enum UnknownPool {
        /// A mistyped number must not bypass a limit.
        #[default]
        Refuse = "refuse",
        /// Grant them without a lease, for installations that protect only some of their databases.
        Allow = "allow",
    }
}
