//! Reading files that are a JSON array.

use super::{Folder, all, check_every_restart, euc_kr, fatal, gzip, open, read, saved, zstd};
use serde::Deserialize;
use tidemill_domain::item::Value;
use tidemill_domain::job::ExecutionContext;
use tidemill_engine::item::reader::RECORD_BYTES_MAX;
use tidemill_engine::item::{Encoding, JsonReader};
use tidemill_engine::job::component::ItemReader;

#[derive(Deserialize, PartialEq, Debug)]
struct Event {
    id: u32,
    name: String,
}

fn events(range: std::ops::Range<u32>) -> Vec<Result<Event, String>> {
    range.map(|id| Ok(Event { id, name: format!("이름 ]}}\"{id}") })).collect()
}

/// Arrays of these values, in the styles that programs write.
fn arrays(values: u32) -> Vec<String> {
    let value = |id| format!("{{\"id\":{id},\"name\":\"이름 ]}}\\\"{id}\"}}");
    let pretty = |id| format!("  {{\r\n    \"id\": {id},\r\n    \"name\": \"이름 ]}}\\\"{id}\"\r\n  }}");
    let join = |separator: &str, make: &dyn Fn(u32) -> String| {
        (0..values).map(make).collect::<Vec<_>>().join(separator)
    };
    vec![
        format!("[{}]", join(",", &value)),
        format!(" [\n{}\n]\n\n", join(",\n", &value)),
        format!("[\r\n{}\r\n]", join(" ,\r\n", &pretty)),
    ]
}

#[tokio::test]
async fn a_restart_at_any_value_reads_the_rest() {
    let folder = Folder::new();
    for values in [0, 1, 2, 9] {
        for text in arrays(values) {
            for (path, encoding) in [
                (folder.put("in.json", &text), Encoding::Utf8),
                (folder.put("marked.json", format!("\u{feff}{text}")), Encoding::Utf8),
                (folder.put("in.json.gz", gzip(&text)), Encoding::Utf8),
                (folder.put("in.json.zst", zstd(&text)), Encoding::Utf8),
                (folder.put("korean.json", euc_kr(&text)), Encoding::EucKr),
            ] {
                let seen =
                    check_every_restart(|| JsonReader::<Event>::new("in", &path).encoding(encoding)).await;

                assert_eq!(seen, events(0..values), "{text}");
            }
        }
    }
}

#[tokio::test]
async fn several_arrays_are_read_one_after_the_other() {
    let folder = Folder::new();
    folder.put("a.json", &arrays(2)[0]);
    folder.put("b.json", "[]");
    folder.put("c.json", &arrays(3)[2]);

    let reader = || JsonReader::<Event>::pattern("in", folder.pattern("*.json"));

    let ids: Vec<u32> =
        check_every_restart(reader).await.into_iter().map(|event| event.unwrap().id).collect();
    assert_eq!(ids, [0, 1, 0, 1, 2]);
    let counted = open(reader().count_total(), &ExecutionContext::new()).await.unwrap();
    assert_eq!(counted.total(), Some(5));
}

#[tokio::test]
async fn a_bad_value_is_told_and_the_next_one_is_read() {
    let folder = Folder::new();
    let path = folder.put("in.json", "[{\"id\":1},\n{\n\"id\":x},\n[1], {\"id\":2,\"name\":\"b\"}]");
    let place = path.display();

    let seen = check_every_restart(|| JsonReader::<Event>::new("in", &path)).await;

    assert_eq!(seen[0], Err(format!("missing field `name` (character 8) ({place} line 1)")));
    assert_eq!(seen[1], Err(format!("expected value (character 6 of line 2 of the value) ({place} line 2)")));
    assert!(seen[2].as_ref().unwrap_err().ends_with("line 4)"), "{seen:?}");
    assert_eq!(seen[3], Ok(Event { id: 2, name: "b".to_owned() }));
}

#[tokio::test]
async fn a_file_that_is_no_whole_array_ends_the_step() {
    let folder = Folder::new();
    for (text, values, expected) in [
        ("", 0, "ends before the ]"),
        ("{\"id\":1}", 0, "does not begin with ["),
        ("[1,2", 2, "ends before the ]"),
        ("[1,2,", 2, "ends before the ]"),
        ("[1,2,]", 2, "a value is missing"),
        ("[,1]", 0, "a value is missing"),
        ("[1\n2]", 1, "line 2: there is no comma"),
        ("[1] [2]", 1, "behind the end of the array"),
        ("[1,{\"a\":\"]}", 1, "JSON value at"),
    ] {
        let path = folder.put("in.json", text);
        let mut reader =
            open(JsonReader::<serde_json::Value>::new("in", &path), &ExecutionContext::new()).await.unwrap();
        assert_eq!(read(&mut reader, values).await.len(), values, "{text}");
        let context = saved(&mut reader);

        let error = fatal(reader.read().await);
        let mut again = open(JsonReader::<serde_json::Value>::new("in", &path), &context).await.unwrap();
        let error_again = fatal(again.read().await);

        assert!(error.contains(expected), "{text}: {error}");
        assert_eq!(error_again, error, "a restart does not take it for the end");
    }
}

#[tokio::test]
async fn a_value_that_is_too_deep_or_too_long_is_an_error() {
    let folder = Folder::new();
    let deep = format!("[{}{},\"next\"]", "[".repeat(5000), "]".repeat(5000));
    let long = format!("[\"{}\",\"next\"]", "a".repeat(RECORD_BYTES_MAX));
    for (text, expected) in [(deep, "recursion limit"), (long, "longer than")] {
        let path = folder.put("in.json", text);

        let seen = all(JsonReader::<serde_json::Value>::new("in", &path)).await;

        assert!(seen[0].as_ref().unwrap_err().contains(expected), "{:?}", seen[0]);
        assert_eq!(seen[1], Ok("next".into()));
    }
}

#[tokio::test]
async fn a_file_that_was_changed_before_the_position_is_refused() {
    let folder = Folder::new();
    let path = folder.put("in.json", "[{\"a\":1},{\"a\":2}]");
    let mut reader = open(JsonReader::rows("in", &path), &ExecutionContext::new()).await.unwrap();
    let first = read(&mut reader, 1).await;
    let context = saved(&mut reader);

    folder.put("in.json", "[{\"a\": 1},{\"a\":2}]");

    assert_eq!(first[0].as_ref().unwrap().value("a"), Ok(&Value::Long(1)));
    let reader = open(JsonReader::rows("in", &path), &context).await;
    let error = match reader {
        Ok(mut reader) => fatal(reader.read().await),
        error => fatal(error),
    };
    assert!(error.contains("changed") || error.contains("broken"), "{error}");
}

#[tokio::test]
async fn a_file_of_a_pattern_that_was_cut_is_not_finished() {
    let folder = Folder::new();
    folder.put("a.json", r#"[{"id":1,"name":"a"},{"id":2,"name":"b"}"#);
    let reader = || JsonReader::<Event>::pattern("r", folder.path("*.json").display().to_string());
    let mut first = open(reader(), &ExecutionContext::new()).await.unwrap();
    read(&mut first, 2).await;
    let saved = saved(&mut first);

    folder.put("a.json", r#"[{"id":1,"name":"a"},{"id":2,"name":"b"},{"id":3,"name":"c"}]"#);
    let mut second = open(reader(), &saved).await.unwrap();

    assert_eq!(read(&mut second, usize::MAX).await, [Ok(Event { id: 3, name: "c".to_owned() })]);
}
