//! One request: bounded in time and size, at a rate, without redirects, and tried again if that may help.

use crate::rate::Pace;
use crate::{HttpEndpoint, HttpError};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use reqwest::{Client, Method, Response, Url};
use std::error::Error;
use std::time::Duration;
use tidemill_domain::backoff::Backoff;
use tidemill_domain::time::{Clock, Timestamp};
use tidemill_engine::SystemClock;
use tidemill_engine::clock::jitter_unit;

const CONNECT_WITHIN: Duration = Duration::from_secs(10);

const BACKOFF_CAP: Duration = Duration::from_secs(60);

/// The longest `Retry-After` that is waited for, and the longest wait for one request in all.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// How much of an answer to a request with a body is read, so that the connection can be used again.
const IGNORED_MAX: usize = 64 * 1024;

/// How much of a refusal is kept with its error.
const SAID_CHARS: usize = 200;

pub(crate) struct Caller {
    client: Client,
    endpoint: HttpEndpoint,
    pace: Option<Pace>,
    pub(crate) url: Url,
}

pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// The body, and the header with the key by which a repetition is recognised.
    pub(crate) content: Option<(Vec<u8>, (HeaderName, String))>,
}

pub(crate) struct Answer {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// A failed attempt. `again` is the shortest pause before the next one; none if that would not help.
pub(crate) struct Failed {
    pub(crate) error: HttpError,
    pub(crate) again: Option<Duration>,
}

impl From<HttpError> for Failed {
    fn from(error: HttpError) -> Self {
        Self { error, again: None }
    }
}

impl Caller {
    pub(crate) fn new(endpoint: &HttpEndpoint) -> Result<Self, HttpError> {
        let url = endpoint.parsed()?;
        // Only the first provider of a process counts; an earlier choice is fine.
        let _chosen_already = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .default_headers(headers(endpoint)?)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_WITHIN)
            .timeout(endpoint.timeout)
            .no_proxy()
            .build()
            .map_err(|error| HttpError::Client { why: error.to_string() })?;
        let pace = endpoint.rate.map(Pace::new);
        Ok(Self { client, endpoint: endpoint.clone(), pace, url })
    }

    /// Sends the request until `read` accepts an answer, or another attempt would not help.
    pub(crate) async fn call<T>(
        &mut self,
        request: &Request,
        read: impl Fn(Answer, u32) -> Result<T, Failed>,
    ) -> Result<T, HttpError> {
        let backoff = Backoff::exponential(self.endpoint.retry.backoff, BACKOFF_CAP);
        let (mut attempt, mut waited) = (1, Duration::ZERO);
        loop {
            if let Some(pace) = &mut self.pace {
                pace.pass().await;
            }
            let failed = match self.once(request, attempt).await.and_then(|answer| read(answer, attempt)) {
                Ok(read) => return Ok(read),
                Err(failed) => failed,
            };
            let Some(least) = failed.again.filter(|_| attempt < self.endpoint.retry.attempts) else {
                return Err(failed.error);
            };
            let pause = backoff.delay(attempt, jitter_unit()).max(least);
            waited += pause;
            if waited > WAIT_MAX {
                return Err(failed.error);
            }
            // Without the error, which may quote the answer.
            tracing::warn!("attempt {attempt} at {} failed; trying again in {pause:?}", target(&request.url));
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    async fn once(&self, request: &Request, attempts: u32) -> Result<Answer, Failed> {
        let target = target(&request.url);
        let no_answer = |error: reqwest::Error| {
            let error = HttpError::NoAnswer { target: target.clone(), attempts, why: self.cause(&error) };
            Failed { error, again: Some(Duration::ZERO) }
        };
        let mut call = self.client.request(request.method.clone(), request.url.clone());
        if let Some((body, (name, key))) = &request.content {
            call = call.header(CONTENT_TYPE, "application/json").header(name, key).body(body.clone());
        }
        let mut response = call.send().await.map_err(no_answer)?;
        let status = response.status();
        if !status.is_success() {
            return Err(self.unsuccessful(response, attempts).await);
        }
        let mut body = Vec::new();
        // What was sent has arrived, whatever becomes of the rest of the answer.
        if request.content.is_some() {
            while body.len() < IGNORED_MAX
                && let Ok(Some(part)) = response.chunk().await
            {
                body.extend_from_slice(&part);
            }
            return Ok(Answer { headers: HeaderMap::new(), body: Vec::new() });
        }
        while let Some(part) = response.chunk().await.map_err(no_answer)? {
            body.extend_from_slice(&part);
            if body.len() > self.endpoint.max_bytes {
                return Err(HttpError::TooLarge { target, max: self.endpoint.max_bytes }.into());
            }
        }
        Ok(Answer { headers: std::mem::take(response.headers_mut()), body })
    }

    async fn unsuccessful(&self, mut response: Response, attempts: u32) -> Failed {
        let (target, status) = (target(response.url()), response.status().as_u16());
        let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let after = after.and_then(|text| pause(text, SystemClock::new().now())).unwrap_or_default();
        let mut text = Vec::new();
        while text.len() < 4 * SAID_CHARS
            && let Ok(Some(part)) = response.chunk().await
        {
            text.extend_from_slice(&part);
        }
        let said = self.without_secrets(&String::from_utf8_lossy(&text));
        let said = said.chars().take(SAID_CHARS).collect::<String>();
        let said = match said.split_whitespace().collect::<Vec<_>>().join(" ") {
            empty if empty.is_empty() => empty,
            words => format!(" and said {words:?}"),
        };
        if !self.endpoint.retry.statuses.contains(&status) {
            return HttpError::Refused { target, status, said }.into();
        }
        if after > WAIT_MAX {
            return HttpError::TooLong { target, status, after, longest: WAIT_MAX }.into();
        }
        Failed { error: HttpError::Busy { target, attempts, status, said }, again: Some(after) }
    }

    /// A service may repeat the credentials that it refuses.
    fn without_secrets(&self, text: &str) -> String {
        let values = self.endpoint.headers.iter().map(|(_, value)| value.as_str());
        // `Bearer TOKEN` and the token alone.
        let secrets = values.flat_map(|value| [value, value.rsplit(' ').next().unwrap_or(value)]);
        secrets
            .filter(|secret| secret.len() > 3)
            .fold(text.to_owned(), |text, secret| text.replace(secret, "…"))
    }

    /// The error's own text contains the whole URL; its deepest source says why.
    fn cause(&self, error: &reqwest::Error) -> String {
        if error.is_timeout() {
            return format!("it took longer than {:?}", self.endpoint.timeout);
        }
        let deepest = std::iter::successors(error.source(), |cause| (*cause).source()).last();
        deepest.map_or_else(|| "the connection broke".to_owned(), ToString::to_string)
    }
}

/// An address for messages.
pub(crate) fn target(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

/// The value of `Retry-After`: seconds, or a date.
fn pause(text: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text.trim()).ok()?;
    Some(Timestamp::from_micros(date.timestamp().as_microsecond()).since(now))
}

fn headers(endpoint: &HttpEndpoint) -> Result<HeaderMap, HttpError> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("tidemill/", env!("CARGO_PKG_VERSION"))));
    for (name, value) in &endpoint.headers {
        let bad = |why: &str| HttpError::Header { name: name.clone(), why: why.to_owned() };
        let known = HeaderName::try_from(name).map_err(|_| bad("this is not a valid header name"))?;
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| bad("its value has characters that a header cannot have"))?;
        value.set_sensitive(true);
        headers.insert(known, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_a_number_of_seconds_or_ends_at_a_date() {
        let now: Timestamp = "2026-11-15T02:00:00Z".parse().unwrap();

        assert_eq!(pause(" 120 ", now), Some(Duration::from_secs(120)));
        assert_eq!(pause("Sun, 15 Nov 2026 02:01:30 GMT", now), Some(Duration::from_secs(90)));
        assert_eq!(pause("Sun, 15 Nov 2026 01:00:00 GMT", now), Some(Duration::ZERO));
        assert_eq!(pause("soon", now), None);
    }
}
