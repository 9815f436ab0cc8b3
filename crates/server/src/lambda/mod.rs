//! The invoke endpoint of AWS Lambda, as far as its clients see it: a program that calls the function
//! `emr-batch-agent` by an AWS SDK calls us once its endpoint URL says so.
//!
//! Everything here is a pure function of the request. Reading order: [`name`] (which function), [`signature`] (who
//! calls), [`invocation`] (how), [`reply`] (what goes back).

pub mod invocation;
pub mod name;
pub mod reply;
pub mod signature;
