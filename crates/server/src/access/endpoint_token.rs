//! A token in the URL of an AWS endpoint: `https://HOST/aws/TOKEN`. For clients that sign with credentials of AWS, such as
//! those of a role: this server cannot verify their signatures, and they send no other header.

use axum::http::Uri;
use axum::http::request::Parts;

const PREFIX: &str = "/aws/";

#[derive(Clone)]
pub(super) struct EndpointToken(pub(super) String);

/// Takes the token out of the address, so that no handler, log or error can show it.
pub(super) fn take(parts: &mut Parts) {
    let Some(rest) = parts.uri.path().strip_prefix(PREFIX) else { return };
    let (token, path) = rest.split_once('/').unwrap_or((rest, ""));
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let token = EndpointToken(token.to_owned());
    parts.uri = format!("/{path}{query}").parse().unwrap_or_else(|_| Uri::from_static("/"));
    parts.extensions.insert(token);
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    #[test]
    fn only_the_address_of_an_endpoint_has_a_token() {
        for (address, rest, token) in [
            (
                "/aws/tm_a_b/2015-03-31/functions/f?Qualifier=p",
                "/2015-03-31/functions/f?Qualifier=p",
                Some("tm_a_b"),
            ),
            ("http://h:1/aws/tm_a_b/x", "/x", Some("tm_a_b")),
            ("/aws/tm_a_b", "/", Some("tm_a_b")),
            ("/aws//x", "/x", Some("")),
            ("/aws/tm_a_b//evil.example/x", "//evil.example/x", Some("tm_a_b")),
            ("/2015-03-31/functions/f", "/2015-03-31/functions/f", None),
            ("/api/v1/aws/x", "/api/v1/aws/x", None),
        ] {
            let (mut parts, ()) = Request::builder().uri(address).body(()).unwrap().into_parts();

            take(&mut parts);

            assert_eq!(parts.uri.path_and_query().unwrap(), rest, "{address}");
            assert_eq!(
                parts.extensions.get::<EndpointToken>().map(|token| token.0.as_str()),
                token,
                "{address}"
            );
        }
    }
}
