//! Jobs declared in YAML files, and other files that people write.
//!
//! A file passes through `document` and `parse` to [`model`], then `check` and `build`. [`render`] reads and writes
//! field mappings and profiles of compositions.

pub mod model;

mod check;
mod diagnostic;
mod document;
mod fingerprint;
mod load;
mod parse;
mod source;

pub mod expression;
pub mod template;

pub mod build;

pub mod render;

pub use check::check_given;
pub use diagnostic::{BadText, Diagnostic, Diagnostics};
pub use load::{
    Folder, FolderState, InvalidFile, Known, folder_state, is_test, load, load_beside, load_folder,
    load_test, read,
};
pub use source::Source;
