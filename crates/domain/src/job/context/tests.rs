//! Contexts in all their stored forms, and what real Java has stored.

use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;

/// Contexts as Spring Batch 5.2.6 stores them: one of each kind by its key, `*` with all of them.
fn vectors() -> BTreeMap<String, String> {
    let text = include_str!("../../../../../vectors/spring_batch_5.2.6/context.json");
    serde_json::from_str(text).unwrap()
}

/// What the values of the vectors are for us.
fn kinds() -> Value {
    let text = r#"{
        "text": "가 🦀 \" \\ \u0000", "empty": "", "int": -7, "long": -9223372036854775808, "short": -2, "byte": -3, "char": "x",
        "float": 0.5, "double": 0.1, "whole_double": 1.0, "nan": "NaN", "true": true, "r.read.count": 12,
        "big_integer": 18446744073709551615, "huge": "-123456789012345678901234567890", "decimal": "-12.50", "small": "0.001",
        "date": "2023-11-14T22:13:20.123000Z", "timestamp": "2026-01-31T12:00:00.123456Z",
        "instant": "2026-01-31T12:00:00.000001Z", "local_date": "2026-01-31", "hour": "23:00:00",
        "time": "23:59:01.5", "local_date_time": "2026-01-31T12:30:00",
        "uuid": "00000000-0000-0007-8000-000000000001", "status": "FAILED", "bytes": [0, -1], "longs": [1, 2],
        "texts": ["a", null], "array_list": [1, "x", true, 2.5], "linked_list": [1, 2], "list_of": ["a", "b"],
        "as_list": ["a", 1], "tree_set": ["a", "b"], "hash_map": {"a": 1}, "map_of": {"a": 1},
        "tree_map": {"a": 1, "b": 2}, "concurrent_map": {"a": 1}, "linked_map": {"z": 1, "a": [{}]},
        "properties": {"p": "q"}
    }"#;
    serde_json::from_str(text).unwrap()
}

fn context(values: &Value) -> ExecutionContext {
    let mut context = ExecutionContext::new();
    for (key, value) in values.as_object().unwrap() {
        context.put(key, value.clone());
    }
    context
}

#[test]
fn what_is_stored_reads_back() {
    let mut context = ExecutionContext::new();
    context.put("reader.read.count", 60_500);
    context.put("file", "in/가.csv");
    context.put("gone", 1);
    context.put("gone", Value::Null);

    let text = context.to_text().unwrap();

    assert!(text.starts_with("rO0ABXNyABFqYXZhLnV0aWwuSGFzaE1hc"), "{text}");
    assert_eq!(ExecutionContext::from_text(&text), Ok(context));
}

#[test]
fn what_earlier_versions_have_stored_reads_back() {
    let text = r#"{"version":1,"values":{"read.read.count":60,"ChunkMonitor.OFFSET":2,"key":{"long":7}}}"#;

    let read = ExecutionContext::from_text(text).unwrap();

    assert_eq!(read, context(&json!({"read.read.count": 60, OFFSET_KEY: 2, "key": {"long": 7}})));
}

#[test]
fn values_of_java_are_read_and_written_back_to_the_byte() {
    let (vectors, kinds) = (vectors(), kinds());

    for (key, value) in kinds.as_object().unwrap() {
        let stored = &vectors[key];
        let read = ExecutionContext::from_text(stored).unwrap_or_else(|error| panic!("{key}: {error}"));

        assert_eq!(read.get(key), Some(value), "{key}");
        let bytes = |text: &str| STANDARD.decode(text).unwrap();
        assert_eq!(bytes(&read.to_text().unwrap()), bytes(stored), "{key}");
    }
    let all = ExecutionContext::from_text(&vectors["*"]).unwrap();
    assert_eq!(Value::Object(all.values.clone()), kinds);
    assert_eq!(ExecutionContext::from_text(&all.to_text().unwrap()), Ok(all));
    assert_eq!(ExecutionContext::new().to_text().unwrap(), vectors[""]);
}

#[test]
fn values_of_ours_are_written_as_java_writes_them() {
    let (vectors, kinds) = (vectors(), kinds());

    for key in [
        "text",
        "empty",
        "long",
        "double",
        "whole_double",
        "true",
        "r.read.count",
        "big_integer",
        "linked_map",
    ] {
        assert_eq!(context(&json!({ key: kinds[key] })).to_text().unwrap(), vectors[key], "{key}");
    }
    assert_eq!(
        context(&json!({ "array_list": kinds["array_list"] })).to_text().unwrap(),
        vectors["array_list"]
    );
}

#[test]
fn an_object_of_java_is_kept_until_its_value_changes() {
    let mut read = ExecutionContext::from_text(&vectors()["date"]).unwrap();
    let date = read.get("date").unwrap().clone();

    read.put("date", date);
    assert_eq!(read.to_text().unwrap(), vectors()["date"]);
    read.put("date", "2026-01-31");
    assert_eq!(read, context(&json!({"date": "2026-01-31"})));
    read = ExecutionContext::from_text(&vectors()["date"]).unwrap();
    read.remove("date");
    assert_eq!(read, ExecutionContext::new());
}

#[test]
fn a_class_that_only_java_knows_is_named_with_its_key() {
    let error = ExecutionContext::from_text(&vectors()["unknown"]).unwrap_err().to_string();

    assert!(error.contains(r#""uri" is a java.net.URI"#), "{error}");
}

#[test]
fn what_the_jackson_serializer_has_stored_is_read() {
    let text = r#"{"@class":"java.util.HashMap","batch.version":"5.2.6","r.read.count":60,"total":["java.lang.Long",180],
        "list":["java.util.ArrayList",["a",["java.lang.Long",1]]],"date":["java.util.Date",1700000000123],
        "map":{"@class":"java.util.LinkedHashMap","id":["java.lang.Long",7]},"sum":["java.math.BigDecimal",12.5]}"#;

    let read = ExecutionContext::from_text(text).unwrap();

    let values = json!({"batch.version": "5.2.6", "r.read.count": 60, "total": 180, "list": ["a", 1],
        "date": "2023-11-14T22:13:20.123000Z", "map": {"id": 7}, "sum": 12.5});
    assert_eq!(read, context(&values));
    for inexact in [
        "[\"java.math.BigInteger\",123456789012345678901234567890]",
        "[\"java.math.BigDecimal\",1.2345678901234567]",
    ] {
        let text = format!(r#"{{"@class":"java.util.HashMap","sum":{inexact}}}"#);
        assert!(
            ExecutionContext::from_text(&text).unwrap_err().to_string().contains("java.math.Big"),
            "{inexact}"
        );
    }
    for unknown in [r#"{"@class":"com.acme.Order","id":1}"#, r#"["com.acme.Order",1]"#] {
        let text = format!(r#"{{"@class":"java.util.HashMap","order":{unknown}}}"#);
        let error = ExecutionContext::from_text(&text).unwrap_err().to_string();
        assert!(error.contains(r#""order" is a com.acme.Order"#), "{error}");
    }
}

#[test]
fn what_is_too_large_or_too_deep_is_refused() {
    let mut large = ExecutionContext::new();
    large.put("all", "x".repeat(CONTEXT_BYTES_MAX));
    // As large as JSON, and larger as Java.
    let mut many = ExecutionContext::new();
    (0..5_000).for_each(|number| many.put(&number.to_string(), 1));
    let mut deep = ExecutionContext::new();
    deep.put("deep", (0..DEPTH_MAX).fold(json!(1), |inner, _| json!([inner])));
    let mut allowed = ExecutionContext::new();
    allowed.put("deep", (1..DEPTH_MAX).fold(json!(1), |inner, _| json!([inner])));

    assert!(matches!(large.to_text(), Err(ContextError::TooLarge { .. })));
    assert!(many.to_text().is_ok());
    assert_eq!(deep.to_text(), Err(ContextError::TooDeep { key: "deep".into() }));
    assert_eq!(ExecutionContext::from_text(&allowed.to_text().unwrap()), Ok(allowed));
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

fn json_values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_values_read_back_exactly(values in prop::collection::btree_map(any::<String>(), json_values(), 0..8)) {
        let context = context(&Value::Object(values.into_iter().collect()));

        let text = context.to_text().unwrap();

        let read = ExecutionContext::from_text(&text).unwrap();
        prop_assert_eq!(&read, &context);
        prop_assert!(read.iter().eq(context.iter()), "the order is kept");
    }

    #[test]
    fn a_damaged_stream_is_refused_or_read(cut in 0..4_000_usize, at in 0..4_000_usize, byte: u8) {
        let mut bytes = STANDARD.decode(&vectors()["*"]).unwrap();
        if let Some(damaged) = bytes.get_mut(at.max(4)) {
            *damaged = byte;
        }
        bytes.truncate(cut.max(4));

        if let Ok(read) = ExecutionContext::from_text(&java::to_text(&bytes)) {
            let _written = read.to_text();
        }
    }

    #[test]
    fn the_short_column_never_overflows_and_nothing_is_lost(text in "[a가]{2480,2520}") {
        let (short, long) = columns(&text);
        prop_assert!(short.chars().count() <= SHORT_CHARS_MAX);
        prop_assert_eq!(long.unwrap_or(&short), &text);
        prop_assert_eq!(long.is_some(), text.chars().count() > SHORT_CHARS_MAX);
    }
}
