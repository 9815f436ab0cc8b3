//! Jobs that are declared in YAML files.
//!
//! Reading order: [`model`] (what a file says), `document` and `parse` (how it is read, with the place of every
//! word), `check` (what is wrong with it, before anything runs), [`expression`] and [`template`] (what is computed),
//! `build` (the job that comes out).

pub mod model;

mod diagnostic;
mod document;
mod fingerprint;
mod nearest;
mod parse;
mod source;

pub mod expression;
pub mod template;

pub use diagnostic::{Diagnostic, Diagnostics};
pub use source::Source;
