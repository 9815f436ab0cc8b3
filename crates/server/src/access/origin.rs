//! Checks that a request that changes something comes from our own pages. Browsers send cookies with requests of any
//! site, and any open page can reach a loopback address.

use crate::access::Via;
use crate::problem::Problem;
use axum::http::{HeaderMap, header};
use std::net::IpAddr;
use tidemill_domain::code::Code;

/// Rejects requests of other sites. A bearer header needs no check: browsers never send one on their own.
pub(super) fn check(headers: &HeaderMap, via: &Via) -> Result<(), Problem> {
    if *via == Via::Bearer {
        return Ok(());
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_ours = match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => {
            Some(origin.split_once("://").map_or(origin, |(_, host)| host)) == text("host")
        }
        // Programs send neither header.
        (None, None) => true,
    };
    if is_ours { Ok(()) } else { Err(foreign()) }
}

/// How much of a host name an error shows.
const HOST_CHARS_MAX: usize = 100;

/// Without authentication the host name must be a loopback name: otherwise another site could point its own name here (DNS
/// rebinding).
pub(super) fn check_host(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return Ok(()) };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(""),
        None => host.split(':').next().unwrap_or(""),
    };
    let is_loopback =
        name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_loopback {
        return Ok(());
    }
    let name: String = name.chars().take(HOST_CHARS_MAX).collect();
    let detail = format!(
        "the request is for the host `{name}`, but a server without authentication answers only to localhost and loopback \
         addresses, because any site can point its own name here"
    );
    let remedy = "use http://localhost or http://127.0.0.1, or set server.auth to \"required\" and create a token with \
                  `tidemill token create`: then the server answers to any name";
    Err(Problem::new(Code::HostNotAllowed, detail, remedy))
}

fn foreign() -> Problem {
    let remedy = "open the page at the address of this server; programs send `Authorization: Bearer TOKEN`";
    Problem::new(Code::ForeignRequest, "the request came from another site", remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_our_own_pages_and_programs_may_change_things_with_a_cookie() {
        let session = Via::Session { secret: String::new() };
        for (pairs, is_ours) in [
            (&[("sec-fetch-site", "same-origin")][..], true),
            (&[("sec-fetch-site", "none")], true),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "cross-site"), ("origin", "http://h"), ("host", "h")], false),
            (&[("origin", "https://h:7790"), ("host", "h:7790")], true),
            (&[("origin", "https://evil"), ("host", "h:7790")], false),
            (&[("origin", "null"), ("host", "h")], false),
            (&[], true),
        ] {
            assert_eq!(check(&headers(pairs), &session).is_ok(), is_ours, "{pairs:?}");
            assert_eq!(check(&headers(pairs), &Via::Open).is_ok(), is_ours, "{pairs:?}");
            assert!(check(&headers(pairs), &Via::Bearer).is_ok());
        }
    }

    #[test]
    fn an_open_server_answers_to_its_own_names_only() {
        for host in ["localhost:7790", "127.0.0.1:7790", "127.0.0.1", "[::1]:7790"] {
            assert!(check_host(&headers(&[("host", host)])).is_ok(), "{host}");
        }
        for host in ["evil.example", "127.evil.example:7790", "", "[fe80::1]"] {
            assert!(check_host(&headers(&[("host", host)])).is_err(), "{host}");
        }
    }
}
