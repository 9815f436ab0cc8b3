//! Changes by the API: one transaction with its audit entry, and the same answer for the same idempotency key.

use crate::access::Principal;
use crate::problem::Problem;
use crate::state::State;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tidemill_domain::code::Code;
use tidemill_store::Tx;
use tidemill_store::idempotency::Claim;

const KEY: &str = "idempotency-key";
const KEY_CHARS_MAX: usize = 200;

#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) state: State,
    pub(crate) principal: Principal,
    pub(crate) headers: HeaderMap,
}

impl FromRequestParts<State> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, Problem> {
        let principal = parts.extensions.get::<Principal>().cloned().ok_or_else(Problem::unguarded)?;
        Ok(Self { state: state.clone(), principal, headers: parts.headers.clone() })
    }
}

impl Caller {
    /// Runs `change` of `object` in a transaction, if the caller's scopes include the object. With an `Idempotency-Key` header
    /// the transaction also claims the key and stores the answer, so that a repeated request has one effect. `what` is the
    /// whole request as text.
    pub(crate) async fn run(
        &self,
        object: &str,
        what: &str,
        change: impl AsyncFnOnce(&mut Tx) -> Result<(StatusCode, Value), Problem>,
    ) -> Result<Response, Problem> {
        self.principal.check_scope(object)?;
        self.run_finding(what, change).await
    }

    /// [`run`](Self::run) for a change that must find its object first: `change` checks the scope. A repeated request gets its
    /// answer even if the object no longer exists.
    pub(crate) async fn run_finding(
        &self,
        what: &str,
        change: impl AsyncFnOnce(&mut Tx) -> Result<(StatusCode, Value), Problem>,
    ) -> Result<Response, Problem> {
        let (status, body) = self.once(what, change).await?;
        Ok(answer(status, body))
    }

    /// [`run_finding`](Self::run_finding), with the status and the body of the answer.
    pub(crate) async fn once(
        &self,
        what: &str,
        change: impl AsyncFnOnce(&mut Tx) -> Result<(StatusCode, Value), Problem>,
    ) -> Result<(u16, String), Problem> {
        let (key, caller) = (key(&self.headers)?, &self.principal.caller);
        let fingerprint = fingerprint(what);
        let mut tx = self.state.store().begin().await?;
        if let Some(key) = key {
            match tx.idempotency().claim(caller, key, &fingerprint).await? {
                Claim::New => {}
                Claim::Answered { status, body } => return Ok((status, body)),
                Claim::Mismatch => return Err(key_reused()),
            }
        }
        self.answered(tx, key, change).await
    }

    /// A further transaction of a change that [`once`](Self::once) has begun. Its answer replaces the one before.
    pub(crate) async fn further(
        &self,
        change: impl AsyncFnOnce(&mut Tx) -> Result<(StatusCode, Value), Problem>,
    ) -> Result<(u16, String), Problem> {
        let tx = self.state.store().begin().await?;
        self.answered(tx, key(&self.headers)?, change).await
    }

    async fn answered(
        &self,
        mut tx: Tx,
        key: Option<&str>,
        change: impl AsyncFnOnce(&mut Tx) -> Result<(StatusCode, Value), Problem>,
    ) -> Result<(u16, String), Problem> {
        let (status, body) = change(&mut tx).await?;
        let body = body.to_string();
        if let Some(key) = key {
            tx.idempotency().save_answer(&self.principal.caller, key, status.as_u16(), &body).await?;
        }
        tx.commit().await?;
        Ok((status.as_u16(), body))
    }
}

pub(crate) fn answer(status: u16, body: String) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// A hash of a whole request.
pub(crate) fn fingerprint(what: &str) -> Vec<u8> {
    Sha256::digest(what.as_bytes()).to_vec()
}

pub(crate) fn key_reused() -> Problem {
    let detail = "the idempotency key belongs to another request; nothing was done";
    Problem::new(Code::KeyReused, detail, "use a new key for a new request")
}

/// The `Idempotency-Key` header.
pub(crate) fn key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(value) = headers.get(KEY) else { return Ok(None) };
    match value.to_str() {
        Ok(key) if (1..=KEY_CHARS_MAX).contains(&key.len()) => Ok(Some(key)),
        _ => Err(Problem::bad_request(
            "the Idempotency-Key is empty, too long or not plain text",
            format!("use 1 to {KEY_CHARS_MAX} ASCII characters, such as a UUID"),
        )),
    }
}
