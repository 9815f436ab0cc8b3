//! Services of AWS, called over HTTPS without its SDK.
//!
//! [`signature`] signs a request, [`credentials`] finds the keys to sign with, and [`client`] makes a call. [`emr`] has the
//! steps that run on EMR.

pub mod client;
pub mod credentials;
#[warn(missing_docs)]
pub mod emr;
pub mod error;
pub mod signature;

pub use client::{AwsClient, Call, EMR, EMR_SERVERLESS, SNS, Service, form};
pub use credentials::Environment;
pub use emr::{EmrPlace, EmrSpec, emr_step};
pub use error::AwsError;
