//! Callers that authenticate by an AWS signature (SigV4).

use super::endpoint_token::EndpointToken;
use super::{Authentication, Principal, Refusal, Via, address};
use crate::api::read_body;
use crate::lambda::SignatureMode;
use crate::lambda::signature::Refusal::{Missing, SignatureRequired};
use crate::lambda::signature::{SignedRequest, verify};
use crate::route::Surface;
use crate::state::State;
use axum::body::Body;
use axum::http::header;
use axum::http::request::Parts;
use tidemill_domain::audit::Role;

/// How the header `Authorization` of a signed request begins.
const SCHEME: &[u8] = b"AWS4-";

/// The signer of a request; none where no signature is expected. Reads the body and puts it back.
pub(super) async fn caller(
    state: &State,
    parts: &Parts,
    body: &mut Body,
    surface: Surface,
    request_id: &str,
) -> Result<Option<Principal>, Refusal> {
    if !is_expected(state, parts, surface) {
        return Ok(None);
    }
    if has_token(parts) {
        return Err(Refusal::Signature(SignatureRequired));
    }
    let inner = state.inner();
    let bytes = read_body(std::mem::take(body)).await?;
    // The router removed the base path, but the client signed it.
    let path = state.path(parts.uri.path());
    let arrived = SignedRequest {
        method: &parts.method,
        path: &path,
        query: parts.uri.query(),
        headers: &parts.headers,
        body: &bytes,
    };
    let keys = inner.lambda.keys.iter().map(|caller| &caller.key);
    let key = match verify(keys, arrived, inner.parts.clock.now()) {
        Ok(key) => key,
        // A missing signature does not count as a failed attempt.
        Err(Missing) => return Err(Refusal::Signature(Missing)),
        Err(refusal) => {
            inner.limits.note_failure(address(parts), inner.parts.clock.monotonic())?;
            return Err(Refusal::Signature(refusal));
        }
    };
    let known = inner.lambda.keys.iter().find(|caller| caller.key.id() == key.id());
    let name = known.map_or_else(|| key.id().to_owned(), |caller| caller.name.clone());
    let caller = format!("key/{}", key.id());
    *body = Body::from(bytes);
    Ok(Some(Principal::new(name, caller, Role::Requester, Via::Bearer, request_id)))
}

/// Whether the request must be signed, or is signed where authentication is required. Without authentication, and with a token
/// in the URL, signatures are ignored, because AWS clients sign everything.
fn is_expected(state: &State, parts: &Parts, surface: Surface) -> bool {
    let is_signed = || {
        let value = parts.headers.get(header::AUTHORIZATION);
        value.is_some_and(|value| value.as_bytes().starts_with(SCHEME)) && !has_token(parts)
    };
    let is_closed = matches!(state.inner().authentication, Authentication::Required { .. });
    match surface {
        Surface::Api | Surface::Page => false,
        Surface::Lambda if state.inner().lambda.signature == SignatureMode::Verify => true,
        Surface::Lambda | Surface::EmrAgent => is_closed && is_signed(),
    }
}

fn has_token(parts: &Parts) -> bool {
    parts.extensions.get::<EndpointToken>().is_some()
}
