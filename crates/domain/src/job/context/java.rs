//! The form in which Spring Batch stores a context by default: Base64 of a serialized `java.util.HashMap`.
//!
//! Our values are written as the Java objects with the same meaning: `String`, `Long`, `Double`, `Boolean`, `ArrayList`
//! and `LinkedHashMap`. Positions that readers of Spring Batch read as an `int` are `Integer`. Objects of Java that have
//! no exact counterpart here, such as `java.util.Date`, become readable values, and are written back as they were
//! unless the value changes.

mod graph;
mod json;
mod read;
mod write;

pub(super) use graph::Item;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use write::{Whole, Writer};

/// How each such text begins.
pub(super) const BEGINNING: &str = "rO0AB";

/// Objects of Java that our values cannot express exactly, by key.
pub(super) type Kept = BTreeMap<String, Item>;

/// The bytes before Base64.
pub(super) fn encode(values: &Map<String, Value>, kept: &Kept) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.hash_map(values.len());
    for (key, value) in values {
        writer.text(key);
        match kept.get(key) {
            Some(item) => writer.item(item),
            None => writer.value(value, whole(key)),
        }
    }
    writer.end();
    writer.finish()
}

pub(super) fn to_text(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Why it cannot be read is the end of a sentence, and names the key.
pub(super) fn decode(text: &str) -> Result<(Map<String, Value>, Kept), String> {
    let bytes = STANDARD.decode(text).map_err(|_| "it is cut off or damaged")?;
    let root = read::read(&bytes)?;
    let entries = json::entries(&root).ok_or("it is no map of names and values")?;
    let (mut values, mut kept) = (Map::new(), Kept::new());
    let mut budget = json::VALUES_MAX;
    for (key, item) in entries {
        let Item::Text(key) = key else { return Err("one of its keys is no text".to_owned()) };
        let value = json::value(item, &mut budget)
            .map_err(|class| format!("{key:?} is a {class}, which only Java can read"))?;
        if !json::is_plain(item, whole(key)) {
            kept.insert(key.as_ref().to_owned(), item.clone());
        }
        values.insert(key.as_ref().to_owned(), value);
    }
    Ok((values, kept))
}

/// Spring Batch reads these numbers with `getInt`.
fn whole(key: &str) -> Whole {
    match key.ends_with(".read.count") || key == crate::job::step::OFFSET_KEY {
        true => Whole::Int,
        false => Whole::Long,
    }
}
