//! The invoke endpoint of AWS Lambda: a program that calls the function `emr-batch-agent` with an AWS SDK calls
//! Tidemill when its endpoint URL points here.
//!
//! Reading order: [`LambdaOptions`], [`name`] (the function), [`signature`] (the caller), [`invocation`] (the headers),
//! [`reply`] (the answer), `handle` (the routes). All but the last are pure functions of the request.

pub mod invocation;
pub mod name;
pub mod reply;
pub mod signature;

pub(crate) mod handle;

use signature::AccessKey;

/// The function of the EMR Batch Agent.
pub const FUNCTION: &str = "emr-batch-agent";

#[derive(Clone, Debug)]
pub struct LambdaOptions {
    /// The only function.
    pub function: String,
    /// Whether calls have to be signed.
    pub signature: SignatureMode,
    pub keys: Vec<CallerKey>,
}

impl Default for LambdaOptions {
    fn default() -> Self {
        Self { function: FUNCTION.to_owned(), signature: SignatureMode::default(), keys: Vec::new() }
    }
}

tidemill_domain::words! {
    /// Whether calls have to be signed.
    #[derive(Default)]
    pub enum SignatureMode {
        /// A signature is one way to authenticate, if the server requires authentication.
        #[default]
        Off = "off",
        /// Every call must be signed.
        Verify = "verify",
    }
}

/// A key of a caller that may request units.
#[derive(Clone, Debug)]
pub struct CallerKey {
    /// Name of the caller in the audit log.
    pub name: String,
    pub key: AccessKey,
}
