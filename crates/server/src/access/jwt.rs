//! JSON Web Tokens of configured issuers. The issuer decides the algorithm, never the token.

mod verifier;

use crate::access::{Principal, Via};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Map, Value};
use std::fmt;
use tidemill_domain::access::ROLES;
use tidemill_domain::audit::Role;
use tidemill_domain::time::Timestamp;

tidemill_domain::words! {
    pub enum Signature {
        /// HMAC with a shared secret.
        Hs256 = "hs256",
        Rs256 = "rs256",
        /// Elliptic curve P-256.
        Es256 = "es256",
    }
}

impl Signature {
    fn algorithm(self) -> Algorithm {
        match self {
            Self::Hs256 => Algorithm::HS256,
            Self::Rs256 => Algorithm::RS256,
            Self::Es256 => Algorithm::ES256,
        }
    }
}

#[derive(Clone)]
pub struct Issuer {
    name: String,
    audience: String,
    signature: Signature,
    key: DecodingKey,
    role_claim: String,
}

#[derive(Debug, thiserror::Error)]
#[error("the key of issuer {name} cannot be used for {signature:?}")]
pub struct BadKey {
    name: String,
    signature: Signature,
}

impl Issuer {
    /// `key` is a shared secret of at least 32 bytes for HS256, and otherwise a public key in PEM (RSA: 2048 to 8192 bits). The
    /// claim `role_claim` has the role of the caller.
    pub fn new(
        name: &str,
        audience: &str,
        signature: Signature,
        key: &[u8],
        role_claim: &str,
    ) -> Result<Self, BadKey> {
        let made = match signature {
            Signature::Hs256 => Some(DecodingKey::from_secret(key)),
            Signature::Rs256 => DecodingKey::from_rsa_pem(key).ok(),
            Signature::Es256 => DecodingKey::from_ec_pem(key).ok(),
        };
        let usable = made.filter(|key| verifier::is_usable(key, signature));
        let key = usable.ok_or_else(|| BadKey { name: name.to_owned(), signature })?;
        verifier::install();
        Ok(Self {
            name: name.to_owned(),
            audience: audience.to_owned(),
            signature,
            key,
            role_claim: role_claim.to_owned(),
        })
    }
}

/// Keeps the key out of logs.
impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Issuer({}, {:?})", self.name, self.signature)
    }
}

const LENGTH_MAX: usize = 8 * 1024;
/// How far the clocks of issuer and server may differ.
const LEEWAY_SECONDS: f64 = 30.0;

/// The principal of a token that one of the issuers signed and that is valid now.
pub(crate) fn verify(issuers: &[Issuer], text: &str, now: Timestamp, request_id: &str) -> Option<Principal> {
    if text.len() > LENGTH_MAX {
        return None;
    }
    issuers.iter().find_map(|issuer| verify_one(issuer, text, now, request_id))
}

fn verify_one(issuer: &Issuer, text: &str, now: Timestamp, request_id: &str) -> Option<Principal> {
    let mut validation = Validation::new(issuer.signature.algorithm());
    validation.set_issuer(&[&issuer.name]);
    validation.set_audience(&[&issuer.audience]);
    validation.set_required_spec_claims(&["iss", "aud", "exp", "sub"]);
    // Times are checked below, by our own clock.
    validation.validate_exp = false;
    validation.validate_nbf = false;
    let claims = jsonwebtoken::decode::<Map<String, Value>>(text, &issuer.key, &validation).ok()?.claims;
    // RFC 7519 allows fractions of a second.
    let instant = |name: &str| claims.get(name).and_then(Value::as_f64);
    let seconds = now.as_micros() as f64 / 1_000_000.0;
    let has_ended = seconds >= instant("exp")? + LEEWAY_SECONDS;
    let has_begun = instant("nbf").is_none_or(|begin| seconds >= begin - LEEWAY_SECONDS);
    if has_ended || !has_begun || (claims.contains_key("nbf") && instant("nbf").is_none()) {
        return None;
    }
    let subject = claims.get("sub")?.as_str()?;
    let role: Role = claims.get(&issuer.role_claim)?.as_str()?.parse().ok()?;
    let name = format!("{}@{}", subject.chars().take(100).collect::<String>(), issuer.name);
    let caller = format!("jwt/{name}");
    ROLES.contains(&role).then(|| Principal::new(name, caller, role, Via::Bearer, request_id))
}
