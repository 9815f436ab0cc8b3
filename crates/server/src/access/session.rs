//! Browser sessions: a cookie with a random secret. The database stores only its hash.

use axum::http::{HeaderMap, HeaderValue, header};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

tidemill_domain::words! {
    /// Name of the cookie. The prefix `__Host-` binds it to this host, but works over TLS only.
    pub enum CookieName {
        Plain = "tidemill_session",
        Host = "__Host-tidemill_session",
    }
}

impl CookieName {
    const fn attributes(self) -> &'static str {
        match self {
            Self::Plain => "Path=/; HttpOnly; SameSite=Lax",
            Self::Host => "Path=/; HttpOnly; SameSite=Lax; Secure",
        }
    }
}

pub(crate) fn secret_text(bytes: &[u8; 32]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The session secret of a request.
pub(crate) fn cookie(headers: &HeaderMap, name: CookieName) -> Option<String> {
    value(headers, name.as_str()).filter(|value| value.len() == 43)
}

pub(crate) fn value(headers: &HeaderMap, name: &str) -> Option<String> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = all.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
}

pub(crate) fn set(name: CookieName, secret: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("{}={secret}; {}", name.as_str(), name.attributes())).ok()
}

pub(crate) fn unset(name: CookieName) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("{}=; {}; Max-Age=0", name.as_str(), name.attributes())).ok()
}

/// The form token: a hash of the session secret.
pub(crate) fn form_token(secret: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(format!("form:{secret}").as_bytes()))
}
