//! Callers who prove who they are by a signature, as clients of AWS do.

use super::{Authentication, Knock, Principal, Refusal, Via};
use crate::body;
use crate::lambda::SignatureMode;
use crate::lambda::signature::Refusal::Missing;
use crate::lambda::signature::{SignedRequest, verify};
use crate::route::Surface;
use crate::state::State;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header;
use tidemill_domain::audit::Role;

/// How the header `Authorization` of a signed request begins.
const SCHEME: &[u8] = b"AWS4-";

/// Who has signed a request; none where no signature is asked for. The body is read for it and put back.
pub(super) async fn caller(
    state: &State,
    knock: &Knock,
    surface: Surface,
    request: &mut Request,
) -> Result<Option<Principal>, Refusal> {
    if !is_asked_for(state, knock, surface) {
        return Ok(None);
    }
    let inner = state.inner();
    let bytes = body::read(std::mem::take(request.body_mut())).await?;
    // The router has taken the base path away, which was signed.
    let path = state.path(request.uri().path());
    let arrived = SignedRequest {
        method: &knock.method,
        path: &path,
        query: request.uri().query(),
        headers: &knock.headers,
        body: &bytes,
    };
    let keys = inner.lambda.keys.iter();
    let verified = verify(keys.map(|caller| &caller.key), arrived, inner.parts.clock.now());
    let key = match verified {
        Ok(key) => key,
        // Who has not signed at all has not guessed either.
        Err(Missing) => return Err(Refusal::Signature(Missing)),
        Err(refusal) => {
            inner.limits.note_failure(knock.address, inner.parts.clock.monotonic())?;
            return Err(Refusal::Signature(refusal));
        }
    };
    let name = inner.lambda.keys.iter().find(|caller| caller.key.id() == key.id());
    let principal = Principal {
        name: name.map_or_else(|| key.id().to_owned(), |caller| caller.name.clone()),
        caller: format!("key/{}", key.id()),
        role: Role::Requester,
        scopes: Vec::new(),
        via: Via::Bearer,
        request_id: knock.request_id.clone(),
    };
    *request.body_mut() = Body::from(bytes);
    Ok(Some(principal))
}

/// Whether the request has to be signed, or claims to be where somebody has to say who he is. Where nobody has to,
/// signatures are not looked at: clients of AWS sign whatever they send.
fn is_asked_for(state: &State, knock: &Knock, surface: Surface) -> bool {
    let is_signed = || {
        let value = knock.headers.get(header::AUTHORIZATION);
        value.is_some_and(|value| value.as_bytes().starts_with(SCHEME))
    };
    let is_closed = matches!(state.inner().authentication, Authentication::Required { .. });
    match surface {
        Surface::Api | Surface::Page => false,
        Surface::Lambda if state.inner().lambda.signature == SignatureMode::Verify => true,
        Surface::Lambda | Surface::EmrAgent => is_closed && is_signed(),
    }
}
