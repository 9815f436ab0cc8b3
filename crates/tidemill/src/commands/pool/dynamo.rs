//! Items in DynamoDB JSON, where every value is an object that names its type. Plain JSON is read too, because people
//! write it.

use serde_json::{Map, Value, json};
use std::str::FromStr;

/// The attributes of an item without their types. Numbers may be strings.
pub(super) type Item = Map<String, Value>;

const TYPES: [&str; 10] = ["N", "S", "BOOL", "NULL", "L", "M", "SS", "NS", "B", "BS"];

/// Reads one item, a list, one item per line, the lines of an export, or the answer of a scan.
pub(super) fn items(text: &[u8]) -> Result<Vec<Item>, String> {
    let mut items = Vec::new();
    for value in serde_json::Deserializer::from_slice(text).into_iter::<Value>() {
        let value = value.map_err(|error| error.to_string())?;
        take(value, &mut items)?;
    }
    Ok(items)
}

fn take(value: Value, items: &mut Vec<Item>) -> Result<(), String> {
    match value {
        Value::Array(list) => list.into_iter().try_for_each(|value| take(value, items)),
        Value::Object(mut object) => {
            if let Some(list @ Value::Array(_)) = object.get_mut("Items").map(Value::take) {
                return take(list, items);
            }
            if let Some(item @ Value::Object(_)) = object.get_mut("Item").map(Value::take) {
                return take(item, items);
            }
            items.push(untyped(object));
            Ok(())
        }
        other => Err(format!("{other} is not an item; an item is an object with attributes")),
    }
}

/// Removes the types, if all values have one.
fn untyped(object: Item) -> Item {
    if object.is_empty() || !object.values().all(is_typed) {
        return object;
    }
    let plain = |value: Value| match value {
        Value::Object(typed) => typed.into_iter().next().map_or(Value::Null, |(name, value)| match &*name {
            "NULL" => Value::Null,
            _ => value,
        }),
        other => other,
    };
    object.into_iter().map(|(name, value)| (name, plain(value))).collect()
}

fn is_typed(value: &Value) -> bool {
    let only = value.as_object().filter(|typed| typed.len() == 1).and_then(|typed| typed.keys().next());
    only.is_some_and(|name| TYPES.contains(&name.as_str()))
}

/// Adds the types, and leaves out nulls.
pub(super) fn typed(item: Item) -> Value {
    let with_type = |value: Value| match value {
        Value::Null => None,
        Value::Number(number) => Some(json!({ "N": number.to_string() })),
        Value::Bool(truth) => Some(json!({ "BOOL": truth })),
        Value::String(text) => Some(json!({ "S": text })),
        other => Some(json!({ "S": other.to_string() })),
    };
    item.into_iter().filter_map(|(name, value)| Some((name, with_type(value)?))).collect::<Item>().into()
}

pub(super) fn text(item: &Item, name: &str) -> Result<Option<String>, String> {
    match item.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(other) => Err(format!("{name}: {other} is not a string")),
    }
}

/// A whole number, also as a string or with a fraction of zero.
pub(super) fn number<T: FromStr>(item: &Item, name: &str) -> Result<Option<T>, String> {
    let Some(text) = text(item, name)? else { return Ok(None) };
    let whole = text.trim();
    let whole = match whole.split_once('.') {
        Some((whole, fraction)) if fraction.bytes().all(|digit| digit == b'0') => whole,
        _ => whole,
    };
    whole.parse().map(Some).map_err(|_| format!("{name}: {text:?} is not a valid number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Vec<Item> {
        items(text.as_bytes()).unwrap()
    }

    #[test]
    fn every_form_gives_the_same_items() {
        let typed = r#"{"src_db_id":{"N":"4"},"name":{"S":"ADW"}}"#;
        let forms = [
            typed.to_owned(),
            format!("[{typed}]"),
            format!("{{\"Item\":{typed}}}\n"),
            format!("{{\"Items\":[{typed}],\"Count\":1}}"),
            r#"{"src_db_id":4,"name":"ADW"}"#.to_owned(),
            r#"{"src_db_id":"4","name":"ADW","table":null}"#.to_owned(),
            r#"{"src_db_id":4.0,"name":"ADW"}"#.to_owned(),
        ];
        for form in forms {
            let found = read(&form);
            assert_eq!(found.len(), 1, "{form}");
            assert_eq!(number::<i64>(&found[0], "src_db_id"), Ok(Some(4)), "{form}");
            assert_eq!(text(&found[0], "name").unwrap().as_deref(), Some("ADW"), "{form}");
            assert_eq!(number::<i64>(&found[0], "max_connections"), Ok(None), "{form}");
        }
        assert_eq!(read(&format!("{typed}\n{typed}\n")).len(), 2);
        assert!(read("").is_empty());
    }

    #[test]
    fn what_is_no_item_is_refused() {
        for bad in ["4", "{", "[1]", "\"x\"", "{\"Items\": [4]}"] {
            assert!(items(bad.as_bytes()).is_err(), "{bad}");
        }
        let item = read(r#"{"a":"1.5","b":true,"c":"-1"}"#).remove(0);
        assert!(number::<i64>(&item, "a").is_err() && number::<i64>(&item, "b").is_err());
        assert!(number::<u32>(&item, "c").is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(name in ".*", id: i64, truth: bool) {
            let item: Item = [("name", json!(name)), ("id", json!(id)), ("truth", json!(truth))]
                .map(|(name, value)| (name.to_owned(), value))
                .into_iter()
                .collect();

            let found = read(&typed(item).to_string()).remove(0);

            prop_assert_eq!(text(&found, "name").unwrap(), Some(name));
            prop_assert_eq!(number::<i64>(&found, "id").unwrap(), Some(id));
            prop_assert_eq!(found.get("truth"), Some(&json!(truth)));
        }
    }
}
