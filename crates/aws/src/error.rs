//! Why a call failed, and what helps.

/// No text contains a key or a token.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AwsError {
    #[error("the region of AWS is not known; set AWS_REGION, such as eu-central-1")]
    NoRegion,
    #[error("{region:?} is not a region of AWS, such as eu-central-1")]
    BadRegion { region: String },
    #[error(
        "there are no credentials of AWS: {why}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give this host a \
         role"
    )]
    NoCredentials { why: String },
    #[error("the endpoint {url:?} cannot be used: {why}")]
    Endpoint { url: String, why: &'static str },
    #[error("no HTTP client could be made: {why}")]
    Client { why: String },
    #[error("{target} gave no whole answer: {why}")]
    NoAnswer { target: String, why: String },
    #[error("{target} answered {status} {code}{said}; {}", remedy(.status, .code))]
    Refused { target: String, status: u16, code: String, said: String },
    #[error("the answer of {target} has no {what}; check the endpoint")]
    Answer { target: String, what: &'static str },
}

impl AwsError {
    /// Whether the same call may succeed later without a change.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::NoAnswer { .. } | Self::NoCredentials { .. } => true,
            Self::Refused { status, code, .. } => is_busy(*status, code) || is_expired(code),
            _ => false,
        }
    }

    /// Whether the service does not know what was named.
    pub fn is_not_found(&self) -> bool {
        // EMR answers InvalidRequestException about a step or cluster that it does not know. A 404 without a code may come
        // from a proxy.
        matches!(self, Self::Refused { code, .. } if code == "InvalidRequestException" || is_unknown(code))
    }
}

fn is_busy(status: u16, code: &str) -> bool {
    let is_limited = ["Throttl", "LimitExceeded", "TooManyRequests", "SlowDown"];
    status >= 500 || matches!(status, 408 | 429) || is_limited.iter().any(|part| code.contains(part))
}

/// Temporary credentials have ended. Those of a role are read anew.
pub(crate) fn is_expired(code: &str) -> bool {
    matches!(code, "ExpiredToken" | "ExpiredTokenException")
}

fn is_missing(status: u16, code: &str) -> bool {
    status == 404 || is_unknown(code)
}

fn is_unknown(code: &str) -> bool {
    matches!(code, "NotFound" | "NotFoundException" | "ResourceNotFoundException")
}

fn remedy(status: &u16, code: &str) -> &'static str {
    match code {
        _ if is_expired(code) => "get new temporary credentials",
        "SignatureDoesNotMatch" | "InvalidSignatureException" | "IncompleteSignature" => {
            "check AWS_SECRET_ACCESS_KEY and the clock of this host"
        }
        "InvalidClientTokenId" | "UnrecognizedClientException" | "InvalidAccessKeyId" => {
            "check AWS_ACCESS_KEY_ID, and AWS_SESSION_TOKEN of temporary credentials"
        }
        "RequestExpired" | "RequestTimeTooSkewed" => "set the clock of this host",
        "AccessDenied" | "AccessDeniedException" | "AuthorizationError" | "AuthorizationErrorException" => {
            "allow this action in the policy of the user or role"
        }
        _ if is_busy(*status, code) => "try again later",
        _ if is_missing(*status, code) => "check its name, and that it exists in this account and region",
        _ if *status == 403 => "check the credentials and what they permit",
        _ => "correct what the answer names",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, code: &str) -> AwsError {
        AwsError::Refused { target: "https://h/".into(), status, code: code.into(), said: String::new() }
    }

    #[test]
    fn each_refusal_has_its_remedy() {
        for (status, code, fix) in [
            (403, "SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY"),
            (403, "InvalidClientTokenId", "AWS_ACCESS_KEY_ID"),
            (403, "AccessDenied", "policy"),
            (404, "NotFound", "exists in this account and region"),
            (400, "ThrottlingException", "later"),
            (400, "InvalidParameter", "correct what the answer names"),
        ] {
            let text = refused(status, code).to_string();
            assert!(text.contains(fix), "{text}");
        }
    }

    #[test]
    fn only_what_may_pass_is_temporary() {
        let is = |status, code| refused(status, code).is_temporary();

        assert!(is(500, "InternalFailure") && is(400, "ThrottlingException") && is(429, ""));
        assert!(is(403, "ExpiredToken"));
        assert!(!is(403, "SignatureDoesNotMatch") && !is(404, "NotFound") && !is(400, "InvalidParameter"));
    }

    #[test]
    fn only_the_service_itself_says_that_something_is_gone() {
        assert!(refused(404, "ResourceNotFoundException").is_not_found());
        assert!(refused(400, "InvalidRequestException").is_not_found());
        assert!(!refused(404, "").is_not_found() && !refused(400, "ValidationException").is_not_found());
    }
}
