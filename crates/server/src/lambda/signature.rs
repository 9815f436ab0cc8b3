//! Verifies the signature of a request: AWS Signature Version 4.
//!
//! The caller signs a text made from the request, and we make the same text from what arrived. It must contain
//! everything that we act on: the method, the path, the query, the body, the host, the time, and each header whose name
//! begins with `x-amz-`. Other headers (such as `amz-sdk-invocation-id`) could have been changed on the way.

use axum::http::{HeaderMap, Method, header};
use hmac::Mac;
use std::fmt;
use std::time::Duration;
use tidemill_aws::signature::{SCHEME, Scope, SignedParts, TERMINATOR, signature};
use tidemill_domain::time::Timestamp;

/// Maximum difference between the clocks of caller and server.
pub const SKEW_MAX: Duration = Duration::from_secs(5 * 60);
/// Minimum length of a secret. A shorter one can be guessed from a single request.
const SECRET_BYTES_MIN: usize = 32;
const SERVICE: &str = "lambda";
const DATE: &str = "x-amz-date";

#[derive(Clone, PartialEq, Eq)]
pub struct AccessKey {
    id: String,
    secret: String,
}

/// The message does not contain the secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadAccessKey {
    /// The header has slashes around the id.
    #[error("the id of an access key is 1 to 128 letters, digits, - and _")]
    Id,
    #[error("the secret of access key {id} is shorter than {SECRET_BYTES_MIN} characters")]
    Secret { id: String },
}

impl AccessKey {
    pub fn new(id: &str, secret: &str) -> Result<Self, BadAccessKey> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if !(1..=128).contains(&id.len()) || !id.bytes().all(is_plain) {
            return Err(BadAccessKey::Id);
        }
        if secret.len() < SECRET_BYTES_MIN {
            return Err(BadAccessKey::Secret { id: id.to_owned() });
        }
        Ok(Self { id: id.to_owned(), secret: secret.to_owned() })
    }

    pub fn id(&self) -> &str {
        &self.id
    }
}

/// Without the secret.
impl fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AccessKey({})", self.id)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct SignedRequest<'a> {
    pub method: &'a Method,
    /// The whole path, still encoded and with the base path.
    pub path: &'a str,
    pub query: Option<&'a str>,
    pub headers: &'a HeaderMap,
    pub body: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    #[error("the request is not signed; give the client an access key of this server")]
    Missing,
    /// The signature has another form than ours.
    #[error("the signature is incomplete: {0}")]
    Incomplete(&'static str),
    #[error(
        "this server does not know the access key; with credentials of AWS, such as those of a role, call the Lambda \
         routes with a token in the endpoint URL, https://HOST/aws/TOKEN (needs lambda.signature = \"off\")"
    )]
    UnknownKey,
    #[error(
        "the token in the endpoint URL is wrong, expired or deleted; create one with \
         `tidemill token create NAME --role requester`"
    )]
    UnknownToken,
    #[error(
        "every call must be signed with a key of this server; set lambda.signature to \"off\" to use a token in the endpoint URL"
    )]
    SignatureRequired,
    #[error("the time of the signature differs from now by more than 5 minutes; set the clock of the client")]
    Skewed,
    #[error(
        "the signature does not match this request and access key; check the secret, and that no proxy changes host, path or body"
    )]
    Mismatch,
}

pub fn verify<'k>(
    keys: impl IntoIterator<Item = &'k AccessKey>,
    request: SignedRequest<'_>,
    now: Timestamp,
) -> Result<&'k AccessKey, Refusal> {
    let authorization =
        Authorization::read(one(request.headers, header::AUTHORIZATION.as_str())?.ok_or(Refusal::Missing)?)?;
    let date = one(request.headers, DATE)?.ok_or(Refusal::Incomplete("there is no x-amz-date"))?;
    let signed_at = instant(date).ok_or(Refusal::Incomplete("x-amz-date is not like 20261115T001319Z"))?;
    if date.get(..8) != Some(authorization.day) {
        return Err(Refusal::Incomplete("the day of the credential is not that of x-amz-date"));
    }
    check_signed_headers(request.headers, &authorization.signed_headers)?;
    if now.since(signed_at) > SKEW_MAX || signed_at.since(now) > SKEW_MAX {
        return Err(Refusal::Skewed);
    }
    let key = keys.into_iter().find(|key| key.id == authorization.key_id).ok_or(Refusal::UnknownKey)?;
    let headers = signed_headers(request.headers, &authorization.signed_headers)?;
    let parts = SignedParts {
        method: request.method.as_str(),
        path: request.path,
        query: request.query.unwrap_or_default(),
        headers: &headers,
        body: request.body,
    };
    let scope = Scope { day: authorization.day, region: authorization.region, service: SERVICE };
    // This comparison takes constant time.
    signature(&key.secret, date, &scope, &parts)
        .verify_slice(&authorization.signature)
        .map_err(|_| Refusal::Mismatch)?;
    Ok(key)
}

struct Authorization<'a> {
    key_id: &'a str,
    day: &'a str,
    region: &'a str,
    signed_headers: Vec<&'a str>,
    signature: [u8; 32],
}

impl<'a> Authorization<'a> {
    fn read(text: &'a str) -> Result<Self, Refusal> {
        // Other schemes are checked elsewhere.
        let rest =
            text.strip_prefix(SCHEME).and_then(|rest| rest.strip_prefix(' ')).ok_or(Refusal::Missing)?;
        let parts: Vec<&str> = rest.splitn(4, ',').map(|part| part.trim_matches(' ')).collect();
        let &[credential, headers, signature] = parts.as_slice() else {
            return Err(Refusal::Incomplete(
                "it needs Credential, SignedHeaders and Signature, in this order",
            ));
        };
        let credential =
            credential.strip_prefix("Credential=").ok_or(Refusal::Incomplete("there is no Credential"))?;
        let headers = headers
            .strip_prefix("SignedHeaders=")
            .ok_or(Refusal::Incomplete("there are no SignedHeaders"))?;
        let signature = signature
            .strip_prefix("Signature=")
            .and_then(bytes)
            .ok_or(Refusal::Incomplete("the Signature is not 64 hexadecimal digits in lower case"))?;
        let parts: Vec<&str> = credential.splitn(6, '/').collect();
        let &[key_id, day, region, SERVICE, TERMINATOR] = parts.as_slice() else {
            return Err(Refusal::Incomplete("the Credential is not KEY/DAY/REGION/lambda/aws4_request"));
        };
        Ok(Self { key_id, day, region, signed_headers: headers.split(';').collect(), signature })
    }
}

/// Everything that we act on must be signed.
fn check_signed_headers(headers: &HeaderMap, signed: &[&str]) -> Result<(), Refusal> {
    if !signed.is_sorted_by(|a, b| a < b) {
        return Err(Refusal::Incomplete("SignedHeaders are not sorted, or one is named twice"));
    }
    let is_signed = |name: &str| signed.binary_search(&name).is_ok();
    let must_be = |name: &str| name == header::HOST.as_str() || name.starts_with("x-amz-");
    if !is_signed(header::HOST.as_str())
        || headers.keys().any(|name| must_be(name.as_str()) && !is_signed(name.as_str()))
    {
        return Err(Refusal::Incomplete("host and each x-amz- header must be signed"));
    }
    Ok(())
}

/// The values of the signed headers. Several of one name are one list.
fn signed_headers<'a>(headers: &HeaderMap, names: &[&'a str]) -> Result<Vec<(&'a str, String)>, Refusal> {
    let missing = Refusal::Incomplete("a signed header is missing, or is not plain text");
    let mut signed = Vec::new();
    for name in names {
        let values = headers.get_all(*name).iter().map(|value| value.to_str().ok().map(str::trim));
        let values: Vec<&str> = values.collect::<Option<_>>().ok_or(missing)?;
        if values.is_empty() {
            return Err(missing);
        }
        signed.push((*name, values.join(",")));
    }
    Ok(signed)
}

/// The value of a header that occurs at most once. Of two, another program might take the other.
fn one<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            value.to_str().map(Some).map_err(|_| Refusal::Incomplete("a header is not plain text"))
        }
        (Some(_), Some(_)) => Err(Refusal::Incomplete("a header occurs twice")),
    }
}

/// `20261115T001319Z`.
fn instant(text: &str) -> Option<Timestamp> {
    let is_shaped = |(at, byte): (usize, u8)| match at {
        8 => byte == b'T',
        15 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    (text.len() == 16 && text.bytes().enumerate().all(is_shaped)).then(|| text.parse().ok())?
}

/// Only lower case, so that a signature has only one spelling.
fn bytes(text: &str) -> Option<[u8; 32]> {
    let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if text.len() != 64 || !is_hex {
        return None;
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}
