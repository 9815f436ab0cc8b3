//! JSON Web Tokens: signed by an issuer that we know, with the algorithm that we know of it, and valid now.

use crate::App;
use axum::http::{Method, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use tidemill_server::access::jwt::{Issuer, Signature};

const SECRET: &[u8] = b"a secret of at least thirty-two bytes";

fn issuer() -> Issuer {
    Issuer::new("https://sso.example", "tidemill", Signature::Hs256, SECRET, "role").unwrap()
}

/// 2026-11-15T02:00:00Z, where the clock of the tests stands.
const NOW: i64 = 1_794_708_000;

fn claims() -> Value {
    json!({ "iss": "https://sso.example", "aud": "tidemill", "sub": "ann", "exp": NOW + 600, "nbf": NOW - 5, "role": "viewer" })
}

fn signed(claims: &Value) -> String {
    encode(&Header::new(Algorithm::HS256), claims, &EncodingKey::from_secret(SECRET)).unwrap()
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(name);
    claims
}

async fn status(token: &str) -> StatusCode {
    let app = App::trusting(vec![issuer()]).await;
    let bearer = format!("Bearer {token}");
    app.ask(Method::GET, "/api/v1/processes", &[("authorization", &bearer)], "").await.status
}

#[tokio::test]
async fn a_token_of_a_known_issuer_opens_the_door() {
    assert_eq!(status(&signed(&claims())).await, StatusCode::OK);
    assert_eq!(status(&signed(&without("nbf"))).await, StatusCode::OK);
    assert_eq!(status(&signed(&with("role", json!("worker")))).await, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn claims_that_are_wrong_or_missing_are_refused() {
    for claims in [
        with("iss", json!("https://evil.example")),
        with("aud", json!("another")),
        with("exp", json!(NOW - 60)),
        with("nbf", json!(NOW + 60)),
        with("exp", json!("tomorrow")),
        with("nbf", json!("yesterday")),
        with("role", json!("root")),
        with("role", json!("system")),
        with("role", json!(["admin"])),
        without("iss"),
        without("aud"),
        without("exp"),
        without("sub"),
        without("role"),
    ] {
        assert_eq!(status(&signed(&claims)).await, StatusCode::UNAUTHORIZED, "{claims}");
    }
}

#[tokio::test]
async fn forged_tokens_are_refused() {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let good = signed(&claims());
    let signature = good.rsplit('.').next().unwrap();
    let other = EncodingKey::from_secret(b"another secret of thirty-two bytes!!");
    for forged in [
        format!("{}.{}.", part(&json!({ "alg": "none", "typ": "JWT" })), part(&claims())),
        format!("{}.{}.{signature}", part(&json!({ "alg": "none" })), part(&claims())),
        format!("{}.{}.{signature}", part(&json!({ "alg": "HS256" })), part(&with("role", json!("admin")))),
        encode(&Header::new(Algorithm::HS256), &claims(), &other).unwrap(),
        encode(&Header::new(Algorithm::HS512), &claims(), &EncodingKey::from_secret(SECRET)).unwrap(),
        format!("{good}x"),
        "a.b.c".to_owned(),
        "x".repeat(100_000),
    ] {
        assert_eq!(status(&forged).await, StatusCode::UNAUTHORIZED, "{forged:.80}");
    }
}

#[test]
fn keys_that_cannot_be_used_are_refused_at_the_start() {
    assert!(Issuer::new("i", "a", Signature::Hs256, b"short", "role").is_err());
    assert!(Issuer::new("i", "a", Signature::Rs256, b"not a pem", "role").is_err());
    assert!(Issuer::new("i", "a", Signature::Es256, SECRET, "role").is_err());
    assert!(!format!("{:?}", issuer()).contains("secret of"));
}

#[tokio::test]
async fn public_keys_open_the_door_for_what_was_signed_with_their_private_ones() {
    let (rsa, ec): (&[u8], &[u8]) = (include_bytes!("keys/rsa.pem"), include_bytes!("keys/ec.pem"));
    let rsa_issuer = Issuer::new(
        "https://sso.example",
        "tidemill",
        Signature::Rs256,
        include_bytes!("keys/rsa.pub.pem"),
        "role",
    );
    let ec_issuer = Issuer::new(
        "https://sso.example",
        "tidemill",
        Signature::Es256,
        include_bytes!("keys/ec.pub.pem"),
        "role",
    );
    let by_rsa =
        encode(&Header::new(Algorithm::RS256), &claims(), &EncodingKey::from_rsa_pem(rsa).unwrap()).unwrap();
    let by_ec =
        encode(&Header::new(Algorithm::ES256), &claims(), &EncodingKey::from_ec_pem(ec).unwrap()).unwrap();
    // The old trick: the public key, which everybody has, taken for the secret of an HMAC.
    let public = EncodingKey::from_secret(include_bytes!("keys/rsa.pub.pem"));
    let confused = encode(&Header::new(Algorithm::HS256), &claims(), &public).unwrap();

    for (issuer, good) in [(rsa_issuer.unwrap(), &by_rsa), (ec_issuer.unwrap(), &by_ec)] {
        let app = App::trusting(vec![issuer]).await;
        for token in [&by_rsa, &by_ec, &confused, &signed(&claims())] {
            let bearer = format!("Bearer {token}");
            let answer = app.ask(Method::GET, "/api/v1/processes", &[("authorization", &bearer)], "").await;
            assert_eq!(answer.status == StatusCode::OK, token == good, "{token:.60}");
        }
    }
}
