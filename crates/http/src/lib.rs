//! JSON over HTTP as the source and the target of a step.
//!
//! [`HttpReader`] reads the pages of an API, and [`HttpWriter`] sends items with a key by which the service recognises a
//! repeated request. [`HttpEndpoint`] has what both need: the address, headers, limits and retries.

#[warn(missing_docs)]
pub mod endpoint;
#[warn(missing_docs)]
pub mod reader;
#[warn(missing_docs)]
pub mod writer;

mod call;
mod failure;
mod page;
mod rate;

pub use endpoint::{HttpEndpoint, HttpRetry, encoded, is_reference, is_secret_header, secret};
pub use failure::HttpError;
pub use page::Paging;
pub use rate::Rate;
pub use reader::HttpReader;
pub use writer::{Batch, HttpWriter};
