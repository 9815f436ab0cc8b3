//! The HTTP API: one file of handlers per noun. Its types are in `tidemill-api`.

pub mod alert;
pub mod audit;
pub mod execution;
pub mod job;
pub mod outbox;
pub mod pool;
pub mod process;
pub mod render;
pub mod schedule;
pub mod status;
pub mod token;

pub(crate) mod describe;

pub use crate::route::Api;

use crate::problem::Problem;
use crate::route::Surface;
use crate::server::BODY_BYTES_MAX;
use crate::state::State;
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, JsonRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use futures_core::Stream;
use serde::de::DeserializeOwned;
use std::pin::Pin;
use std::time::Duration;
use tidemill_api::Page;
use tidemill_domain::code::Code;
use tidemill_store::Tx;
use utoipa::OpenApi;

pub(crate) async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(Api::openapi())
}

#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let whole = Request::from_parts(parts.clone(), body);
        let unread = |rejection: BytesRejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => too_large(),
            _ => Problem::bad_request("the body is incomplete", "send it again"),
        };
        let bytes = Bytes::from_request(whole, state).await.map_err(unread)?;
        // Serde would read a list as the fields in their order.
        if bytes.trim_ascii_start().first() == Some(&b'[') {
            let (status, why) = (StatusCode::UNPROCESSABLE_ENTITY, "the body is a list, not an object");
            return Err(Problem::with_status(status, Code::BadRequest, why, BODY_REMEDY));
        }
        match Json::from_request(Request::from_parts(parts, bytes.into()), state).await {
            Ok(Json(value)) => Ok(Self(value)),
            Err(rejection) => Err(body_problem(&rejection)),
        }
    }
}

const BODY_REMEDY: &str = "send `Content-Type: application/json` and a body as described in /openapi.json";

fn body_problem(rejection: &JsonRejection) -> Problem {
    let what = match rejection {
        JsonRejection::JsonSyntaxError(_) => "the body is not JSON",
        JsonRejection::JsonDataError(_) => "the body has the wrong shape",
        _ => "the content type is not JSON",
    };
    let why = in_words(what, &rejection.body_text());
    Problem::with_status(rejection.status(), Code::BadRequest, why, BODY_REMEDY)
}

/// What is wrong, and the part of the rejection that names the field. It quotes only what the caller sent.
fn in_words(what: &str, rejection: &str) -> String {
    let Some((_, detail)) = rejection.split_once(": ") else { return what.to_owned() };
    let detail: String = detail.chars().filter(|c| !c.is_control()).take(300).collect();
    format!("{what}: {detail}")
}

pub(crate) fn too_large() -> Problem {
    let remedy = "send less, or split it into several requests";
    Problem::new(Code::TooLarge, "the body is larger than 1 MiB", remedy)
}

/// A body that is too large is read up to here and discarded. A client that is still sending would not see the answer.
const DRAINED_BYTES_MAX: usize = 16 * 1024 * 1024;
const BODY_PATIENCE: Duration = Duration::from_secs(20);

/// Reads a whole body, whatever its `Content-Type`.
pub(crate) async fn read_body(body: axum::body::Body) -> Result<Bytes, Problem> {
    match tokio::time::timeout(BODY_PATIENCE, collect(body)).await {
        Ok(Ok(bytes)) => bytes.ok_or_else(too_large),
        Ok(Err(_)) | Err(_) => Err(Problem::bad_request("the body did not arrive", "send it again")),
    }
}

/// None if there are too many bytes.
async fn collect(body: axum::body::Body) -> Result<Option<Bytes>, axum::Error> {
    let mut stream = body.into_data_stream();
    let mut next = async || std::future::poll_fn(|context| Pin::new(&mut stream).poll_next(context)).await;
    let (mut bytes, mut length) = (Vec::new(), 0);
    while let Some(part) = next().await {
        let part = part?;
        length += part.len();
        if length <= BODY_BYTES_MAX {
            bytes.extend_from_slice(&part);
        } else if length > DRAINED_BYTES_MAX {
            break;
        }
    }
    Ok((length <= BODY_BYTES_MAX).then(|| bytes.into()))
}

#[derive(Debug)]
pub(crate) struct QueryString<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryString<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let rejection = match Query::from_request_parts(parts, state).await {
            Ok(Query(value)) => return Ok(Self(value)),
            Err(rejection) => rejection,
        };
        let remedy = match parts.extensions.get::<Surface>() {
            Some(Surface::Page) => "open the page again without the part after the question mark",
            _ => "see /openapi.json for its parameters",
        };
        Err(Problem::bad_request(in_words("invalid query string", &rejection.body_text()), remedy))
    }
}

/// What a handler that reads answers with.
pub(crate) type Answer<T> = Result<Json<T>, Problem>;

pub(crate) type List<T> = Answer<Page<T>>;

/// A transaction to read in. Make it the last parameter, so that an invalid request does not open one.
#[derive(Debug)]
pub(crate) struct Read(pub(crate) Tx);

impl FromRequestParts<State> for Read {
    type Rejection = Problem;

    async fn from_request_parts(_: &mut Parts, state: &State) -> Result<Self, Problem> {
        Ok(Self(state.read().await?))
    }
}

/// The only id in the path.
#[derive(Debug)]
pub(crate) struct Id(pub(crate) i64);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let text = Path::<String>::from_request_parts(parts, state).await;
        Ok(Self(id(text.as_deref().map_or("", String::as_str))?))
    }
}

/// The number of rows of a list: 50 by default, 500 at most.
pub(crate) fn limit(given: Option<u32>) -> Result<u32, Problem> {
    match given.unwrap_or(50) {
        limit @ 1..=500 => Ok(limit),
        _ => Err(Problem::bad_request("limit must be from 1 to 500", "use at most 500")),
    }
}

pub(crate) fn id(text: &str) -> Result<i64, Problem> {
    text.parse().ok().filter(|id| *id > 0).ok_or_else(|| {
        Problem::bad_request("the id in the address is not a positive whole number", "use an id from a list")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    #[tokio::test]
    async fn a_body_is_read_up_to_its_limit() {
        let largest = vec![b'x'; BODY_BYTES_MAX];
        assert_eq!(read_body(Body::from(largest.clone())).await.unwrap(), largest);

        for length in [BODY_BYTES_MAX + 1, DRAINED_BYTES_MAX + 1] {
            let problem = read_body(Body::from(vec![b'x'; length])).await.unwrap_err();
            assert_eq!(problem.code(), Code::TooLarge, "{length}");
        }
    }
}
