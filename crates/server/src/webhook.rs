//! The alert channel that calls a URL: https only, no redirects, and no address of a private network unless the
//! configuration allows it. It calls the very IP address that it checked.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::time::Clock;
use tidemill_engine::alert::channel::{Channel, Delivering, DeliveryError};
use tidemill_engine::alert::message::Message;
use tidemill_engine::alert::signature::{HEADER, signature};
use tidemill_engine::alert::sns::notification;

const TIMEOUT: Duration = Duration::from_secs(5);

pub struct Webhook {
    name: String,
    url: reqwest::Url,
    secret: Option<String>,
    allows_private: bool,
    format: Format,
    clock: Arc<dyn Clock>,
}

tidemill_domain::words! {
    #[derive(Default)]
    pub enum Format {
        /// The notification as it is stored.
        #[default]
        Tidemill = "tidemill",
        /// As Amazon SNS posts a CloudWatch alarm; the topic has the name of the webhook.
        Sns = "sns",
        /// Only the summary, as chat programs take it: `{"text": "…"}`.
        Slack = "slack",
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the webhook {name} cannot be called: {why}")]
pub struct BadWebhook {
    name: String,
    why: &'static str,
}

impl Webhook {
    /// `secret` signs the body. `allows_private` permits addresses of this host and of private networks, and plain HTTP.
    pub fn new(
        name: &str,
        url: &str,
        secret: Option<String>,
        allows_private: bool,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BadWebhook> {
        let bad = |why| BadWebhook { name: name.to_owned(), why };
        let url: reqwest::Url = url.parse().map_err(|_| bad("its URL is invalid"))?;
        if url.host_str().is_none() {
            return Err(bad("its URL has no host"));
        }
        match url.scheme() {
            "https" => {}
            "http" if allows_private => {}
            "http" => return Err(bad("its URL is not https, and allow_private is not set")),
            _ => return Err(bad("its URL is not https")),
        }
        // Only the first provider of a process counts.
        let _chosen_already = rustls::crypto::ring::default_provider().install_default();
        Ok(Self { name: name.to_owned(), url, secret, allows_private, format: Format::default(), clock })
    }

    pub fn in_format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    async fn call(&self, message: &Message) -> Result<(), DeliveryError> {
        let host = self.url.host_str().unwrap_or_default().to_owned();
        let address = self.resolve(&host).await?;
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(TIMEOUT)
            .no_proxy()
            .resolve(&host, address)
            .build()
            .map_err(|_| DeliveryError::temporary("no TLS client could be made"))?;
        let mut request =
            client.post(self.url.clone()).header("idempotency-key", format!("alert-{}", message.id));
        let body = match self.format {
            Format::Tidemill | Format::Slack => {
                request = request.header("content-type", "application/json");
                if self.format == Format::Slack { slack(message) } else { message.body.clone() }
            }
            Format::Sns => {
                let sent = notification(message, &self.name);
                request = request
                    .header("content-type", "text/plain; charset=UTF-8")
                    .header("x-amz-sns-message-type", "Notification")
                    .header("x-amz-sns-message-id", sent.message_id)
                    .header("x-amz-sns-topic-arn", sent.topic_arn);
                sent.body
            }
        };
        if let Some(secret) = &self.secret {
            request = request.header(HEADER, signature(secret.as_bytes(), self.clock.now(), &body));
        }
        match request.body(body).send().await {
            Ok(answer) if answer.status().is_success() => Ok(()),
            Ok(answer) => Err(refused(answer.status())),
            // The text of the error would quote the URL, which may contain a secret.
            Err(error) if error.is_timeout() => Err(DeliveryError::temporary("no answer within 5 s")),
            Err(error) if error.is_connect() => Err(DeliveryError::temporary("cannot connect")),
            Err(_) => Err(DeliveryError::temporary("the call failed")),
        }
    }

    /// The first allowed address of the host.
    async fn resolve(&self, host: &str) -> Result<SocketAddr, DeliveryError> {
        let port = self.url.port_or_known_default().unwrap_or(443);
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        let found = tokio::net::lookup_host((literal, port)).await;
        let mut found = found.map_err(|_| DeliveryError::temporary("the host name does not resolve"))?;
        let private = "the host is in a private network, and allow_private is not set";
        found
            .find(|address| self.allows_private || is_public(address.ip()))
            .ok_or_else(|| DeliveryError::permanent(private))
    }
}

/// Slack takes these three characters for its own marks.
fn slack(message: &Message) -> String {
    let text = &message.announcement.summary;
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    serde_json::json!({ "text": text }).to_string()
}

/// A busy or broken receiver may recover; any other refusal is permanent.
fn refused(status: reqwest::StatusCode) -> DeliveryError {
    let why = format!("the receiver answered {}", status.as_u16());
    let may_recover = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
    if may_recover { DeliveryError::temporary(why) } else { DeliveryError::permanent(why) }
}

/// Whether an address is public: not this host, not a private network, not a cloud metadata service.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    // IETF protocols and 6to4 relays.
    let is_special = matches!([a, b, c], [192, 0, 0] | [192, 88, 99]);
    let is_for_benchmarks = a == 198 && (18..20).contains(&b);
    !(a == 0
        || a >= 240
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || is_shared
        || is_special
        || is_for_benchmarks)
}

/// Only 2000::/3 is public. Other addresses are this host, private networks, or contain an IPv4 address (`::a.b.c.d`,
/// NAT64).
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    let is_given_out = a & 0xe000 == 0x2000;
    // Teredo and other IETF protocols.
    let is_special = a == 0x2001 && b < 0x0200;
    let is_documentation = (a == 0x2001 && b == 0x0db8) || (a == 0x3fff && b < 0x1000);
    // Contains an arbitrary IPv4 address.
    let is_6to4 = a == 0x2002;
    is_given_out && !(is_special || is_documentation || is_6to4)
}

impl Channel for Webhook {
    fn name(&self) -> &str {
        &self.name
    }

    fn deliver<'a>(&'a self, message: &'a Message) -> Delivering<'a> {
        Box::pin(self.call(message))
    }
}

/// Keeps the URL and the secret out of logs.
impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Webhook({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::time::{FakeClock, Timestamp};

    fn webhook(url: &str, allows_private: bool) -> Result<Webhook, BadWebhook> {
        Webhook::new(
            "ops",
            url,
            Some("geheim".into()),
            allows_private,
            Arc::new(FakeClock::at(Timestamp::EPOCH)),
        )
    }

    #[test]
    fn only_public_addresses_are_public() {
        let private = "127.0.0.1 10.1.2.3 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 100.64.0.1 100.127.255.255 0.0.0.0 0.1.2.3 \
             192.0.0.1 192.0.0.170 192.0.2.1 192.88.99.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 \
             240.0.0.1 255.255.255.255 :: ::1 ::10.0.0.1 ::127.0.0.1 ::8.8.8.8 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:0:127.0.0.1 \
             64:ff9b::a00:1 64:ff9b::7f00:1 64:ff9b:1::a00:1 100::1 2001::1 2001:0:a00:1:: 2001:10::1 2001:db8::1 2002:a00:1:: \
             2002:7f00:1:: 3fff::1 5f00::1 fc00::1 fd12::1 fe80::1 fec0::1 feff::1 ff02::1 ff0e::1";
        for address in private.split_whitespace() {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        let public = "93.184.216.34 8.8.8.8 100.63.255.255 100.128.0.1 172.32.0.1 192.0.1.1 192.0.78.9 192.1.0.1 198.17.255.255 198.20.0.1 \
             223.255.255.255 2606:2800:220:1::1 2001:4860:4860::8888 2a00:1450::1 2620:fe::fe 3ffe:ffff::1 ::ffff:8.8.8.8";
        for address in public.split_whitespace() {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn urls_that_may_not_be_called_are_refused_at_the_start() {
        assert!(webhook("https://hooks.example/x", false).is_ok());
        assert!(webhook("http://127.0.0.1:1/x", true).is_ok());
        for url in ["http://hooks.example/x", "ftp://x", "file:///etc/passwd", "nonsense", "data:,x"] {
            let error = webhook(url, false).unwrap_err();
            assert!(!error.to_string().contains("geheim"), "{error}");
        }
    }

    #[test]
    fn nothing_secret_is_shown() {
        let shown = format!("{:?}", webhook("https://hooks.example/token-in-path", false).unwrap());

        assert!(!shown.contains("geheim") && !shown.contains("token-in-path"), "{shown}");
    }

    #[tokio::test]
    async fn a_host_inside_the_own_network_is_not_called() {
        for url in [
            "https://127.0.0.1/x",
            "https://[::1]/x",
            "https://[::7f00:1]/x",
            "https://localhost/x",
            "https://2130706433/x",
            "https://169.254.169.254/x",
        ] {
            let webhook = webhook(url, false).unwrap();
            let host = webhook.url.host_str().unwrap().to_owned();
            let error = webhook.resolve(&host).await.unwrap_err();
            assert!(!error.retry, "{url}: {error}");
        }
    }

    #[test]
    fn a_receiver_that_may_recover_is_asked_again() {
        let retry = |status: u16| refused(reqwest::StatusCode::from_u16(status).unwrap()).retry;

        assert!(retry(500) && retry(503) && retry(429) && retry(408));
        assert!(!retry(400) && !retry(401) && !retry(404) && !retry(301));
    }
}
