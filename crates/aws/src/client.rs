//! One call of a service: signed, bounded in time and size, without redirects.

use crate::credentials::{Credentials, Environment, Keys};
use crate::error::{AwsError, is_expired};
use crate::signature::{Scope, SignedParts, authorization};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Client, Method, Response, Url};
use serde_json::Value;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::error_chain::ErrorChain;
use tidemill_domain::time::{Clock, Timestamp};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(15);

/// The largest answer that is read.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// How much of a refusal is kept with its error.
const SAID_CHARS: usize = 200;

pub(crate) const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";

/// Characters of a form that stay as they are.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A service, by its names in signatures and host names and in variables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Service {
    name: &'static str,
    /// The end of `AWS_ENDPOINT_URL_…`.
    variable: &'static str,
}

pub const SNS: Service = Service { name: "sns", variable: "SNS" };
pub const EMR: Service = Service { name: "elasticmapreduce", variable: "EMR" };
pub const EMR_SERVERLESS: Service = Service { name: "emr-serverless", variable: "EMR_SERVERLESS" };

/// A client of one service in one region.
pub struct AwsClient {
    http: Client,
    service: Service,
    region: String,
    endpoint: Url,
    credentials: Credentials,
    clock: Arc<dyn Clock>,
}

/// A request, without what every request has.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    pub method: Method,
    pub path: &'a str,
    pub content_type: &'static str,
    /// The operation of a service that is named by a header.
    pub target: Option<&'a str>,
    pub body: String,
}

impl AwsClient {
    /// Without a region, that of the variables. Without an endpoint, that of the variables, or the one of AWS. Calls nothing
    /// yet.
    pub fn new(
        service: Service,
        region: Option<&str>,
        endpoint: Option<&str>,
        environment: Environment,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, AwsError> {
        let region = region.or_else(|| environment.region()).ok_or(AwsError::NoRegion)?.to_owned();
        // It becomes a part of the host name.
        if region.is_empty() || !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(AwsError::BadRegion { region });
        }
        let of_service = format!("AWS_ENDPOINT_URL_{}", service.variable);
        let endpoint = endpoint
            .or_else(|| environment.get(&of_service))
            .or_else(|| environment.get("AWS_ENDPOINT_URL"))
            .map_or_else(|| usual_endpoint(service.name, &region), str::to_owned);
        let endpoint = checked(&endpoint, &environment).map_err(|why| {
            // Before an @ may be a password.
            let url = endpoint.rsplit('@').next().unwrap_or_default().to_owned();
            AwsError::Endpoint { url, why }
        })?;
        // Only the first provider of a process counts; an earlier choice is fine.
        let _chosen_already = rustls::crypto::ring::default_provider().install_default();
        let http = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_WITHIN)
            .timeout(TIMEOUT)
            .no_proxy()
            .user_agent(concat!("tidemill/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| AwsError::Client { why: error.to_string() })?;
        let credentials = Credentials::new(environment, &region);
        Ok(Self { http, service, region, endpoint, credentials, clock })
    }

    pub fn region(&self) -> &str {
        &self.region
    }

    /// The text of a successful answer.
    pub async fn call(&self, call: &Call<'_>) -> Result<String, AwsError> {
        let now = self.clock.now();
        let keys = self.credentials.keys(&self.http, now).await?;
        let url = self.endpoint.join(call.path).map_err(|_| AwsError::Endpoint {
            url: format!("{}{}", self.endpoint, call.path),
            why: "it is not a URL",
        })?;
        let target = format!("{}{}", url.origin().ascii_serialization(), url.path());
        let no_answer = |error: reqwest::Error| AwsError::NoAnswer {
            target: target.clone(),
            why: ErrorChain(&error.without_url()).to_string(),
        };
        let headers = self.headers(call, &url, &keys, now);
        let request = self.http.request(call.method.clone(), url).headers(headers).body(call.body.clone());
        let mut response = request.send().await.map_err(no_answer)?;
        let mut body = Vec::new();
        while let Some(part) = response.chunk().await.map_err(no_answer)? {
            body.extend_from_slice(&part);
            if body.len() > ANSWER_BYTES_MAX {
                return Err(AwsError::Answer { target, what: "end" });
            }
        }
        let text = String::from_utf8_lossy(&body).into_owned();
        if response.status().is_success() {
            return Ok(text);
        }
        let refused = refused(target, &response, &text, &keys);
        if matches!(&refused, AwsError::Refused { code, .. } if is_expired(code)) {
            self.credentials.forget().await;
        }
        Err(refused)
    }

    /// The answer as JSON; null if it is empty.
    pub async fn json(&self, call: &Call<'_>) -> Result<Value, AwsError> {
        let text = self.call(call).await?;
        if text.trim().is_empty() {
            return Ok(Value::Null);
        }
        let target = format!("{}{}", self.endpoint.origin().ascii_serialization(), call.path);
        serde_json::from_str(&text).map_err(|_| AwsError::Answer { target, what: "JSON" })
    }

    /// All that is signed, and the signature.
    fn headers(&self, call: &Call<'_>, url: &Url, keys: &Keys, now: Timestamp) -> HeaderMap {
        let date = date(now);
        let host = url.host_str().unwrap_or_default();
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let mut signed = vec![("content-type", call.content_type.to_owned()), ("host", host)];
        signed.push(("x-amz-date", date.clone()));
        signed.extend(keys.token.clone().map(|token| ("x-amz-security-token", token)));
        signed.extend(call.target.map(|target| ("x-amz-target", target.to_owned())));
        let scope = Scope {
            day: date.get(..8).unwrap_or_default(),
            region: &self.region,
            service: self.service.name,
        };
        let parts = SignedParts {
            method: call.method.as_str(),
            path: url.path(),
            query: url.query().unwrap_or_default(),
            headers: &signed,
            body: call.body.as_bytes(),
        };
        let authorization = authorization(&keys.id, &keys.secret, &date, &scope, &parts);
        let mut headers = HeaderMap::new();
        for (name, value) in
            signed.iter().map(|(name, value)| (*name, value)).chain([("authorization", &authorization)])
        {
            // A key with characters that no header can have is refused by the service.
            let Ok(mut value) = HeaderValue::from_str(value) else { continue };
            value.set_sensitive(matches!(name, "authorization" | "x-amz-security-token"));
            headers.insert(name, value);
        }
        headers
    }
}

/// Without the credentials.
impl fmt::Debug for AwsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AwsClient({} in {} at {})", self.service.name, self.region, self.endpoint)
    }
}

/// A call of a service that takes forms.
pub fn form(fields: &[(&str, &str)]) -> Call<'static> {
    // As forms have it.
    let body = encoded(fields).replace("%20", "+");
    Call { method: Method::POST, path: "/", content_type: FORM, target: None, body }
}

/// Fields of a form or a query.
pub(crate) fn encoded(fields: &[(&str, &str)]) -> String {
    let word = |text| utf8_percent_encode(text, ENCODED);
    fields.iter().map(|(name, value)| format!("{}={}", word(name), word(value))).collect::<Vec<_>>().join("&")
}

/// The address of a service of AWS in a region.
pub(crate) fn usual_endpoint(service: &str, region: &str) -> String {
    let suffix = if region.starts_with("cn-") { ".cn" } else { "" };
    format!("https://{service}.{region}.amazonaws.com{suffix}")
}

/// The text of the first element with this name.
pub(crate) fn between<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}

/// An endpoint. A session token must not be readable on the way.
pub(crate) fn checked(text: &str, environment: &Environment) -> Result<Url, &'static str> {
    let allows_plain = environment.get("AWS_ALLOW_HTTP") == Some("true");
    let url: Url = text.parse().map_err(|_| "it is not a URL such as https://host")?;
    let host = url.host_str().ok_or("it has no host")?;
    let has_login = !url.username().is_empty() || url.password().is_some();
    if has_login || url.path() != "/" || url.query().is_some() {
        return Err("it has more than a host and a port");
    }
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    let is_here = host == "localhost" || literal.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_here || allows_plain => Ok(url),
        "http" => Err("others can read http to another host; use https, or set AWS_ALLOW_HTTP=true"),
        _ => Err("it does not begin with https"),
    }
}

/// Such as `20261115T001319Z`.
fn date(now: Timestamp) -> String {
    let seconds: String = now.to_string().chars().take(19).filter(char::is_ascii_alphanumeric).collect();
    format!("{seconds}Z")
}

/// Each protocol of AWS has its own place for the code and the text of an error.
fn refused(target: String, response: &Response, text: &str, keys: &Keys) -> AwsError {
    let header = response.headers().get("x-amzn-errortype").and_then(|value| value.to_str().ok());
    let fields: Value = serde_json::from_str(text).unwrap_or_default();
    let code = header.or_else(|| fields["__type"].as_str()).or_else(|| between(text, "Code"));
    // `namespace#Code` and `Code:http://…` are the code.
    let code = code.unwrap_or_default().rsplit('#').next().unwrap_or_default();
    let code = code.split(':').next().unwrap_or_default().chars().take(80).collect::<String>();
    let said = fields["message"].as_str().or_else(|| fields["Message"].as_str());
    let said = said.or_else(|| between(text, "Message")).unwrap_or_default();
    let hidden = [Some(&keys.secret), keys.token.as_ref()].into_iter().flatten();
    let said = hidden.fold(said.to_owned(), |said, secret| said.replace(secret.as_str(), "…"));
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = match said.chars().take(SAID_CHARS).collect::<String>() {
        // The texts about signatures repeat the headers that were signed.
        _ if code.contains("Signature") => String::new(),
        empty if empty.is_empty() => empty,
        words => format!(" and said {words:?}"),
    };
    AwsError::Refused { target, status: response.status().as_u16(), code, said }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::time::FakeClock;

    fn client(endpoint: Option<&str>, variables: &[(&str, &str)]) -> Result<AwsClient, AwsError> {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let clock = Arc::new(FakeClock::at("2026-11-15T00:13:19.5Z".parse().unwrap()));
        AwsClient::new(SNS, None, endpoint, Environment::of(variables), clock)
    }

    fn endpoint_of(endpoint: Option<&str>, variables: &[(&str, &str)]) -> String {
        client(endpoint, variables).unwrap().endpoint.to_string()
    }

    #[test]
    fn the_setting_comes_before_the_variable_of_the_service_and_that_before_the_one_of_all() {
        let (region, all) = (("AWS_REGION", "eu-central-1"), ("AWS_ENDPOINT_URL", "https://all/"));
        let of_sns = ("AWS_ENDPOINT_URL_SNS", "https://sns/");

        assert_eq!(endpoint_of(None, &[region]), "https://sns.eu-central-1.amazonaws.com/");
        assert_eq!(endpoint_of(None, &[region, all]), "https://all/");
        assert_eq!(endpoint_of(None, &[region, all, of_sns]), "https://sns/");
        assert_eq!(endpoint_of(Some("https://set/"), &[region, all, of_sns]), "https://set/");
        let china = endpoint_of(None, &[("AWS_DEFAULT_REGION", "cn-north-1")]);
        assert_eq!(china, "https://sns.cn-north-1.amazonaws.com.cn/");
    }

    #[test]
    fn a_client_needs_a_region_and_an_address_that_others_cannot_read() {
        let region = ("AWS_REGION", "us-east-1");
        assert_eq!(client(None, &[("AWS_REGION", "")]).unwrap_err(), AwsError::NoRegion);
        let bad =
            ["http://10.0.0.1/", "ftp://h/", "h", "https://h/sns", "https://h/?a=b", "https://me:hunter2@h/"];
        for url in bad {
            let error = client(Some(url), &[region]).unwrap_err();
            assert!(matches!(error, AwsError::Endpoint { .. }), "{error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        let elsewhere = client(None, &[("AWS_REGION", "evil.example/")]).unwrap_err();
        assert!(matches!(elsewhere, AwsError::BadRegion { .. }), "{elsewhere}");
        assert!(client(Some("http://10.0.0.1/"), &[region, ("AWS_ALLOW_HTTP", "true")]).is_ok());
        assert!(client(Some("http://[::1]:5000"), &[region]).is_ok());
    }

    #[test]
    fn a_request_has_the_token_and_a_signature_over_it() {
        let (id, secret) = ("AKIDEXAMPLE".to_owned(), "a-secret".to_owned());
        let keys = Keys { id, secret, token: Some("a-token".to_owned()), ends: None };
        let client = client(Some("http://127.0.0.1:5000"), &[("AWS_REGION", "us-east-1")]).unwrap();
        let call = form(&[("Action", "Publish"), ("Message", "a b&c=d")]);

        let headers = client.headers(&call, &client.endpoint, &keys, client.clock.now());

        assert_eq!(call.body, "Action=Publish&Message=a+b%26c%3Dd");
        assert_eq!(headers["x-amz-date"], "20261115T001319Z");
        assert_eq!(
            (&headers["host"], &headers["x-amz-security-token"]),
            (&HeaderValue::from_static("127.0.0.1:5000"), &HeaderValue::from_static("a-token"))
        );
        let signed = headers["authorization"].to_str().unwrap();
        let begin = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261115/us-east-1/sns/aws4_request, \
                     SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, Signature=";
        assert!(signed.starts_with(begin), "{signed}");
        assert!(!format!("{headers:?}{client:?}").contains("a-token"));
    }
}
