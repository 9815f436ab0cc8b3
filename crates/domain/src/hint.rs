//! Oracle hints: how many parallel servers a statement requests, and the same text with fewer.
//!
//! Oracle silently ignores a hint that it does not understand, so nothing here fails on one. What cannot be read counts
//! as the most that it could mean. The text is kept byte for byte; only degrees change.

mod argument;
mod clause;
pub mod degree;
pub mod directive;
pub mod rewrite;
mod token;
pub mod tree;

pub use degree::Degree;
pub use directive::{Directive, DirectiveName, Level};
pub use rewrite::{CannotRewrite, rewrite};
pub use tree::{HINT_BYTES_MAX, Hint, HintComment, HintTooLong, Warning};

#[cfg(test)]
mod tests;
