//! The invoke endpoint of AWS Lambda, as far as its clients see it: a program that calls the function
//! `emr-batch-agent` by an AWS SDK calls us once its endpoint URL says so.
//!
//! Reading order: [`options`] (what the server is told), [`name`] (which function), [`signature`] (who calls),
//! [`invocation`] (how), [`reply`] (what goes back), `handle` (the routes). All but the last are pure functions of the
//! request.

pub mod invocation;
pub mod name;
pub mod options;
pub mod reply;
pub mod signature;

pub(crate) mod handle;

pub use options::{CallerKey, LambdaOptions, SignatureMode};
