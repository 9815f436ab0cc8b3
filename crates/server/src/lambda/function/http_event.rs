//! HTTP requests as AWS Lambda passes them to a function: the payload format 2.0 of function URLs and of API Gateway.

use crate::api::pool::emr_agent::BadField;
use crate::problem::Problem;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, Request};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use tidemill_domain::code::Code;
use tower::ServiceExt as _;

/// Lambda takes 6 MB, and escapes make a body longer.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// API Gateway decodes some paths. `%` is left alone, because most are as the client sent them.
const NOT_IN_PATHS: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>').add(b'?').add(b'`').add(b'{').add(b'}');

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HttpEvent {
    raw_path: String,
    #[serde(default)]
    raw_query_string: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    request_context: RequestContext,
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

#[derive(Deserialize)]
struct RequestContext {
    stage: Option<String>,
    http: Http,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Http {
    method: String,
    source_ip: Option<IpAddr>,
}

/// Whether the event is from a gateway, in whatever format: its sender needs a token, unlike that of a direct call.
pub(super) fn is_http(event: &Value) -> bool {
    event.get("requestContext").is_some()
}

/// Passes the request to the router. An error is an answer, too, unless the format is unknown.
pub(super) async fn serve(router: Router, event: &Value) -> Result<Value, BadField> {
    let event = HttpEvent::deserialize(event).map_err(|error| {
        let why = format!(
            "it is no HTTP request of the payload format 2.0; set this format in API Gateway: {error}"
        );
        BadField::new("request", why)
    })?;
    let response = match event.request() {
        Ok(request) => {
            let Ok(response) = router.oneshot(request).await;
            response
        }
        Err(error) => Problem::from(error).into_response(),
    };
    Ok(answer(response).await)
}

impl HttpEvent {
    fn request(self) -> Result<Request, BadField> {
        let bytes = match self.body.as_deref() {
            Some(text) if self.is_base64_encoded => {
                STANDARD.decode(text).map_err(|_| BadField::new("body", "it is not base64"))?
            }
            text => text.unwrap_or_default().as_bytes().to_vec(),
        };
        let mut request = Request::builder().method(self.request_context.http.method.as_str());
        request = request.uri(self.address());
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let mut request =
            request.body(Body::from(bytes)).map_err(|error| BadField::new("request", error.to_string()))?;
        if let Some(ip) = self.request_context.http.source_ip {
            request.extensions_mut().insert(ConnectInfo(SocketAddr::new(ip, 0)));
        }
        Ok(request)
    }

    /// The path without the name of the stage, and the query.
    fn address(&self) -> String {
        let stage = self.request_context.stage.as_deref().unwrap_or_default();
        let rest = self.raw_path.strip_prefix('/').and_then(|path| path.strip_prefix(stage));
        let is_stage = |rest: &&str| !stage.is_empty() && (rest.is_empty() || rest.starts_with('/'));
        let path = rest.filter(is_stage).unwrap_or(&self.raw_path);
        let slash = if path.starts_with('/') { "" } else { "/" };
        let path = utf8_percent_encode(path, NOT_IN_PATHS);
        match self.raw_query_string.as_str() {
            "" => format!("{slash}{path}"),
            query => format!("{slash}{path}?{query}"),
        }
    }
}

async fn answer(response: Response) -> Value {
    let (mut parts, body) = response.into_parts();
    let bytes = match to_bytes(body, ANSWER_BYTES_MAX).await {
        Ok(bytes) => bytes,
        Err(_) => {
            let problem =
                Problem::new(Code::TooLarge, "the answer is larger than 4 MiB", "ask for less, with `limit`");
            let (instead, body) = problem.into_response().into_parts();
            parts = instead;
            to_bytes(body, ANSWER_BYTES_MAX).await.unwrap_or_default()
        }
    };
    let (body, is_base64) = match String::from_utf8(bytes.into()) {
        Ok(text) => (text, false),
        Err(error) => (STANDARD.encode(error.as_bytes()), true),
    };
    json!({
        "statusCode": parts.status.as_u16(),
        "headers": headers(&parts.headers),
        "body": body,
        "isBase64Encoded": is_base64,
    })
}

/// One value per name: no route of pools sends a name twice.
fn headers(headers: &HeaderMap) -> Map<String, Value> {
    let pair = |(name, value): (&axum::http::HeaderName, &axum::http::HeaderValue)| {
        Some((name.to_string(), Value::from(value.to_str().ok()?)))
    };
    headers.iter().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(change: impl FnOnce(&mut Value)) -> Value {
        // As AWS describes it for function URLs.
        let mut event = json!({
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": "/api/v1/pools",
            "rawQueryString": "limit=5",
            "cookies": ["a=1"],
            "headers": { "authorization": "Bearer tm_a_b", "content-type": "application/json" },
            "requestContext": {
                "accountId": "123456789012",
                "http": { "method": "POST", "path": "/api/v1/pools", "protocol": "HTTP/1.1", "sourceIp": "192.0.2.7" },
                "stage": "$default",
            },
            "body": "{}",
            "isBase64Encoded": false,
        });
        change(&mut event);
        event
    }

    fn request(event: &Value) -> Result<Request, BadField> {
        HttpEvent::deserialize(event).unwrap().request()
    }

    #[tokio::test]
    async fn a_request_arrives_as_it_was_sent() {
        let request = request(&event(|_| {})).unwrap();

        assert_eq!(
            (request.method().as_str(), request.uri().to_string().as_str()),
            ("POST", "/api/v1/pools?limit=5")
        );
        assert_eq!(request.headers()["authorization"], "Bearer tm_a_b");
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().unwrap();
        assert_eq!(peer.0.ip().to_string(), "192.0.2.7");
        assert_eq!(to_bytes(request.into_body(), 10).await.unwrap(), "{}");
    }

    #[tokio::test]
    async fn a_body_may_be_encoded() {
        let encoded = event(|event| {
            event["body"] = json!("eyJhIjoxfQ==");
            event["isBase64Encoded"] = json!(true);
        });
        assert_eq!(to_bytes(request(&encoded).unwrap().into_body(), 10).await.unwrap(), r#"{"a":1}"#);

        let broken = event(|event| event["isBase64Encoded"] = json!(true));
        assert_eq!(request(&broken).unwrap_err().to_string(), "body: it is not base64");
    }

    #[test]
    fn the_name_of_a_stage_is_no_part_of_the_address() {
        for (stage, path, address) in [
            ("$default", "/acquire", "/acquire"),
            ("prod", "/prod/acquire", "/acquire"),
            ("prod", "/prod", "/"),
            ("prod", "/production", "/production"),
            ("prod", "/acquire", "/acquire"),
            ("$default", "", "/"),
            ("$default", "/a b/%20/é?", "/a%20b/%20/%C3%A9%3F"),
        ] {
            let event = event(|event| {
                event["requestContext"]["stage"] = json!(stage);
                event["rawPath"] = json!(path);
                event["rawQueryString"] = json!("");
            });
            assert_eq!(request(&event).unwrap().uri(), address, "{stage} {path}");
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for (place, value) in [("/requestContext/http/method", "P O"), ("/rawQueryString", "a b")] {
            let event = event(|event| *event.pointer_mut(place).unwrap() = json!(value));
            assert!(request(&event).is_err(), "{place}");
        }
        assert!(is_http(&event(|_| {})) && !is_http(&json!({ "action": "status" })));
    }

    #[tokio::test]
    async fn an_event_of_another_format_is_no_direct_call() {
        let other = json!({
            "version": "1.0",
            "path": "/acquire",
            "httpMethod": "POST",
            "action": "status",
            "requestContext": { "stage": "prod" },
        });

        let error = serve(Router::new(), &other).await.unwrap_err();

        assert!(is_http(&other) && error.to_string().contains("payload format 2.0"), "{error}");
    }

    #[tokio::test]
    async fn an_error_is_an_answer_with_its_status() {
        let broken = event(|event| event["isBase64Encoded"] = json!(true));
        let refused = serve(Router::new(), &broken).await.unwrap();
        let large = answer("x".repeat(ANSWER_BYTES_MAX + 1).into_response()).await;

        for (answer, status, detail) in
            [(refused, 400, "body: it is not base64"), (large, 413, "larger than 4 MiB")]
        {
            assert_eq!(answer["statusCode"], status, "{answer}");
            assert_eq!(answer["headers"]["content-type"], "application/problem+json");
            assert!(answer["body"].as_str().unwrap().contains(detail), "{answer}");
        }
    }
}
