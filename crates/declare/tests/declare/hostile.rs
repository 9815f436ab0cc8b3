//! Whatever stands in a file, there is an answer, and soon.

use proptest::prelude::*;
use std::time::Duration;
use tidemill_declare::read;

const GOOD: &str = r#"job: transfers
description: Loads the transfers of a day.
parameters: { date: { type: date, required: true }, file: { type: string, identifying: false } }
on_crash: { restart: 3 }
steps:
  - name: load
    chunk: 1000
    partitions: { by: file, pattern: "in/*.csv" }
    threads: 2
    read: { csv: { path: "${file}", delimiter: ";", encoding: euc-kr } }
    process:
      filter: "row.amount != ''"
      map: { id: "int(row.id)", cents: "decimal(row.amount, 2)" }
    write: { sql: { table: transfers, mode: upsert, key: [id] } }
    skip: { limit: 10, on: [parse, process], reject: "rejects.csv" }
    retry: { limit: 3, backoff: 1s }
  - name: which
    decide: |
      parameters.date == '2026-11-15'
        ? 'first' : 'other'
    on: { first: next, "*": to(both) }
  - name: report
    command: ["./report.sh", "${date}"]
    env: { LANG: ko_KR.UTF-8 }
    on: { FAILED: end, "*": next }
  - name: both
    split:
      - - name: clean
          sql: ["delete from a where day < ${date}", "delete from b"]
      - - name: inner
          flow:
            - name: other
              job: other
              parameters: { date: "${date}" }
"#;

/// The answer, which must come: what grows without bound takes longer than this.
fn answer(text: &str) {
    let beginning: String = text.chars().take(60).collect();
    let (text, (done, waiting)) = (text.to_owned(), std::sync::mpsc::channel());
    let reading = std::thread::spawn(move || {
        let told = read("x.yaml", &text).map_err(|wrong| (wrong.to_string(), wrong.json()));
        done.send(()).unwrap();
        told.is_ok()
    });
    assert!(waiting.recv_timeout(Duration::from_secs(60)).is_ok(), "no answer, or a panic: {beginning:?}");
    reading.join().unwrap();
}

#[test]
fn the_good_file_is_good() {
    let wrong = read("x.yaml", GOOD).err().map(|wrong| wrong.to_string());

    assert_eq!(wrong, None);
}

#[test]
fn large_files_are_answered_soon() {
    let step = "  - name: a\n    sql: x\n    on: { FAILED: to(b) }\n";
    answer(&format!("job: a\nsteps:\n{}", step.repeat(15_000)));
    let key = |number: usize| format!("k{number}: &a [1, {{}}]\n");
    answer(&(0..50_000).map(key).collect::<String>());
    answer(&(0..50_000).map(|number| format!("k{number}: 1\n")).collect::<String>());
    answer(&"? ".repeat(400_000));
    answer(&"{a: ".repeat(200_000));
    answer(&"'".repeat(900_000));
    answer(&"- \n".repeat(300_000));
    answer(&format!("job: a\nsteps: [{}]", "{name: a, command: [a]},".repeat(20_000)));
    answer(&format!("job: \"{}\"", "\\u0041".repeat(150_000)));
    answer(&format!("a: |\n{}", "  x\n".repeat(200_000)));
    let columns: String = (0..50_000).map(|number| format!("c{number}: row.a, ")).collect();
    let process = format!("process: {{ map: {{ {columns} }} }}");
    let ends = "read: { jsonl: { path: a } }\n    write: { jsonl: { path: b } }";
    answer(&format!("job: a\nsteps:\n  - name: a\n    chunk: 1\n    {ends}\n    {process}\n"));
    answer(&format!("job: a\nsteps:\n  - name: a\n    decide: \"{}\"\n", "(".repeat(900_000)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_answered(text in "\\PC{0,200}") {
        answer(&text);
    }

    #[test]
    fn any_arrangement_of_yaml_is_answered(text in "[a-z:\\-\\[\\]{}&*!|>'\"#%@`,? \t\n$(]{0,120}") {
        answer(&text);
    }

    #[test]
    fn any_damage_to_a_good_file_is_answered(
        damages in prop::collection::vec((0..GOOD.len(), 0_usize..20, "[a-z:\\-\\[\\]{}&*'\"# \t\n$0-9]{0,6}"), 1..4),
    ) {
        let mut text = GOOD.to_owned();
        for (at, length, more) in damages {
            let at = at.min(text.len());
            let end = (at + length).min(text.len());
            text.replace_range(at..end, &more);
        }
        answer(&text);
    }

    #[test]
    fn a_good_file_without_one_of_its_lines_is_answered(line in 0..GOOD.lines().count()) {
        let kept: Vec<&str> = GOOD.lines().enumerate().filter(|(index, _)| *index != line).map(|(_, l)| l).collect();
        answer(&kept.join("\n"));
    }
}
