//! Pools by the API.

pub mod document;
