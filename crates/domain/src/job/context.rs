//! What an execution keeps for a restart: named JSON values, with limits.
//!
//! Stored as `{"version":1,"values":{…}}`, without class names. Other versions are refused.

use serde_json::{Map, Value};

const VERSION: u64 = 1;

/// Largest stored form, in bytes. A context is for positions and totals; data belongs into a table.
pub const CONTEXT_BYTES_MAX: usize = 64 * 1024;

pub const DEPTH_MAX: usize = 32;

/// Characters that Spring Batch keeps when the text does not fit its short column.
const SHORT_CHARS: usize = 2492;

/// Size of the short column.
const SHORT_CHARS_MAX: usize = 2500;

#[derive(Clone, PartialEq, Debug, Default)]
pub struct ExecutionContext {
    values: Map<String, Value>,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ContextError {
    #[error("the execution context has {bytes} bytes; {CONTEXT_BYTES_MAX} are allowed")]
    TooLarge { bytes: usize },
    #[error("the value of {key:?} in the execution context is nested more than {DEPTH_MAX} deep")]
    TooDeep { key: String },
    #[error("the stored execution context cannot be read: {0}")]
    NotUnderstood(String),
}

impl ExecutionContext {
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a value; null removes it.
    pub fn put(&mut self, key: &str, value: impl Into<Value>) {
        match value.into() {
            Value::Null => {
                self.values.remove(key);
            }
            value => {
                // An existing key is not allocated again: this runs once per chunk.
                if let Some(old) = self.values.get_mut(key) {
                    *old = value;
                } else {
                    self.values.insert(key.to_owned(), value);
                }
            }
        }
    }

    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.values.remove(key)
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    pub fn get_long(&self, key: &str) -> Option<i64> {
        self.values.get(key).and_then(Value::as_i64)
    }

    pub fn get_text(&self, key: &str) -> Option<&str> {
        self.values.get(key).and_then(Value::as_str)
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// In the order in which they were first set.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(key, value)| (key.as_str(), value))
    }

    pub fn merge(&mut self, other: &Self) {
        for (key, value) in other.iter() {
            self.put(key, value.clone());
        }
    }

    pub fn to_text(&self) -> Result<String, ContextError> {
        if let Some((key, _)) = self.values.iter().find(|(_, value)| is_deeper_than(DEPTH_MAX, value)) {
            return Err(ContextError::TooDeep { key: key.clone() });
        }
        let values = Value::Object(self.values.clone());
        let text = format!("{{\"version\":{VERSION},\"values\":{values}}}");
        if text.len() > CONTEXT_BYTES_MAX {
            return Err(ContextError::TooLarge { bytes: text.len() });
        }
        Ok(text)
    }

    pub fn from_text(text: &str) -> Result<Self, ContextError> {
        let no = |why: &str| ContextError::NotUnderstood(why.to_owned());
        let mut stored: Value = serde_json::from_str(text).map_err(|_| {
            no(if text.starts_with("rO0AB") { "it was written by Java" } else { "it is not JSON" })
        })?;
        match stored.get("version").and_then(Value::as_u64) {
            Some(VERSION) => {}
            Some(version) => {
                return Err(no(&format!("its version is {version}; this program reads {VERSION}")));
            }
            None => return Err(no("it has no version")),
        }
        match stored.get_mut("values").map(Value::take) {
            Some(Value::Object(values)) => Ok(Self { values }),
            _ => Err(no("it has no values")),
        }
    }
}

/// Spring Batch's two columns: the short one has the whole text, or its start while the long one has all.
pub fn columns(text: &str) -> (String, Option<&str>) {
    if text.chars().count() <= SHORT_CHARS_MAX {
        return (text.to_owned(), None);
    }
    let short: String = text.chars().take(SHORT_CHARS).collect();
    (format!("{short} ..."), Some(text))
}

fn is_deeper_than(levels: usize, value: &Value) -> bool {
    let Some(inner) = levels.checked_sub(1) else { return true };
    match value {
        Value::Array(values) => values.iter().any(|value| is_deeper_than(inner, value)),
        Value::Object(values) => values.values().any(|value| is_deeper_than(inner, value)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn what_is_stored_reads_back() {
        let mut context = ExecutionContext::new();
        context.put("reader.read.count", 60_500);
        context.put("file", "in/가.csv");
        context.put("gone", 1);
        context.put("gone", Value::Null);

        let text = context.to_text().unwrap();

        assert_eq!(text, r#"{"version":1,"values":{"reader.read.count":60500,"file":"in/가.csv"}}"#);
        assert_eq!(ExecutionContext::from_text(&text), Ok(context));
    }

    #[test]
    fn what_is_too_large_or_too_deep_is_refused() {
        let mut large = ExecutionContext::new();
        large.put("all", "x".repeat(CONTEXT_BYTES_MAX));
        let mut deep = ExecutionContext::new();
        deep.put("deep", (0..DEPTH_MAX).fold(json!(1), |inner, _| json!([inner])));
        let mut allowed = ExecutionContext::new();
        allowed.put("deep", (1..DEPTH_MAX).fold(json!(1), |inner, _| json!([inner])));

        assert!(matches!(large.to_text(), Err(ContextError::TooLarge { .. })));
        assert_eq!(deep.to_text(), Err(ContextError::TooDeep { key: "deep".into() }));
        assert!(allowed.to_text().is_ok());
    }

    #[test]
    fn a_context_of_another_make_is_refused_with_the_reason() {
        for (text, reason) in [
            ("rO0ABXNyABFqYXZh", "Java"),
            ("{}", "no version"),
            (r#"{"version":2,"values":{}}"#, "version is 2"),
            (r#"{"version":1}"#, "no values"),
            ("[1]", "no version"),
        ] {
            let error = ExecutionContext::from_text(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn the_short_column_never_overflows_and_nothing_is_lost(text in "[a가]{2480,2520}") {
            let (short, long) = columns(&text);
            prop_assert!(short.chars().count() <= SHORT_CHARS_MAX);
            prop_assert_eq!(long.unwrap_or(&short), &text);
            prop_assert_eq!(long.is_some(), text.chars().count() > SHORT_CHARS_MAX);
        }
    }
}
