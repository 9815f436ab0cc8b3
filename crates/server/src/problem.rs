//! Errors of the HTTP API: RFC 9457 problem details with a stable code and a remedy, never with SQL or a stack trace.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tidemill_domain::code::{Code, Exit};
use tidemill_domain::error_chain::ErrorChain;
use tidemill_engine::EngineError;
use tidemill_engine::job::JobError;
use tidemill_engine::pool::PoolError;
use tidemill_store::StoreError;
use utoipa::ToSchema;

/// `Retry-After` when a process already runs as many jobs as it may.
const FULL_RETRY_SECONDS: u64 = 10;

/// `Retry-After` when too many requests for units wait. Deciding about them takes less than this.
const BUSY_RETRY_SECONDS: u64 = 1;

/// An error response. Every handler can return it, so it is small.
#[derive(Clone, Debug)]
pub struct Problem {
    code: Code,
    status: StatusCode,
    detail: Box<str>,
    remedy: Box<str>,
    request_id: Option<Box<str>>,
    retry_after_seconds: Option<u64>,
    /// The setting that is wrong, for forms.
    field: Option<&'static str>,
}

/// An error.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Problem, example = json!({
    "type": "urn:tidemill:error:TM1546", "title": "there is no such render", "status": 404, "detail": "there is no render 7",
    "code": "TM1546", "remedy": "list the renders",
}))]
pub struct ProblemBody {
    /// A URN of the error code.
    #[serde(rename = "type")]
    kind: String,
    /// The error in general; always the same for a code.
    title: String,
    /// The HTTP status.
    status: u16,
    /// What happened in this case.
    detail: String,
    /// The error code. `tidemill explain CODE` explains it.
    code: String,
    /// How to fix it.
    remedy: String,
    /// Id of the request in the log of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
}

impl Problem {
    /// A request that did not pass the authentication layer.
    pub(crate) fn unguarded() -> Self {
        Self::new(Code::Unexpected, "the server did not authenticate the request", "report this")
    }

    pub(crate) fn shutting_down() -> Self {
        let remedy = "send the request to another server";
        let (status, code) = (StatusCode::SERVICE_UNAVAILABLE, Code::DatabaseUnreachable);
        Self::with_status(status, code, "the server is shutting down", remedy)
    }

    /// The code decides the status.
    pub fn new(code: Code, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::with_status(status_of(code), code, detail, remedy)
    }

    pub fn with_status(
        status: StatusCode,
        code: Code,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            code,
            status,
            detail: detail.into().into_boxed_str(),
            remedy: remedy.into().into_boxed_str(),
            request_id: None,
            retry_after_seconds: None,
            field: None,
        }
    }

    pub fn not_found(what: &str) -> Self {
        Self::new(Code::NotFound, format!("{what} does not exist"), "check the name, or list what exists")
    }

    pub fn bad_request(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Code::BadRequest, why, remedy)
    }

    tidemill_domain::setters! {
        #[must_use]
        pub fn with_request_id(self, id: &str) { self.request_id = Some(id.into()) }

        /// With a `Retry-After` header.
        #[must_use]
        pub fn retry_after(self, seconds: u64) { self.retry_after_seconds = Some(seconds) }

        #[must_use]
        pub fn in_field(self, field: Option<&'static str>) { self.field = field }

        /// The same with status 404.
        #[must_use]
        pub fn as_missing(self) { self.status = StatusCode::NOT_FOUND }
    }

    pub fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    fn body(&self) -> ProblemBody {
        ProblemBody {
            kind: format!("urn:tidemill:error:{}", self.code),
            title: self.code.title().to_owned(),
            status: self.status.as_u16(),
            detail: self.detail.to_string(),
            code: self.code.to_string(),
            remedy: self.remedy.to_string(),
            request_id: self.request_id.as_ref().map(ToString::to_string),
        }
    }
}

tidemill_domain::getters!(Problem {
    code: Code,
    status: StatusCode,
    &detail: str,
    &remedy: str,
    field: Option<&'static str>,
    retry_after_seconds: Option<u64>,
});

fn status_of(code: Code) -> StatusCode {
    match code {
        Code::NotAuthenticated => StatusCode::UNAUTHORIZED,
        Code::NotAllowed | Code::ForeignRequest => StatusCode::FORBIDDEN,
        Code::BadRequest => StatusCode::BAD_REQUEST,
        Code::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
        Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
        other => match other.exit() {
            Exit::NotFound => StatusCode::NOT_FOUND,
            Exit::Usage => StatusCode::BAD_REQUEST,
            Exit::Denied => StatusCode::FORBIDDEN,
            Exit::Conflict => StatusCode::CONFLICT,
            Exit::Unreachable => StatusCode::SERVICE_UNAVAILABLE,
            Exit::TimedOut => StatusCode::GATEWAY_TIMEOUT,
            Exit::NotAdmitted => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        },
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after_seconds {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        // The outermost layer adds the id of the request, and makes a page of it for the dashboard.
        response.extensions_mut().insert(self);
        response
    }
}

/// The log gets the cause. The caller gets the code, never the message of the database.
impl From<&StoreError> for Problem {
    fn from(error: &StoreError) -> Self {
        tracing::error!(error = %ErrorChain(error), "a request failed at the database");
        let detail = match error.code() {
            Code::DatabaseFailed | Code::DamagedRow => "the database reported an error".to_owned(),
            code => code.title().to_owned(),
        };
        let remedy = "try again; if it fails again, search the server's log for the request id";
        Self::new(error.code(), detail, remedy)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::from(&error)
    }
}

impl From<PoolError> for Problem {
    fn from(error: PoolError) -> Self {
        let (status, code) = match &error {
            PoolError::Store(error) => return Self::from(&**error),
            PoolError::Busy => (StatusCode::TOO_MANY_REQUESTS, Code::TooManyRequests),
            _ => (StatusCode::SERVICE_UNAVAILABLE, error.code()),
        };
        Self::with_status(status, code, error.to_string(), error.fix()).retry_after(BUSY_RETRY_SECONDS)
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => error.into(),
            error => Self::new(error.code(), error.to_string(), error.fix()),
        }
    }
}

impl From<JobError> for Problem {
    fn from(error: JobError) -> Self {
        match error {
            JobError::Engine(error) => error.into(),
            error @ JobError::TooManyRunning { .. } => {
                let (code, status) = (error.code(), StatusCode::SERVICE_UNAVAILABLE);
                Self::with_status(status, code, error.to_string(), error.fix())
                    .retry_after(FULL_RETRY_SECONDS)
            }
            error => Self::new(error.code(), error.to_string(), error.fix()),
        }
    }
}
