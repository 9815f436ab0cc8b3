//! Oracle hints: how many parallel servers a statement asks for, and the same text with fewer.
//!
//! Oracle says nothing about a hint that it does not understand, so nothing here fails on one either: what cannot be
//! read counts for the most that it could mean, never for one. The text is kept byte for byte; only degrees change.
//!
//! Reading order: `token` (the words of a text), [`tree`] (which of its comments count), [`directive`] and
//! `argument` (what they say), [`degree`] (what it comes to), [`warning`], [`rewrite`](mod@rewrite).

mod token;

pub mod tree;

mod argument;
pub mod directive;

pub mod degree;
pub mod warning;

pub mod rewrite;

pub use degree::Degree;
pub use directive::{Directive, DirectiveName, Level};
pub use rewrite::{CannotRewrite, rewrite};
pub use tree::{HINT_BYTES_MAX, Hint, HintComment, HintState, HintTooLong};
pub use warning::Warning;

#[cfg(test)]
mod tests;
