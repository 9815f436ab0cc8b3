//! How callers in the form of AWS Lambda are known, and which function they find.

use super::signature::AccessKey;

/// The function of the document.
pub const FUNCTION: &str = "emr-batch-agent";

/// What the server is told about callers in the form of AWS Lambda.
#[derive(Clone, Debug)]
pub struct LambdaOptions {
    /// The one function that there is.
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
        /// Where the server asks nobody who he is, neither are callers of the function. Where it does, a signature is one
        /// way to tell it.
        #[default]
        Off = "off",
        /// Always.
        Verify = "verify",
    }
}

/// The key of somebody who may ask for units.
#[derive(Clone, Debug)]
pub struct CallerKey {
    /// What the audit log calls its bearer.
    pub name: String,
    pub key: AccessKey,
}
