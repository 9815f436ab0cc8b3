//! Requests to the receiver, with one line in the log when they begin to fail and one when they succeed again.

use crate::{OtlpError, TIMEOUT};
use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use reqwest::header::{self, HeaderMap};
use reqwest::{Client, StatusCode, Url};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tidemill_domain::error_chain::ErrorChain;
use tokio::runtime::Handle;

const CONNECT_WITHIN: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub(crate) struct Receiver(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Made for the first request, because most commands send nothing. None if it cannot be made.
    client: OnceLock<Option<Client>>,
    runtime: Handle,
    /// The URL without a slash at its end.
    endpoint: String,
    /// The part of the URL that is no secret.
    name: String,
    headers: HeaderMap,
    is_gone: AtomicBool,
}

impl Receiver {
    pub(crate) fn new(endpoint: &str, headers: HeaderMap, runtime: Handle) -> Result<Self, OtlpError> {
        let url: Url = endpoint.parse().map_err(|_| OtlpError::Endpoint)?;
        let is_base = url.query().is_none() && url.fragment().is_none();
        let host = url.host_str().filter(|_| is_base && matches!(url.scheme(), "http" | "https"));
        let host = host.ok_or(OtlpError::Endpoint)?;
        let name = match url.port() {
            Some(port) => format!("{}://{host}:{port}", url.scheme()),
            None => format!("{}://{host}", url.scheme()),
        };
        let endpoint = url.as_str().trim_end_matches('/').to_owned();
        let (client, is_gone) = (OnceLock::new(), AtomicBool::new(false));
        Ok(Self(Arc::new(Shared { client, runtime, endpoint, name, headers, is_gone })))
    }

    /// For `traces`, `metrics` or `logs`.
    pub(crate) fn sender(&self, signal: &'static str) -> Sender {
        Sender { signal, is_refused: Arc::default(), receiver: Arc::clone(&self.0) }
    }
}

/// Sends one signal. A receiver may take one and refuse another.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    signal: &'static str,
    is_refused: Arc<AtomicBool>,
    receiver: Arc<Shared>,
}

impl Sender {
    pub(crate) fn url(&self) -> String {
        format!("{}/v1/{}", self.receiver.endpoint, self.signal)
    }

    /// Sends a body of protobuf. A failure is logged.
    pub(crate) async fn post(&self, body: Vec<u8>) {
        let request = Request::post(self.url()).header("content-type", "application/x-protobuf");
        match request.body(Bytes::from(body)) {
            Ok(request) => drop(self.send(request).await),
            Err(error) => self.log(Err(error.to_string())),
        }
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = self.exchange(request).await;
        let answer = sent.as_ref().map(Response::status);
        self.log(answer.map_err(|error| ErrorChain(error.as_ref()).to_string()));
        sent
    }

    /// The body of the answer is not read: it would only tell how many records the receiver did not like.
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client =
            self.receiver.client.get_or_init(client).as_ref().ok_or("no TLS client could be made")?;
        let (parts, body) = request.into_parts();
        // The SDK also adds what its own variables say, which may be meant for another receiver.
        let mut headers = self.receiver.headers.clone();
        for name in [header::CONTENT_ENCODING, header::CONTENT_TYPE, header::USER_AGENT] {
            if let Some(value) = parts.headers.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        let sending = client.request(parts.method, parts.uri.to_string()).headers(headers).body(body);
        let answer = sending.send().await.map_err(reqwest::Error::without_url)?;
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = answer.status();
        *response.headers_mut() = answer.headers().clone();
        Ok(response)
    }

    fn log(&self, answer: Result<StatusCode, String>) {
        for line in self.news(answer) {
            tracing::warn!("{line}");
        }
    }

    /// What the log says about an answer, or about none: something only if it was different before.
    fn news(&self, answer: Result<StatusCode, String>) -> Vec<String> {
        let (signal, receiver) = (self.signal, &self.receiver.name);
        let was_gone = self.receiver.is_gone.swap(answer.is_err(), Ordering::Relaxed);
        let status = match answer {
            Ok(status) => status,
            Err(_) if was_gone => return Vec::new(),
            Err(why) => {
                let what = "traces, metrics and logs cannot be sent to";
                return vec![format!("{what} {receiver} and are dropped: {why}")];
            }
        };
        let mut lines = Vec::new();
        if was_gone {
            lines.push(format!("traces, metrics and logs are sent to {receiver} again"));
        }
        let is_refused = !status.is_success();
        match (self.is_refused.swap(is_refused, Ordering::Relaxed), is_refused) {
            (false, true) => {
                let status = status.as_u16();
                lines.push(format!("{receiver} refuses {signal}, which are dropped: it answered {status}"));
            }
            (true, false) => lines.push(format!("{receiver} takes {signal} again")),
            _ => {}
        }
        lines
    }
}

fn client() -> Option<Client> {
    // Only the first provider of a process counts; an earlier choice is fine.
    let _chosen_already = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_WITHIN)
        .timeout(TIMEOUT)
        .no_proxy()
        .build()
        .ok()
}

#[async_trait]
impl HttpClient for Sender {
    /// On the runtime, because the threads of the SDK have none.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sender = self.clone();
        self.receiver.runtime.spawn(async move { sender.send(request).await }).await?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver(endpoint: &str) -> Option<Receiver> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Receiver::new(endpoint, HeaderMap::new(), runtime.handle().clone()).ok()
    }

    #[test]
    fn the_log_has_nothing_of_the_url_that_may_be_secret() {
        let name = |endpoint: &str| receiver(endpoint).map(|receiver| receiver.0.name.clone());

        assert_eq!(
            name("https://me:secret@otel.example:4318/secret"),
            Some("https://otel.example:4318".into())
        );
        assert_eq!(name("http://[::1]/secret"), Some("http://[::1]".into()));
    }

    #[test]
    fn the_signal_is_added_to_the_url() {
        let url = |endpoint: &str| receiver(endpoint).unwrap().sender("logs").url();

        assert_eq!(url("http://otel:4318"), "http://otel:4318/v1/logs");
        // The SDK would show the whole URL if it could not read it.
        assert_eq!(url("http://me:secret@otel/a b/"), "http://me:secret@otel/a%20b/v1/logs");
    }

    #[test]
    fn what_is_no_url_of_the_web_is_refused() {
        for bad in [
            "",
            "otel.example:4318",
            "file:///etc/passwd",
            "grpc://otel.example",
            "http://otel.example/?key=secret",
            "http://otel.example/#traces",
        ] {
            assert!(receiver(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn an_outage_is_told_once_for_all_signals_and_a_refusal_once_for_its_own() {
        let receiver = receiver("http://otel").unwrap();
        let (traces, logs) = (receiver.sender("traces"), receiver.sender("logs"));
        let gone = || Err("no answer".to_owned());
        let told = |sender: &Sender, answer| sender.news(answer).join("; ");

        let begins = "traces, metrics and logs cannot be sent to http://otel and are dropped: no answer";
        assert_eq!(told(&traces, gone()), begins);
        assert_eq!(told(&logs, gone()), "");
        let ends = "traces, metrics and logs are sent to http://otel again";
        assert_eq!(told(&traces, Ok(StatusCode::OK)), ends);
        let refuses = "http://otel refuses logs, which are dropped: it answered 404";
        assert_eq!(told(&logs, Ok(StatusCode::NOT_FOUND)), refuses);
        for _ in 0..2 {
            assert_eq!(told(&traces, Ok(StatusCode::OK)), "");
            assert_eq!(told(&logs, Ok(StatusCode::NOT_FOUND)), "");
        }
        assert_eq!(told(&logs, Ok(StatusCode::OK)), "http://otel takes logs again");
    }
}
