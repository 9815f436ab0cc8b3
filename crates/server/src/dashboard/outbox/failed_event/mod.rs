//! Events that were not taken: which, why, what they say, and what is done about them.

pub(crate) mod list;
pub(crate) mod many;
pub(crate) mod one;

mod filter;
mod row;
