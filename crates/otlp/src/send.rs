//! Requests to the receiver, with one line in the log when it fails and one when it is back.

use crate::{OtlpError, TIMEOUT};
use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use reqwest::{Client, Url};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tidemill_domain::error_chain::ErrorChain;
use tokio::runtime::Handle;

const CONNECT_WITHIN: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub(crate) struct Sender(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Made for the first request, because most commands send nothing. None if it cannot be made.
    client: OnceLock<Option<Client>>,
    runtime: Handle,
    /// The part of the URL that is no secret.
    receiver: String,
    is_down: AtomicBool,
}

impl Sender {
    pub(crate) fn new(endpoint: &str, runtime: Handle) -> Result<Self, OtlpError> {
        let url: Url = endpoint.parse().map_err(|_| OtlpError::Endpoint)?;
        let host = url.host_str().filter(|_| matches!(url.scheme(), "http" | "https"));
        let host = host.ok_or(OtlpError::Endpoint)?;
        let receiver = match url.port() {
            Some(port) => format!("{}://{host}:{port}", url.scheme()),
            None => format!("{}://{host}", url.scheme()),
        };
        let (client, is_down) = (OnceLock::new(), AtomicBool::new(false));
        Ok(Self(Arc::new(Inner { client, runtime, receiver, is_down })))
    }

    /// Sends a body of protobuf. A failure is logged.
    pub(crate) async fn post(&self, url: &str, headers: &HashMap<String, String>, body: Vec<u8>) {
        let mut request = Request::post(url).header("content-type", "application/x-protobuf");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        match request.body(Bytes::from(body)) {
            Ok(request) => drop(self.send(request).await),
            Err(error) => self.failed(&error.to_string()),
        }
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = self.exchange(request).await;
        match &sent {
            Ok(answer) if answer.status().is_success() => self.answered(),
            Ok(answer) => self.failed(&format!("it answered {}", answer.status().as_u16())),
            Err(error) => self.failed(&ErrorChain(error.as_ref()).to_string()),
        }
        sent
    }

    /// The body of the answer is not read: it would only tell how many records the receiver did not like.
    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.0.client.get_or_init(client).as_ref().ok_or("no TLS client could be made")?;
        let (parts, body) = request.into_parts();
        let sending = client.request(parts.method, parts.uri.to_string()).headers(parts.headers).body(body);
        let answer = sending.send().await.map_err(reqwest::Error::without_url)?;
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = answer.status();
        *response.headers_mut() = answer.headers().clone();
        Ok(response)
    }

    fn failed(&self, why: &str) {
        if !self.0.is_down.swap(true, Ordering::Relaxed) {
            let receiver = &self.0.receiver;
            tracing::warn!("traces, metrics and logs cannot be sent to {receiver} and are dropped: {why}");
        }
    }

    fn answered(&self) {
        if self.0.is_down.swap(false, Ordering::Relaxed) {
            tracing::warn!("traces, metrics and logs are sent to {} again", self.0.receiver);
        }
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
        self.0.runtime.spawn(async move { sender.send(request).await }).await?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver(endpoint: &str) -> Option<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Sender::new(endpoint, runtime.handle().clone()).ok().map(|sender| sender.0.receiver.clone())
    }

    #[test]
    fn the_log_has_nothing_of_the_url_that_may_be_secret() {
        assert_eq!(
            receiver("https://me:secret@otel.example:4318/secret"),
            Some("https://otel.example:4318".into())
        );
        assert_eq!(receiver("http://[::1]/x?key=secret"), Some("http://[::1]".into()));
    }

    #[test]
    fn what_is_no_url_of_the_web_is_refused() {
        for bad in ["", "otel.example:4318", "file:///etc/passwd", "grpc://otel.example"] {
            assert_eq!(receiver(bad), None, "{bad}");
        }
    }
}
