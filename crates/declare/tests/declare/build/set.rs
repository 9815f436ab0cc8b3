//! Values that a step sets, and that later steps read.

use super::Stand;
use std::fs;
use tidemill_domain::job::BatchStatus;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    each_kind_of_step_sets_values_that_texts_and_expressions_read,
    a_restart_reads_the_values_of_steps_that_are_not_repeated,
    a_query_without_a_row_leaves_no_value,
    counters_are_those_of_all_runs_of_the_step,
];

const TABLE: &[&str] = &[
    "create table sale (id bigint primary key, cents bigint not null)",
    "insert into sale values (1, 100), (2, 250), (3, 50)",
];

const JOB: &str = r#"
job: handed
steps:
  - name: totals
    sql: "insert into sale values (4, 600)"
    set: { total: "select sum(cents) from sale", least: "select min(cents) from sale where cents > 50" }
  - name: count
    command: [ sh, -c, "echo noise; echo '{\"file\": \"big\", \"factor\": 2}'; echo; echo to stderr >&2" ]
    set: [file, factor]
  - name: check
    assert: { query: "select count(*) from sale", expect: "value == 4 && context.total == 1000", set: sales }
  - name: load
    chunk: 2
    read: { sql: { query: "select id, cents from sale where cents >= ${context.least}", key: [id] } }
    process:
      filter: "has(context.total) && row.cents < context.total"
      map: { id: "row.id", cents: "row.cents * context.factor" }
    write: { jsonl: { path: "@/${context.file}.jsonl" } }
    set: { loaded: written, seen: read }
  - name: choose
    decide: "context.loaded == context.sales - 1 ? 'GO' : 'STOP'"
    on: { GO: next, "*": fail }
  - name: last
    sql: "update sale set cents = ${context.loaded} where id = ${context.seen}"
"#;

async fn each_kind_of_step_sets_values_that_texts_and_expressions_read(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand.sql(TABLE).await;

    let run = stand.run(JOB, &[]).await;

    assert!(run.is_completed(), "{:?}", run.end);
    let written = fs::read_to_string(stand.path().join("big.jsonl")).unwrap();
    assert_eq!(written.lines().count(), 3, "{written}");
    assert!(written.starts_with("{\"id\":1,\"cents\":200}\n"), "{written}");
    assert_eq!(stand.texts("select cast(cents as text) from sale where id = 3").await, ["3"]);
}

async fn a_restart_reads_the_values_of_steps_that_are_not_repeated(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand.sql(TABLE).await;
    let text = r#"
job: again
steps:
  - name: only-values
    set: { total: "select sum(cents) from sale" }
  - name: gate
    command: [ sh, -c, "test -e @/open" ]
  - name: use
    sql: "update sale set cents = ${context.total} where id = 1"
"#;

    let first = stand.run(text, &[]).await;
    stand.sql(&["delete from sale where id > 1"]).await;
    fs::write(stand.path().join("open"), "").unwrap();
    let second = stand.run(text, &[]).await;

    assert_eq!((first.end.status, second.end.status), (BatchStatus::Failed, BatchStatus::Completed));
    assert_eq!(stand.texts("select cast(cents as text) from sale").await, ["400"]);
}

async fn a_query_without_a_row_leaves_no_value(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand.sql(TABLE).await;
    let text = r#"
job: none
steps:
  - name: look
    set: { id: "select id from sale where id > 10" }
  - name: use
    command: [ echo, "${context.id}" ]
"#;

    let run = stand.run(text, &[]).await;

    assert_eq!(run.end.status, BatchStatus::Failed);
    let told = &run.end.exit.description;
    assert!(told.contains("${context.id} has no value"), "{told}");
}

async fn counters_are_those_of_all_runs_of_the_step(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand
        .sql(&[
            "create table loaded (id bigint primary key check (id <> 5))",
            "create table seen (n bigint, w bigint)",
        ])
        .await;
    stand.write("in.csv", "id\n1\n2\n3\n4\n5\n6\n7\n");
    let text = r#"
job: counted
steps:
  - name: load
    chunk: 2
    read: { csv: { path: "@/in.csv" } }
    process: { map: { id: "int(row.id)" } }
    write: { sql: { table: loaded } }
    set: { seen: read, loaded: written }
  - name: use
    sql: "insert into seen values (${context.seen}, ${context.loaded})"
"#;

    let first = stand.run(text, &[]).await;
    stand.write("in.csv", "id\n1\n2\n3\n4\n8\n6\n7\n");
    let second = stand.run(text, &[]).await;

    assert_eq!((first.end.status, second.end.status), (BatchStatus::Failed, BatchStatus::Completed));
    assert_eq!(stand.texts("select cast(w as text) from seen").await, ["7"]);
    // The two rows of the chunk that failed were read twice.
    assert_eq!(stand.texts("select cast(n as text) from seen").await, ["9"]);
}

async fn failed(text: &str) -> String {
    let stand = Stand::on(Scratch::file()).await;
    let run = stand.run(text, &[]).await;
    assert_eq!(run.end.status, BatchStatus::Failed);
    run.end.exit.description
}

#[tokio::test]
async fn a_command_that_does_not_print_its_values_fails() {
    let job = |print: &str| {
        format!("job: silent\nsteps:\n  - name: count\n    command: [ sh, -c, {print:?} ]\n    set: [rows]\n")
    };

    let nothing = failed(&job("echo done")).await;
    let another = failed(&job("echo '{\"row\": 1}'")).await;

    assert!(nothing.contains("no JSON object; it has to print one with rows"), "{nothing}");
    assert!(another.contains("has no \"rows\""), "{another}");
}

#[tokio::test]
async fn a_value_is_never_an_option_of_a_program() {
    let text = r#"
job: option
steps:
  - name: first
    command: [ echo, "{\"name\": \"--help\", \"number\": -5}" ]
    set: [name, number]
  - name: fine
    command: [ test, "${context.number}", -eq, "-5" ]
  - name: second
    command: [ echo, "${context.name}" ]
"#;

    let told = failed(text).await;

    assert!(told.contains("context.name begins with -"), "{told}");
}

#[tokio::test]
async fn a_value_never_leads_a_path_to_another_folder() {
    for value in ["../secret", "a/b", "."] {
        let text = format!(
            "job: path\nsteps:\n  - name: first\n    command: [ echo, '{{\"name\": \"{value}\"}}' ]\n    set: [name]\n  \
             - name: second\n    chunk: 10\n    read: {{ csv: {{ path: \"@/${{context.name}}\" }} }}\n    \
             write: {{ jsonl: {{ path: \"@/out.jsonl\" }} }}\n"
        );

        let told = failed(&text).await;

        assert!(told.contains("context.name becomes a part of a path and must not"), "{value}: {told}");
    }
}
