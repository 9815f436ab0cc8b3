//! Reading files with a JSON document in each line.

use super::{Folder, all, check_every_restart, gzip};
use serde::Deserialize;
use tidemill_engine::item::JsonLinesReader;
use tidemill_engine::item::reader::RECORD_BYTES_MAX;

#[derive(Deserialize, PartialEq, Debug)]
struct Event {
    id: u32,
    name: String,
}

fn event(id: u32) -> Event {
    Event { id, name: format!("이름\n{id}") }
}

#[tokio::test]
async fn blank_lines_are_passed_over_and_a_restart_reads_the_rest() {
    let folder = Folder::new();
    for records in [0, 1, 2, 9] {
        let lines: String =
            (0..records).map(|id| format!("{{\"id\":{id},\"name\":\"이름\\n{id}\"}}\r\n \t\n\n")).collect();
        for path in [folder.put("in.jsonl", &lines), folder.put("in.jsonl.gz", gzip(&lines))] {
            let seen = check_every_restart(|| JsonLinesReader::<Event>::new("in", &path)).await;

            assert_eq!(seen, (0..records).map(|id| Ok(event(id))).collect::<Vec<_>>());
        }
    }
}

#[tokio::test]
async fn a_bad_line_is_told_and_the_next_one_is_read() {
    let folder = Folder::new();
    let path = folder.put("in.jsonl", "{\"id\":1}\n{\"id\":\n{\"id\":2,\"name\":\"이름\\n2\"}\n");
    let place = path.display();

    let seen = check_every_restart(|| JsonLinesReader::<Event>::new("in", &path)).await;

    let expected = [
        Err(format!("missing field `name` (character 8) ({place} line 1)")),
        Err(format!("EOF while parsing a value (character 6) ({place} line 2)")),
        Ok(event(2)),
    ];
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_line_of_more_than_a_mebibyte_is_an_error_and_the_next_one_is_read() {
    let folder = Folder::new();
    let path = folder.put("in.jsonl", format!("\"{}\"\n\"b\"\n", "a".repeat(RECORD_BYTES_MAX)));

    let seen = all(JsonLinesReader::<String>::new("in", &path)).await;

    assert!(seen[0].as_ref().unwrap_err().contains("longer than"));
    assert_eq!(seen[1], Ok("b".to_owned()));
}
