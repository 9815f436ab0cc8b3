//! Services of AWS, called over HTTPS without its SDK.
//!
//! [`signature`] signs a request, [`credentials`] finds the keys to sign with, and [`client`] makes a call.

pub mod client;
pub mod credentials;
pub mod error;
pub mod signature;

pub use client::{AwsClient, Call, EMR, EMR_SERVERLESS, SNS, Service, form};
pub use credentials::Environment;
pub use error::AwsError;
