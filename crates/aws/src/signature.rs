//! AWS Signature Version 4: the text of a request that is signed, and its signature. The server verifies with the same
//! functions that sign.

use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

pub const SCHEME: &str = "AWS4-HMAC-SHA256";

/// The last part of a credential.
pub const TERMINATOR: &str = "aws4_request";

/// Characters that a canonical path does not encode.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// The parts of a request that are signed.
#[derive(Clone, Copy, Debug)]
pub struct SignedParts<'a> {
    pub method: &'a str,
    /// As it is sent, so still encoded.
    pub path: &'a str,
    /// As it is sent.
    pub query: &'a str,
    /// Names in lower case, sorted, with their values.
    pub headers: &'a [(&'a str, String)],
    pub body: &'a [u8],
}

/// What a signature is valid for.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// Such as `20261115`.
    pub day: &'a str,
    pub region: &'a str,
    pub service: &'a str,
}

/// The signature of a request that is sent at `date`, such as `20261115T001319Z`. The caller compares it or writes it.
pub fn signature(secret: &str, date: &str, scope: &Scope<'_>, parts: &SignedParts<'_>) -> Hmac<Sha256> {
    let Scope { day, region, service } = scope;
    let text = format!(
        "{SCHEME}\n{date}\n{day}/{region}/{service}/{TERMINATOR}\n{}",
        hex(&Sha256::digest(canonical(parts)))
    );
    let signing_key = [*day, *region, *service, TERMINATOR]
        .iter()
        .fold(format!("AWS4{secret}").into_bytes(), |key, part| {
            mac(&key, part).finalize().into_bytes().to_vec()
        });
    mac(&signing_key, &text)
}

/// The value of the header `Authorization`.
pub fn authorization(
    key_id: &str,
    secret: &str,
    date: &str,
    scope: &Scope<'_>,
    parts: &SignedParts<'_>,
) -> String {
    let Scope { day, region, service } = scope;
    let signed = hex(&signature(secret, date, scope, parts).finalize().into_bytes());
    let names = names(parts);
    format!(
        "{SCHEME} Credential={key_id}/{day}/{region}/{service}/{TERMINATOR}, SignedHeaders={names}, \
         Signature={signed}"
    )
}

/// The canonical text of the request, which is hashed and signed.
fn canonical(parts: &SignedParts<'_>) -> String {
    // Except for S3, the path is encoded twice: once for the wire and once for the signature.
    let path = utf8_percent_encode(parts.path, PATH);
    let mut text = format!("{}\n{path}\n{}\n", parts.method, query(parts.query));
    for (name, value) in parts.headers {
        let _infallible = writeln!(text, "{name}:{}", squeeze(value));
    }
    let _infallible = write!(text, "\n{}\n{}", names(parts), hex(&Sha256::digest(parts.body)));
    text
}

fn names(parts: &SignedParts<'_>) -> String {
    parts.headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";")
}

/// The sorted pairs. They stay encoded as they were sent, so that no other spelling has the same signature.
fn query(text: &str) -> String {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<(&str, &str)> = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
    pairs.sort_unstable();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

/// Trims spaces, and replaces several by one.
fn squeeze(value: &str) -> String {
    value.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

fn mac(key: &[u8], text: &str) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text.as_bytes());
    mac
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The requests and signatures of the public test suite of AWS (`aws-sig-v4-test-suite`).
    #[track_caller]
    fn check(case: (&str, &str, &str), more: &[(&'static str, &str)], body: &str, expected: &str) {
        let (method, path, query) = case;
        let date = "20150830T123600Z";
        let mut headers = vec![("host", "example.amazonaws.com".to_owned()), ("x-amz-date", date.to_owned())];
        headers.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
        headers.sort_unstable();
        let scope = Scope { day: "20150830", region: "us-east-1", service: "service" };
        let parts = SignedParts { method, path, query, headers: &headers, body: body.as_bytes() };
        let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

        let header = authorization("AKIDEXAMPLE", secret, date, &scope, &parts);

        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        assert_eq!(
            header,
            format!(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                 SignedHeaders={}, Signature={expected}",
                names.join(";")
            )
        );
    }

    #[test]
    fn get_vanilla() {
        let expected = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31";
        check(("GET", "/", ""), &[], "", expected);
    }

    #[test]
    fn get_vanilla_query_order_key_case() {
        let expected = "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500";
        check(("GET", "/", "Param2=value2&Param1=value1"), &[], "", expected);
    }

    #[test]
    fn get_utf8() {
        let expected = "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85";
        check(("GET", "/\u{1234}", ""), &[], "", expected);
    }

    #[test]
    fn get_header_value_trim() {
        let expected = "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736";
        check(("GET", "/", ""), &[("my-header1", " value1"), ("my-header2", " \"a   b   c\"")], "", expected);
    }

    #[test]
    fn post_vanilla() {
        let expected = "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b";
        check(("POST", "/", ""), &[], "", expected);
    }

    #[test]
    fn post_x_www_form_urlencoded() {
        let expected = "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a";
        let form = [("content-type", "application/x-www-form-urlencoded")];
        check(("POST", "/", ""), &form, "Param1=value1", expected);
    }
}
