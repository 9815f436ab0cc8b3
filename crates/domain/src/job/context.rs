//! What an execution keeps for a restart: named JSON values, with limits.
//!
//! Stored as Spring Batch stores it by default, so that its programs can read it. The form with which its Jackson
//! serializer stores a context is read too, and that of earlier versions of ours: `{"version":1,"values":{…}}`.

mod jackson;
mod java;
pub mod spring;

use super::step::OFFSET_KEY;
use serde_json::{Map, Value};

/// Of our own form.
const VERSION: u64 = 1;
const OLD_OFFSET_KEY: &str = "ChunkMonitor.OFFSET";

/// Largest size of the values, in bytes. A context is for positions and totals; data belongs into a table.
pub const CONTEXT_BYTES_MAX: usize = 64 * 1024;

pub const DEPTH_MAX: usize = 32;

/// Characters that Spring Batch keeps when the text does not fit its short column.
const SHORT_CHARS: usize = 2492;

/// Size of the short column.
const SHORT_CHARS_MAX: usize = 2500;

#[derive(Clone, PartialEq, Debug, Default)]
pub struct ExecutionContext {
    values: Map<String, Value>,
    /// Java's own objects of values that have not changed since they were read.
    kept: java::Kept,
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
                self.remove(key);
            }
            value => {
                if !self.kept.is_empty() && self.values.get(key) != Some(&value) {
                    self.kept.remove(key);
                }
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
        self.kept.remove(key);
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

    /// The stored form. What counts for the limit is the smaller of the bytes of JSON and those of Java.
    pub fn to_text(&self) -> Result<String, ContextError> {
        if let Some((key, _)) = self.values.iter().find(|(_, value)| is_deeper_than(DEPTH_MAX, value)) {
            return Err(ContextError::TooDeep { key: key.clone() });
        }
        let bytes = java::encode(&self.values, &self.kept);
        if bytes.len() > CONTEXT_BYTES_MAX {
            let json = Value::Object(self.values.clone()).to_string();
            if json.len() > CONTEXT_BYTES_MAX {
                return Err(ContextError::TooLarge { bytes: json.len() });
            }
        }
        Ok(java::to_text(&bytes))
    }

    pub fn from_text(text: &str) -> Result<Self, ContextError> {
        let no = |why: &str| ContextError::NotUnderstood(why.to_owned());
        let by_java = |why: String| no(&format!("it was written by Java, and {why}"));
        if text.starts_with(java::BEGINNING) {
            let (values, kept) = java::decode(text).map_err(by_java)?;
            return Ok(Self { values, kept });
        }
        let mut stored: Value = serde_json::from_str(text).map_err(|_| no("it is not JSON"))?;
        if jackson::is_so(&stored) {
            let values = jackson::decode(stored).map_err(by_java)?;
            return Ok(Self { values, kept: java::Kept::new() });
        }
        match stored.get("version").and_then(Value::as_u64) {
            Some(VERSION) => {}
            Some(version) => {
                return Err(no(&format!("its version is {version}; this program reads {VERSION}")));
            }
            None => return Err(no("it has no version")),
        }
        let Some(Value::Object(mut values)) = stored.get_mut("values").map(Value::take) else {
            return Err(no("it has no values"));
        };
        if let Some(offset) = values.remove(OLD_OFFSET_KEY) {
            values.insert(OFFSET_KEY.to_owned(), offset);
        }
        Ok(Self { values, kept: java::Kept::new() })
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
mod tests;
