//! How a function is called: with an answer, without one, or as a dry run.

use crate::lambda::reply::ServiceError;
use axum::http::HeaderMap;
use serde_json::{Map, Value};
use std::str::FromStr;
use tidemill_domain::words::UnknownWord;

/// Maximum length of the id of an invocation; the SDKs send UUIDs.
const ID_CHARS_MAX: usize = 100;

tidemill_domain::words! {
    #[derive(Default)]
    pub enum InvocationType {
        #[default]
        RequestResponse = "RequestResponse",
        /// Does the work; the caller gets no answer.
        Event = "Event",
        /// Only checks whether the call would be accepted.
        DryRun = "DryRun",
    }

    /// Whether the caller gets the end of the log.
    #[derive(Default)]
    pub enum LogType {
        #[default]
        None = "None",
        Tail = "Tail",
    }
}

impl InvocationType {
    pub const fn does_work(self) -> bool {
        matches!(self, Self::RequestResponse | Self::Event)
    }
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Invocation {
    pub kind: InvocationType,
    pub log: LogType,
    /// The same in each attempt of a call. It is not signed, so use it only together with the caller.
    pub id: Option<String>,
}

impl Invocation {
    /// Reads the headers. The SDKs leave out defaults.
    pub fn read(headers: &HeaderMap) -> Result<Self, ServiceError> {
        let (kind, log) = (word(headers, "x-amz-invocation-type")?, word(headers, "x-amz-log-type")?);
        let id = text(headers, "amz-sdk-invocation-id")?;
        if id.is_some_and(|id| !(1..=ID_CHARS_MAX).contains(&id.len())) {
            let why = format!("amz-sdk-invocation-id is not 1 to {ID_CHARS_MAX} characters");
            return Err(ServiceError::InvalidParameterValue(why));
        }
        Ok(Self { kind, log, id: id.map(str::to_owned) })
    }
}

/// The body as JSON, whatever its `Content-Type`: the SDKs send none. An empty body counts as an empty object.
pub fn payload(body: &[u8]) -> Result<Value, ServiceError> {
    if body.trim_ascii().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    serde_json::from_slice(body).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        ServiceError::InvalidRequestContent(format!("the body is not JSON: {place}"))
    })
}

fn word<T>(headers: &HeaderMap, name: &'static str) -> Result<T, ServiceError>
where
    T: FromStr<Err = UnknownWord> + Default,
{
    let bad = |error| ServiceError::InvalidParameterValue(format!("{name} is {error}"));
    Ok(text(headers, name)?.map(str::parse).transpose().map_err(bad)?.unwrap_or_default())
}

fn text<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, ServiceError> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let bad = |_| ServiceError::InvalidParameterValue(format!("{name} is not plain text"));
    value.to_str().map(Some).map_err(bad)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(pairs: &[(&'static str, &str)]) -> Result<Invocation, ServiceError> {
        let pairs = pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        Invocation::read(&pairs.collect())
    }

    #[test]
    fn what_is_not_said_is_as_usual() {
        assert_eq!(read(&[]), Ok(Invocation::default()));
        assert!(InvocationType::default().does_work());
    }

    #[test]
    fn what_is_said_is_read() {
        let pairs = [
            ("x-amz-invocation-type", "Event"),
            ("x-amz-log-type", "Tail"),
            ("amz-sdk-invocation-id", "7571ddfa"),
        ];
        let id = Some("7571ddfa".to_owned());

        assert_eq!(read(&pairs), Ok(Invocation { kind: InvocationType::Event, log: LogType::Tail, id }));
    }

    #[test]
    fn an_event_does_the_work_and_a_dry_run_does_not() {
        let kind = |word| read(&[("x-amz-invocation-type", word)]).unwrap().kind;

        assert!(kind("RequestResponse").does_work() && kind("Event").does_work());
        assert!(!kind("DryRun").does_work());
    }

    #[test]
    fn words_that_mean_nothing_are_refused() {
        for (name, value) in [
            ("x-amz-invocation-type", "event"),
            ("x-amz-invocation-type", ""),
            ("x-amz-log-type", "Head"),
            ("amz-sdk-invocation-id", ""),
            ("amz-sdk-invocation-id", &"x".repeat(101)),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.to_string().to_lowercase().contains(name), "{error}");
        }
    }

    #[test]
    fn a_body_is_json_or_nothing() {
        assert_eq!(payload(b""), Ok(json!({})));
        assert_eq!(payload(b" \n"), Ok(json!({})));
        assert_eq!(payload("{\"a\":\"정산\"}".as_bytes()), Ok(json!({ "a": "정산" })));
        for body in [&b"{"[..], b"\xff", b"{}{}", "[".repeat(100_000).as_bytes()] {
            assert!(matches!(payload(body), Err(ServiceError::InvalidRequestContent(_))));
        }
    }
}
