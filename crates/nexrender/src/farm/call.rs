//! One call to nexrender: bounded in time and size, without redirects; the secret appears in its header only.

use super::{BadFarm, FarmOptions};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Response, Url};
use std::error::Error;
use std::time::Duration;
use tidemill_domain::render::answer::Dialect;

/// The header of the open server.
const SECRET: HeaderName = HeaderName::from_static("nexrender-secret");

/// Answers contain a whole job with its texts, sometimes with the log of its render.
const BODY_BYTES_MAX: usize = 32 << 20;

pub(super) struct Caller {
    client: Client,
    name: String,
    answer_within: Duration,
}

/// No answer, or only a part.
#[derive(Debug)]
pub(super) struct NoAnswer {
    /// Whether nexrender may have received the request.
    pub(super) is_sent: bool,
    pub(super) words: String,
}

impl Caller {
    pub(super) fn new(options: &FarmOptions, name: String) -> Result<Self, BadFarm> {
        // Only the first provider of a process counts; an earlier choice is fine.
        let _chosen_already = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .default_headers(headers(options)?)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(options.connect_within)
            .timeout(options.answer_within)
            .no_proxy()
            // An idle connection that died would look like a lost answer.
            .pool_max_idle_per_host(0)
            .build()
            .map_err(|error| BadFarm::Client { why: error.to_string() })?;
        Ok(Self { client, name, answer_within: options.answer_within })
    }

    /// The status and the body.
    pub(super) async fn call(
        &self,
        method: Method,
        url: Url,
        body: Option<String>,
    ) -> Result<(u16, String), NoAnswer> {
        let mut response = self.send(method, url, body).await?;
        let status = response.status().as_u16();
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.no_answer(&error))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > BODY_BYTES_MAX {
                let words = format!("the answer of {} has more than {BODY_BYTES_MAX} bytes", self.name);
                return Err(NoAnswer { is_sent: true, words });
            }
        }
        Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The status, and whether the body is JSON; it is not read.
    pub(super) async fn head_of(&self, url: Url) -> Result<(u16, bool), NoAnswer> {
        let response = self.send(Method::GET, url, None).await?;
        let kind = response.headers().get(CONTENT_TYPE);
        let is_json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
        Ok((response.status().as_u16(), is_json))
    }

    async fn send(&self, method: Method, url: Url, body: Option<String>) -> Result<Response, NoAnswer> {
        let mut request = self.client.request(method, url);
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        request.send().await.map_err(|error| self.no_answer(&error))
    }

    fn no_answer(&self, error: &reqwest::Error) -> NoAnswer {
        let name = &self.name;
        let mut words = match (error.is_connect(), error.is_timeout()) {
            (true, _) => format!("no connection to {name} came about"),
            (false, true) => format!("{name} did not answer within {:?}", self.answer_within),
            (false, false) => format!("the connection to {name} broke"),
        };
        // The error's own text contains the whole URL; its deepest source says why.
        if let Some(cause) = std::iter::successors(error.source(), |cause| (*cause).source()).last() {
            words.push_str(&format!(": {cause}"));
        }
        NoAnswer { is_sent: !error.is_connect(), words }
    }
}

fn headers(options: &FarmOptions) -> Result<HeaderMap, BadFarm> {
    let mut headers = HeaderMap::new();
    let Some(secret) = &options.secret else { return Ok(headers) };
    let is_visible = secret.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    let value = |text: &str| {
        let mut value = HeaderValue::from_str(text).map_err(|_| BadFarm::Secret)?;
        value.set_sensitive(true);
        Ok(value)
    };
    if !is_visible {
        return Err(BadFarm::Secret);
    }
    headers.insert(SECRET, value(secret)?);
    if options.dialect == Dialect::Cloud {
        headers.insert(AUTHORIZATION, value(&format!("Bearer {secret}"))?);
    }
    Ok(headers)
}
