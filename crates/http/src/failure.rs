//! Why a request failed, and what helps.

use std::time::Duration;
use tidemill_domain::item::{ErrorKind, ItemError};

/// Addresses are shown without their query, because a query may have secrets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    #[error("the URL cannot be used: {why}")]
    Url { why: &'static str },
    #[error("the header {name} cannot be sent: {why}")]
    Header { name: String, why: String },
    #[error("the secret {reference} cannot be read: {why}")]
    Secret { reference: String, why: String },
    #[error("no HTTP client could be made: {why}")]
    Client { why: String },
    #[error("{target} gave no whole answer in {attempts} attempts: {why}; restart the job when it is back")]
    NoAnswer { target: String, attempts: u32, why: String },
    #[error("{target} answered {status} in {attempts} attempts{said}; restart the job when it is back")]
    Busy { target: String, attempts: u32, status: u16, said: String },
    #[error(
        "{target} answered {status} and asks to wait {}, longer than {}; restart the job after that time",
        shown(.after),
        shown(.longest)
    )]
    TooLong { target: String, status: u16, after: Duration, longest: Duration },
    #[error("{target} answered {status}{said}; {}", fix_of(.status))]
    Refused { target: String, status: u16, said: String },
    #[error("the answer of {target} has more than {max} bytes; ask for smaller pages, or raise max_bytes")]
    TooLarge { target: String, max: usize },
    #[error("the answer of {target} is not JSON ({kind}): {why}; check the URL and the credentials")]
    NotJson { target: String, kind: String, why: String },
    #[error(
        "the answer of {target} has {found} at {path:?}, where a list of items is expected; correct items"
    )]
    NoItems { target: String, path: String, found: &'static str },
    #[error("{target} names no usable next page: {why}")]
    NextPage { target: String, why: String },
    #[error(
        "{target} has only {found} items on the page where the last run had read {read}; the source has changed, so start \
         the job anew"
    )]
    Changed { target: String, found: usize, read: usize },
    #[error("the saved position of the reader {reader:?} is not understood; start the job anew")]
    Saved { reader: String },
}

fn shown(pause: &Duration) -> String {
    tidemill_domain::duration::show(*pause)
}

fn fix_of(status: &u16) -> &'static str {
    match status {
        300..=399 => "redirects are not followed, so write the URL to which it leads",
        401 | 403 => "check the credentials and what they permit",
        404 | 405 => "check the URL and the method",
        408 | 429 | 500..=599 => "restart the job when the service works again",
        _ => "correct the request or the item",
    }
}

impl HttpError {
    /// A page that cannot be read ends the step: nothing on it can be skipped.
    pub(crate) fn of_page(self) -> ItemError {
        ItemError::fatal(self)
    }

    /// What the service does not accept of one item can be skipped. What would happen to every item ends the step.
    pub(crate) fn of_item(self) -> ItemError {
        let kind = match &self {
            Self::NoAnswer { .. } | Self::Busy { .. } | Self::TooLong { .. } => ErrorKind::TRANSIENT,
            // The service, not the item, is to blame.
            Self::Refused { status: 408 | 429 | 500..=599, .. } => ErrorKind::TRANSIENT,
            Self::Refused { status, .. } if !matches!(*status, 300..=399 | 401 | 403 | 404 | 405) => {
                ErrorKind::WRITE
            }
            _ => ErrorKind::FATAL,
        };
        ItemError::of(kind, self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::item::Phase;

    #[test]
    fn only_what_one_item_causes_can_be_skipped() {
        let kind = |status| {
            let refused = HttpError::Refused { target: "https://h/x".into(), status, said: String::new() };
            refused.of_item().kind_in(Phase::Write)
        };

        assert_eq!([422, 409, 400].map(kind), [ErrorKind::WRITE; 3]);
        assert_eq!([500, 503, 429, 408].map(kind), [ErrorKind::TRANSIENT; 4]);
        assert_eq!([301, 401, 403, 404].map(kind), [ErrorKind::FATAL; 4]);
    }
}
