//! Tidemill.
pub mod config;
