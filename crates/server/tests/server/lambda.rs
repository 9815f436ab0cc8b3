//! Requests that botocore has signed (`lambda/sign.py`), and what is left of them once a byte has changed.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use proptest::prelude::*;
use serde_json::Value;
use std::time::Duration;
use tidemill_domain::time::Timestamp;
use tidemill_server::lambda::name::FunctionName;
use tidemill_server::lambda::signature::{AccessKey, BadAccessKey, Refusal, SignedRequest, verify};

/// All that was captured.
struct Fixture {
    signed_at: Timestamp,
    key: AccessKey,
    requests: Vec<Request>,
}

#[derive(Clone, Debug)]
struct Request {
    name: String,
    method: Method,
    path: String,
    query: Option<String>,
    headers: HeaderMap,
    body: Vec<u8>,
}

fn fixture() -> Fixture {
    let all: Value = serde_json::from_str(include_str!("lambda/signed.json")).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let requests = all["requests"].as_array().unwrap().iter().map(|request| Request {
        name: text(&request["name"]),
        method: text(&request["method"]).parse().unwrap(),
        path: text(&request["path"]),
        query: request["query"].as_str().map(str::to_owned),
        headers: request["headers"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), text(value).parse().unwrap()))
            .collect(),
        body: text(&request["body"]).into_bytes(),
    });
    Fixture {
        signed_at: text(&all["signed_at"]).parse().unwrap(),
        key: AccessKey::new(&text(&all["key_id"]), &text(&all["secret"])).unwrap(),
        requests: requests.collect(),
    }
}

impl Fixture {
    fn request(&self, name: &str) -> Request {
        self.requests.iter().find(|request| request.name == name).unwrap().clone()
    }

    fn verify(&self, request: &Request) -> Result<(), Refusal> {
        check(std::slice::from_ref(&self.key), request, self.signed_at)
    }
}

fn check(keys: &[AccessKey], request: &Request, now: Timestamp) -> Result<(), Refusal> {
    let arrived = SignedRequest {
        method: &request.method,
        path: &request.path,
        query: request.query.as_deref(),
        headers: &request.headers,
        body: &request.body,
    };
    verify(keys, arrived, now).map(|_| ())
}

/// A part of a request that is covered by its signature.
#[derive(Clone, Debug)]
enum Part {
    Path,
    Query,
    Body,
    Header(HeaderName),
}

impl Request {
    fn parts(&self) -> Vec<Part> {
        let authorization = self.headers["authorization"].to_str().unwrap();
        let signed = authorization.split("SignedHeaders=").nth(1).unwrap().split(',').next().unwrap();
        let names = signed.split(';').chain(["authorization"]);
        let headers = names.map(|name| Part::Header(name.parse().unwrap()));
        [Part::Path, Part::Query, Part::Body].into_iter().chain(headers).collect()
    }

    fn bytes(&self, part: &Part) -> Vec<u8> {
        match part {
            Part::Path => self.path.clone().into_bytes(),
            Part::Query => self.query.clone().unwrap_or_default().into_bytes(),
            Part::Body => self.body.clone(),
            Part::Header(name) => self.headers[name].as_bytes().to_vec(),
        }
    }

    /// With another part; the bytes of all but the body are printable.
    fn with(&self, part: &Part, bytes: Vec<u8>) -> Self {
        let mut changed = self.clone();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        match part {
            Part::Path => changed.path = text(bytes),
            Part::Query => changed.query = Some(text(bytes)),
            Part::Body => changed.body = bytes,
            Part::Header(name) => {
                changed.headers.insert(name, HeaderValue::from_bytes(&bytes).unwrap());
            }
        }
        changed
    }
}

#[test]
fn requests_signed_by_botocore_are_verified() {
    let fixture = fixture();

    assert!(fixture.requests.len() >= 8);
    for request in &fixture.requests {
        assert_eq!(fixture.verify(request), Ok(()), "{}", request.name);
    }
}

#[test]
fn the_function_is_found_in_each_path() {
    for request in fixture().requests {
        let segment = request.path.rsplit('/').nth(1).unwrap();
        assert_eq!(FunctionName::from_path(segment).unwrap().name(), "emr-batch-agent", "{}", request.name);
    }
}

#[test]
fn every_byte_counts() {
    let fixture = fixture();
    let mut changes = 0;
    for request in &fixture.requests {
        for part in request.parts() {
            let bytes = request.bytes(&part);
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
                let refused = fixture.verify(&request.with(&part, changed)).is_err();
                assert!(refused, "{}: byte {at} of {part:?}", request.name);
                changes += 1;
            }
        }
        let mut read = request.clone();
        read.method = Method::GET;
        assert_eq!(fixture.verify(&read), Err(Refusal::Mismatch));
    }
    assert!(changes > 4_000, "{changes}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_changed_byte_is_refused(which: prop::sample::Index, part: prop::sample::Index, at: prop::sample::Index, to in 0x21_u8..0x7f) {
        let fixture = fixture();
        let request = which.get(&fixture.requests);
        let parts: Vec<Part> = request.parts().into_iter().filter(|part| !request.bytes(part).is_empty()).collect();
        let part = part.get(&parts);
        let mut bytes = request.bytes(part);
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != to);
        bytes[at] = to;

        prop_assert!(fixture.verify(&request.with(part, bytes)).is_err());
    }

    #[test]
    fn what_is_added_or_cut_off_is_refused(which: prop::sample::Index, at: prop::sample::Index, byte in prop::option::of(0x21_u8..0x7f)) {
        let fixture = fixture();
        let request = which.get(&fixture.requests);
        for part in [Part::Path, Part::Body] {
            let mut bytes = request.bytes(&part);
            match byte {
                Some(byte) => bytes.insert(at.index(bytes.len() + 1), byte),
                None if bytes.is_empty() => continue,
                None => drop(bytes.remove(at.index(bytes.len()))),
            }
            prop_assert_eq!(fixture.verify(&request.with(&part, bytes)), Err(Refusal::Mismatch));
        }
    }

    #[test]
    fn any_authorization_is_refused_without_a_panic(text in "(AWS4-HMAC-SHA256 )?(Credential=|SignedHeaders=|Signature=|[a-z0-9/;]{0,9}|, ){0,9}") {
        let fixture = fixture();
        let mut request = fixture.request("plain name");
        request.headers.insert("authorization", text.parse().unwrap());

        prop_assert!(fixture.verify(&request).is_err());
    }
}

#[test]
fn a_request_counts_for_five_minutes_before_and_after() {
    let fixture = fixture();
    let request = fixture.request("plain name");
    let keys = [fixture.key.clone()];
    let (limit, moment) = (Duration::from_secs(300), Duration::from_micros(1));

    assert_eq!(check(&keys, &request, fixture.signed_at.plus(limit)), Ok(()));
    assert_eq!(check(&keys, &request, fixture.signed_at.minus(limit)), Ok(()));
    let (late, early) = (fixture.signed_at.plus(limit + moment), fixture.signed_at.minus(limit + moment));
    assert_eq!(check(&keys, &request, late), Err(Refusal::Skewed));
    assert_eq!(check(&keys, &request, early), Err(Refusal::Skewed));
}

#[test]
fn only_the_right_key_opens() {
    let fixture = fixture();
    let request = fixture.request("plain name");
    let other = AccessKey::new("AKIDOTHER", "another-secret-of-forty-characters+/AAAA").unwrap();
    let wrong = AccessKey::new(fixture.key.id(), "another-secret-of-forty-characters+/AAAA").unwrap();

    assert_eq!(check(&[other.clone(), fixture.key.clone()], &request, fixture.signed_at), Ok(()));
    assert_eq!(check(&[other], &request, fixture.signed_at), Err(Refusal::UnknownKey));
    assert_eq!(check(&[], &request, fixture.signed_at), Err(Refusal::UnknownKey));
    assert_eq!(check(&[wrong], &request, fixture.signed_at), Err(Refusal::Mismatch));
}

#[test]
fn what_we_act_upon_cannot_be_added_outside_of_the_signature() {
    let fixture = fixture();
    for (name, value) in [
        ("x-amz-invocation-type", "DryRun"),
        ("x-amz-log-type", "Tail"),
        ("x-amz-security-token", "x"),
        ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
    ] {
        let mut request = fixture.request("plain name");
        request.headers.insert(name, value.parse().unwrap());
        assert!(matches!(fixture.verify(&request), Err(Refusal::Incomplete(_))), "{name}");
    }
    for name in ["x-amz-date", "authorization", "host"] {
        let mut request = fixture.request("plain name");
        let value = request.headers[name].clone();
        request.headers.append(name, value);
        assert!(fixture.verify(&request).is_err(), "{name} twice");
        request.headers.remove(name);
        assert!(fixture.verify(&request).is_err(), "without {name}");
    }
}

#[test]
fn another_scheme_is_no_signature() {
    let fixture = fixture();
    let mut request = fixture.request("plain name");
    request.headers.insert("authorization", "Bearer tm_x_y".parse().unwrap());

    assert_eq!(fixture.verify(&request), Err(Refusal::Missing));
}

#[test]
fn keys_that_could_be_guessed_are_refused_and_none_is_shown() {
    assert!(matches!(AccessKey::new("AKID", "short"), Err(BadAccessKey::Secret { .. })));
    for id in ["", "a/b", "a,b", "a b", &"a".repeat(129)] {
        assert_eq!(AccessKey::new(id, &"s".repeat(40)), Err(BadAccessKey::Id), "{id}");
    }
    let key = AccessKey::new("AKID", &"s3cret".repeat(10)).unwrap();
    assert_eq!(format!("{key:?}"), "AccessKey(AKID)");
}
