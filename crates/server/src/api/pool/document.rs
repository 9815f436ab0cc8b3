//! Acquire, release and status in the words of the EMR Batch Agent: the three requests and their answers, as the
//! clients that exist write and read them. The same JSON comes by the addresses `/acquire`, `/release` and `/status`,
//! and as the payload of a call in the form of AWS Lambda.
//!
//! Fields that we add come after those of the document, and all of ours in a request may be left out: a client that
//! knows the document only never notices. Unknown fields are ignored, because such clients send more than they must.

pub mod answer;
pub mod request;

mod field;
mod options;

mod serve;
mod told;

pub(crate) mod handle;

pub use answer::{AcquireAnswer, ReleaseAnswer, StatusAnswer};
pub use field::BadField;
pub use options::{DocumentOptions, UnknownPool};
pub use request::{Acquire, Action, Holder, PoolKey, Release, Request, Status};
pub(crate) use serve::{Caller, lease};
