//! JSON Web Tokens: signed by an issuer that we know, with the algorithm that we know of it, and valid now.

use crate::App;
use axum::http::{Method, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use ring::{hmac, signature};
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

/// A token as an issuer makes it, signed by `sign`.
fn token(algorithm: &str, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(&json!({ "alg": algorithm, "typ": "JWT" })), part(claims));
    let signature = URL_SAFE_NO_PAD.encode(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

fn by_hmac(algorithm: hmac::Algorithm, secret: &[u8]) -> impl FnOnce(&[u8]) -> Vec<u8> {
    let key = hmac::Key::new(algorithm, secret);
    move |message| hmac::sign(&key, message).as_ref().to_vec()
}

fn by_rsa(message: &[u8], encoding: &'static dyn signature::RsaEncoding) -> Vec<u8> {
    let key = RsaKeyPair::from_pkcs8(&der(include_str!("keys/rsa.pem"))).unwrap();
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(encoding, &SystemRandom::new(), message, &mut signature).unwrap();
    signature
}

fn by_ec(message: &[u8]) -> Vec<u8> {
    let (random, der) = (SystemRandom::new(), der(include_str!("keys/ec.pem")));
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random).unwrap();
    key.sign(&random, message).unwrap().as_ref().to_vec()
}

/// What stands between the lines of a PEM.
fn der(pem: &str) -> Vec<u8> {
    STANDARD.decode(pem.lines().filter(|line| !line.starts_with('-')).collect::<String>()).unwrap()
}

fn signed(claims: &Value) -> String {
    token("HS256", claims, by_hmac(hmac::HMAC_SHA256, SECRET))
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
    let other = b"another secret of thirty-two bytes!!";
    for forged in [
        format!("{}.{}.", part(&json!({ "alg": "none", "typ": "JWT" })), part(&claims())),
        format!("{}.{}.{signature}", part(&json!({ "alg": "none" })), part(&claims())),
        format!("{}.{}.{signature}", part(&json!({ "alg": "HS256" })), part(&with("role", json!("admin")))),
        token("HS256", &claims(), by_hmac(hmac::HMAC_SHA256, other)),
        token("HS512", &claims(), by_hmac(hmac::HMAC_SHA512, SECRET)),
        token("HS256", &claims(), |_| Vec::new()),
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
    assert!(Issuer::new("i", "a", Signature::Rs256, include_bytes!("keys/rsa.pem"), "role").is_err());
    assert!(!format!("{:?}", issuer()).contains("secret of"));
}

#[tokio::test]
async fn public_keys_open_the_door_for_what_was_signed_with_their_private_ones() {
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
    let rsa = token("RS256", &claims(), |message| by_rsa(message, &RSA_PKCS1_SHA256));
    let ec = token("ES256", &claims(), by_ec);
    let padded_otherwise = token("RS256", &claims(), |message| by_rsa(message, &signature::RSA_PSS_SHA256));
    let of_something_else = token("RS256", &claims(), |_| by_rsa(b"something else", &RSA_PKCS1_SHA256));
    let empty = token("ES256", &claims(), |_| vec![0; 64]);
    // The old trick: the public key, which everybody has, taken for the secret of an HMAC.
    let public = include_bytes!("keys/rsa.pub.pem");
    let confused = token("HS256", &claims(), by_hmac(hmac::HMAC_SHA256, public));

    for (issuer, good) in [(rsa_issuer.unwrap(), &rsa), (ec_issuer.unwrap(), &ec)] {
        let app = App::trusting(vec![issuer]).await;
        let forged = [&padded_otherwise, &of_something_else, &empty, &confused, &signed(&claims())];
        for token in [&rsa, &ec].into_iter().chain(forged) {
            let bearer = format!("Bearer {token}");
            let answer = app.ask(Method::GET, "/api/v1/processes", &[("authorization", &bearer)], "").await;
            assert_eq!(answer.status == StatusCode::OK, token == good, "{token:.60}");
        }
    }
}
