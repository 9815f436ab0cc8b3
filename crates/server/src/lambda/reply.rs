//! Replies to clients of Lambda. The SDKs retry after 429 and 5xx by themselves, so "wait" is an answer of the function
//! and not an error of the service.

use crate::api::pool::emr_agent::BadField;
use crate::lambda::invocation::LogType;
use crate::lambda::name::BadName;
use crate::lambda::signature::Refusal;
use crate::problem::Problem;
use crate::server::BODY_BYTES_MAX;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tidemill_domain::code::Code;

/// Maximum number of characters of the encoded log in a header.
const LOG_CHARS_MAX: usize = 4096;
/// The same before encoding.
const LOG_BYTES_MAX: usize = LOG_CHARS_MAX / 4 * 3;
const VERSION: &str = "$LATEST";
/// The type of an error about the payload.
pub(super) const INVALID_REQUEST: &str = "InvalidRequest";

#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    Answered(Value),
    /// The payload was invalid. For the service, the call succeeded.
    Failed(BadField),
    Accepted,
    WouldAccept,
    /// The function was not called.
    Refused(ServiceError),
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    #[error("there is no function {0} here")]
    ResourceNotFound(String),
    #[error("{0}")]
    InvalidRequestContent(String),
    /// A header, the name or the query is invalid.
    #[error("{0}")]
    InvalidParameterValue(String),
    #[error("the body is larger than {bytes_max} bytes")]
    RequestTooLarge { bytes_max: usize },
    #[error("too many requests; try again after {retry_after_seconds} s")]
    TooManyRequests { retry_after_seconds: u64 },
    #[error(transparent)]
    BadSignature(#[from] Refusal),
    /// The caller is known, but has no permission.
    #[error("{0}")]
    AccessDenied(String),
    #[error("the server failed; try again, and see its log under the request id")]
    Service,
}

/// An error before the function was called, as an error of Lambda.
impl From<&Problem> for ServiceError {
    fn from(problem: &Problem) -> Self {
        match problem.code() {
            Code::TooManyRequests => {
                Self::TooManyRequests { retry_after_seconds: problem.retry_after_seconds().unwrap_or(1) }
            }
            Code::TooLarge => Self::RequestTooLarge { bytes_max: BODY_BYTES_MAX },
            Code::NotAuthenticated => Self::BadSignature(Refusal::Missing),
            Code::NotAllowed | Code::ForeignRequest | Code::HostNotAllowed => {
                Self::AccessDenied(format!("{}; {}", problem.detail(), problem.remedy()))
            }
            Code::BadRequest => Self::InvalidParameterValue(problem.detail().to_owned()),
            _ => Self::Service,
        }
    }
}

impl From<BadName> for ServiceError {
    fn from(error: BadName) -> Self {
        Self::InvalidParameterValue(error.to_string())
    }
}

impl ServiceError {
    /// The status, and the exception that the SDKs raise.
    fn status_and_kind(&self) -> (StatusCode, &'static str) {
        use StatusCode as S;
        match self {
            Self::ResourceNotFound(_) => (S::NOT_FOUND, "ResourceNotFoundException"),
            Self::InvalidRequestContent(_) => (S::BAD_REQUEST, "InvalidRequestContentException"),
            Self::InvalidParameterValue(_) => (S::BAD_REQUEST, "InvalidParameterValueException"),
            Self::RequestTooLarge { .. } => (S::PAYLOAD_TOO_LARGE, "RequestTooLargeException"),
            Self::TooManyRequests { .. } => (S::TOO_MANY_REQUESTS, "TooManyRequestsException"),
            Self::BadSignature(Refusal::Missing) => (S::FORBIDDEN, "MissingAuthenticationTokenException"),
            Self::BadSignature(Refusal::Incomplete(_)) => (S::FORBIDDEN, "IncompleteSignatureException"),
            Self::BadSignature(Refusal::UnknownKey | Refusal::UnknownToken) => {
                (S::FORBIDDEN, "UnrecognizedClientException")
            }
            Self::BadSignature(_) => (S::FORBIDDEN, "InvalidSignatureException"),
            Self::AccessDenied(_) => (S::FORBIDDEN, "AccessDeniedException"),
            Self::Service => (S::INTERNAL_SERVER_ERROR, "ServiceException"),
        }
    }
}

impl Reply {
    /// The reply with the end of `log`, if the caller wants it.
    pub fn into_response(self, request_id: &str, log_type: LogType, log: &str) -> Response {
        let has_run = matches!(self, Self::Answered(_) | Self::Failed(_));
        let mut response = match self {
            Self::Answered(payload) => json_body(StatusCode::OK, &payload),
            Self::Failed(error) => {
                // As when the agent's own function fails on its input. Clients expect the stack trace.
                let message = error.to_string();
                let body = json!({ "errorMessage": message, "errorType": INVALID_REQUEST, "stackTrace": [] });
                ([("x-amz-function-error", "Unhandled")], json_body(StatusCode::OK, &body)).into_response()
            }
            Self::Accepted => (StatusCode::ACCEPTED, Body::empty()).into_response(),
            Self::WouldAccept => (StatusCode::NO_CONTENT, Body::empty()).into_response(),
            Self::Refused(error) => refused(&error),
        };
        if has_run {
            set(response.headers_mut(), "x-amz-executed-version", VERSION);
        }
        if has_run && log_type == LogType::Tail {
            set(response.headers_mut(), "x-amz-log-result", &STANDARD.encode(tail(log)));
        }
        set(response.headers_mut(), "x-amzn-requestid", request_id);
        response
    }
}

fn refused(error: &ServiceError) -> Response {
    let (status, kind) = error.status_and_kind();
    let side = if status.is_server_error() { "Service" } else { "User" };
    let mut response = json_body(status, &json!({ "Type": side, "message": error.to_string() }));
    set(response.headers_mut(), "x-amzn-errortype", kind);
    if let ServiceError::TooManyRequests { retry_after_seconds } = error {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(*retry_after_seconds));
    }
    response
}

fn json_body(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// Leaves out a value that no header can hold. All values are ours or encoded.
fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// The end of the log, cut at a character.
fn tail(log: &str) -> &str {
    let from = log.ceil_char_boundary(log.len().saturating_sub(LOG_BYTES_MAX));
    log.get(from..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Status, some headers, and the body.
    async fn sent(reply: Reply, asked: LogType, log: &str) -> (u16, Vec<(&'static str, String)>, String) {
        let response = reply.into_response("req-1", asked, log);
        let headers = [
            "x-amz-executed-version",
            "x-amz-function-error",
            "x-amz-log-result",
            "x-amzn-errortype",
            "retry-after",
        ];
        let value = |name| Some((name, response.headers().get(name)?.to_str().unwrap().to_owned()));
        let found = headers.into_iter().filter_map(value).collect();
        assert_eq!(response.headers()["x-amzn-requestid"], "req-1");
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, found, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn an_answer_is_the_payload_with_the_version_that_ran() {
        let (status, headers, body) =
            sent(Reply::Answered(json!({ "allowed": true })), LogType::None, "granted").await;

        assert_eq!((status, body.as_str()), (200, r#"{"allowed":true}"#));
        assert_eq!(headers, [("x-amz-executed-version", "$LATEST".to_owned())]);
    }

    #[tokio::test]
    async fn the_log_is_told_to_those_who_ask() {
        let (_, headers, _) = sent(Reply::Answered(json!(1)), LogType::Tail, "허용").await;

        let (_, log) = headers.iter().find(|(name, _)| *name == "x-amz-log-result").unwrap();
        assert_eq!(STANDARD.decode(log).unwrap(), "허용".as_bytes());
    }

    #[tokio::test]
    async fn an_error_of_the_function_is_a_call_that_went_well() {
        let error = BadField::new("src_db_id", "is missing");
        let (status, headers, body) = sent(Reply::Failed(error), LogType::None, "").await;

        assert_eq!(status, 200);
        assert!(headers.contains(&("x-amz-function-error", "Unhandled".to_owned())));
        let expected =
            r#"{"errorMessage":"src_db_id: is missing","errorType":"InvalidRequest","stackTrace":[]}"#;
        assert_eq!(body, expected);
    }

    #[tokio::test]
    async fn events_and_dry_runs_are_answered_with_nothing() {
        assert_eq!(sent(Reply::Accepted, LogType::Tail, "log").await, (202, vec![], String::new()));
        assert_eq!(sent(Reply::WouldAccept, LogType::Tail, "log").await, (204, vec![], String::new()));
    }

    #[tokio::test]
    async fn each_error_of_the_service_has_its_status_and_its_name() {
        let text = String::new;
        for (error, status, kind) in [
            (ServiceError::ResourceNotFound("f".to_owned()), 404, "ResourceNotFoundException"),
            (ServiceError::InvalidRequestContent(text()), 400, "InvalidRequestContentException"),
            (ServiceError::InvalidParameterValue(text()), 400, "InvalidParameterValueException"),
            (BadName::Form.into(), 400, "InvalidParameterValueException"),
            (ServiceError::RequestTooLarge { bytes_max: 1 }, 413, "RequestTooLargeException"),
            (ServiceError::TooManyRequests { retry_after_seconds: 7 }, 429, "TooManyRequestsException"),
            (Refusal::Missing.into(), 403, "MissingAuthenticationTokenException"),
            (Refusal::Incomplete("x").into(), 403, "IncompleteSignatureException"),
            (Refusal::UnknownKey.into(), 403, "UnrecognizedClientException"),
            (Refusal::UnknownToken.into(), 403, "UnrecognizedClientException"),
            (Refusal::Skewed.into(), 403, "InvalidSignatureException"),
            (Refusal::Mismatch.into(), 403, "InvalidSignatureException"),
            (ServiceError::AccessDenied(text()), 403, "AccessDeniedException"),
            (ServiceError::Service, 500, "ServiceException"),
        ] {
            let message = error.to_string();
            let (found, headers, body) = sent(Reply::Refused(error), LogType::Tail, "log").await;
            let side = if status < 500 { "User" } else { "Service" };
            assert_eq!(found, status, "{kind}");
            assert!(headers.contains(&("x-amzn-errortype", kind.to_owned())), "{headers:?}");
            assert_eq!(headers.contains(&("retry-after", "7".to_owned())), status == 429);
            assert!(!headers.iter().any(|(name, _)| name.starts_with("x-amz-")), "{headers:?}");
            assert_eq!(body, json!({ "Type": side, "message": message }).to_string());
        }
    }

    #[test]
    fn what_stops_a_call_before_the_function_is_told_in_the_words_of_lambda() {
        let problem = |code: Code| Problem::new(code, "why", "what to do");
        let busy = Problem::from(tidemill_engine::pool::PoolError::Busy);

        assert_eq!(ServiceError::from(&busy), ServiceError::TooManyRequests { retry_after_seconds: 1 });
        for (code, kind) in [
            (Code::TooManyRequests, "TooManyRequestsException"),
            (Code::TooLarge, "RequestTooLargeException"),
            (Code::NotAuthenticated, "MissingAuthenticationTokenException"),
            (Code::NotAllowed, "AccessDeniedException"),
            (Code::ForeignRequest, "AccessDeniedException"),
            (Code::HostNotAllowed, "AccessDeniedException"),
            (Code::BadRequest, "InvalidParameterValueException"),
            (Code::DatabaseUnreachable, "ServiceException"),
            (Code::PoolLeaseGone, "ServiceException"),
            (Code::Unexpected, "ServiceException"),
        ] {
            assert_eq!(ServiceError::from(&problem(code)).status_and_kind().1, kind, "{code}");
        }
    }

    proptest! {
        #[test]
        fn the_log_fits_and_is_the_end_of_what_was_told(log in "(가|a|\n|𝕏){0,2000}") {
            let tail = tail(&log);
            prop_assert!(log.ends_with(tail) && STANDARD.encode(tail).len() <= LOG_CHARS_MAX);
            prop_assert!(tail.len() + 4 > LOG_BYTES_MAX.min(log.len()));
        }
    }
}
