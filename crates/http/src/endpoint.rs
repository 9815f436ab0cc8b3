//! Where requests go, and how: the address, headers, limits and retries.

use crate::{HttpError, Rate};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;
use std::net::IpAddr;
use std::time::Duration;
use std::{env, fmt, fs};

/// Characters of a value that stay as they are in a URL.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// An address, and how it is called. Only `https` is accepted, or `http` on this host, unless
/// [`allow_plain`](Self::allow_plain) permits more. Redirects are not followed, so headers go to this host only.
///
/// ```
/// use tidemill_http::HttpEndpoint;
///
/// let endpoint = HttpEndpoint::new("https://shop.example/api/orders?limit=500")
///     .header("authorization", "Bearer …")
///     .rate("10/s".parse().unwrap());
/// assert!(endpoint.check().is_ok());
/// assert!(HttpEndpoint::new("http://shop.example/").check().is_err());
/// ```
#[derive(Clone)]
pub struct HttpEndpoint {
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) allows_plain: bool,
    pub(crate) rate: Option<Rate>,
    pub(crate) retry: HttpRetry,
    pub(crate) timeout: Duration,
    pub(crate) max_bytes: usize,
}

/// Which failures are tried again, and how often. Lost connections, timeouts and incomplete answers are too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpRetry {
    /// Statuses that may change by themselves.
    pub statuses: Vec<u16>,
    /// Attempts in total.
    pub attempts: u32,
    /// First pause; each further one is twice as long, up to a minute. A longer `Retry-After` wins.
    pub backoff: Duration,
}

impl Default for HttpRetry {
    fn default() -> Self {
        Self { statuses: vec![429, 502, 503, 504], attempts: 5, backoff: Duration::from_secs(1) }
    }
}

impl HttpEndpoint {
    /// Calls this URL.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: Vec::new(),
            allows_plain: false,
            rate: None,
            retry: HttpRetry::default(),
            timeout: Duration::from_secs(30),
            max_bytes: 32 << 20,
        }
    }

    tidemill_domain::setters! {
        /// Adds a header to each request. Its value is never shown.
        #[must_use]
        pub fn header(self, name: impl Into<String>, value: impl Into<String>) {
            self.headers.push((name.into(), value.into()))
        }
        /// Allows `http` to other hosts. Others can read it.
        #[must_use]
        pub fn allow_plain(self) { self.allows_plain = true }
        /// At most this many requests, retries included.
        #[must_use]
        pub fn rate(self, rate: Rate) { self.rate = Some(rate) }
        /// Default: [`HttpRetry::default`].
        #[must_use]
        pub fn retry(self, retry: HttpRetry) { self.retry = retry }
        /// How long one answer may take; default 30 s.
        #[must_use]
        pub fn timeout(self, timeout: Duration) { self.timeout = timeout }
        /// The largest answer; default 32 MiB.
        #[must_use]
        pub fn max_bytes(self, bytes: usize) { self.max_bytes = bytes }
    }

    /// Checks the URL.
    pub fn check(&self) -> Result<(), HttpError> {
        self.parsed().map(drop)
    }

    pub(crate) fn parsed(&self) -> Result<Url, HttpError> {
        let bad = |why| HttpError::Url { why };
        let url: Url =
            self.url.trim().parse().map_err(|_| bad("it is not a URL such as https://host/path"))?;
        let host = url.host_str().ok_or_else(|| bad("it has no host"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("it has a user or password in it; send them in a header"));
        }
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        let is_here = host == "localhost" || literal.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        match url.scheme() {
            "https" => Ok(url),
            "http" if is_here || self.allows_plain => Ok(url),
            "http" => Err(bad("others can read http to another host; use https, or allow plain http")),
            _ => Err(bad("it does not begin with https")),
        }
    }
}

/// Keeps the query and the headers, which may be secret, out of logs.
impl fmt::Debug for HttpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.split('?').next();
        f.debug_struct("HttpEndpoint").field("url", &url).finish_non_exhaustive()
    }
}

/// Whether a text refers to a secret: `env:NAME` or `file:PATH`.
pub fn is_reference(text: &str) -> bool {
    text.starts_with("env:") || text.starts_with("file:")
}

/// The secret to which a text refers. One line break at the end of a file is ignored.
pub fn secret(reference: &str) -> Result<String, HttpError> {
    if let Some(name) = reference.strip_prefix("env:") {
        // The author may have put "env:" before the secret itself, so only what looks like a name is repeated.
        let is_name = name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        let shown = if is_name { reference } else { "env:…" };
        let bad = |why: &str| HttpError::Secret { reference: shown.to_owned(), why: why.to_owned() };
        if tidemill_engine::environment::is_withheld(name) {
            return Err(bad("a job may not read settings and secrets of Tidemill; use another variable"));
        }
        return env::var(name).map_err(|_| bad("the environment variable is not set"));
    }
    let bad = |why: String| HttpError::Secret { reference: reference.to_owned(), why };
    let path =
        reference.strip_prefix("file:").ok_or_else(|| bad("it is neither env: nor file:".to_owned()))?;
    let text = fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
    let line = text.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    Ok(line.unwrap_or(&text).to_owned())
}

/// Whether a header with this name holds a secret, which must not be in a job file.
pub fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    matches!(&*name, "authorization" | "proxy-authorization" | "cookie")
        || ["token", "secret", "password", "api-key", "apikey"].iter().any(|part| name.contains(part))
}

/// A value as a part of a URL: it cannot end the part in which it is.
pub fn encoded(value: &str) -> String {
    utf8_percent_encode(value, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_safe_addresses_are_called() {
        let is_good = |url: &str| HttpEndpoint::new(url).check().is_ok();

        for url in ["https://h/x", "http://127.0.0.1:1/x", "http://[::1]/", "http://localhost/x"] {
            assert!(is_good(url), "{url}");
        }
        for url in ["", "h/x", "http://h/x", "http://127.0.0.1.evil.example/", "https://u:p@h/", "ftp://h/"] {
            assert!(!is_good(url), "{url}");
        }
        assert!(HttpEndpoint::new("http://h/x").allow_plain().check().is_ok());
    }

    #[test]
    fn nothing_secret_is_shown() {
        let endpoint = HttpEndpoint::new("https://h/x?key=geheim").header("authorization", "geheim");

        assert!(!format!("{endpoint:?}").contains("geheim"));
    }

    #[test]
    fn headers_that_hold_secrets_are_recognised() {
        for name in ["Authorization", "X-Api-Key", "X-Auth-Token", "Cookie"] {
            assert!(is_secret_header(name), "{name}");
        }
        for name in ["Accept", "Accept-Language", "Idempotency-Key"] {
            assert!(!is_secret_header(name), "{name}");
        }
    }

    #[test]
    fn a_value_stays_within_its_part_of_the_url() {
        assert_eq!(encoded("a b&c=d/../e#f"), "a%20b%26c%3Dd%2F..%2Fe%23f");
    }
}
