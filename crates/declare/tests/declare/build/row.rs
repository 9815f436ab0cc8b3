//! Rows between files and databases.

use super::Stand;
use tidemill_domain::job::BatchStatus;
use tidemill_store::item::Database;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_value_in_sql_is_bound_and_can_do_no_harm,
    a_cursor_fetches_as_many_rows_at_once_as_a_page_has,
    rows_go_from_another_database_by_the_name_of_its_connection,
];

async fn a_value_in_sql_is_bound_and_can_do_no_harm(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    stand
        .sql(&[
            "create table person (id bigint primary key, name text)",
            "insert into person values (1, 'Kim'), (2, '''; drop table person; --')",
        ])
        .await;
    let text = r#"
job: find
parameters: { name: { type: string }, out: { type: string } }
steps:
  - name: all
    chunk: 10
    read: { sql: { query: "select id, name from person where name = ${name} order by id", key: [id] } }
    write: { jsonl: { path: "@/${out}.jsonl" } }
"#;

    let evil = stand.run(text, &["name='; drop table person; --,string", "out=evil"]).await;
    let good = stand.run(text, &["name=Kim", "out=good"]).await;

    assert!(evil.is_completed() && good.is_completed(), "{:?} {:?}", evil.end, good.end);
    assert_eq!(stand.content("evil.jsonl"), "{\"id\":2,\"name\":\"'; drop table person; --\"}\n");
    assert_eq!(stand.content("good.jsonl"), "{\"id\":1,\"name\":\"Kim\"}\n");
    assert_eq!(stand.texts("select name from person order by id").await.len(), 2);
}

async fn rows_go_from_another_database_by_the_name_of_its_connection(scratch: Scratch) {
    let source = Stand::on(scratch).await;
    source.sql(&["create table sale (id bigint primary key, amount numeric(12,2), at timestamp)"]).await;
    for id in 1..=25 {
        let row = format!("insert into sale values ({id}, {id}.25, '2026-11-15 10:00:00')");
        source.sql(&[&row]).await;
    }
    let mut targets = vec![Scratch::file()];
    targets.extend(Scratch::postgres_with_schema().await);
    for target in targets {
        let mut stand = Stand::on(target).await;
        let database = Database::connect(source.scratch.url()).unwrap();
        stand.connections.insert("shop".into(), database);
        stand.sql(&["create table sold (id bigint primary key, cents bigint)"]).await;
        let text = r#"
job: sales
parameters: { from: { type: long, default: 1 } }
steps:
  - name: by_page
    chunk: 4
    read:
      sql: { query: "select id, cast(amount as text) as amount from sale where id > ${from}", key: id, connection: shop, page: 7 }
    process: { map: { id: "row.id", cents: "decimal(row.amount, 2)" } }
    write: { sql: { table: sold } }
  - name: at_once
    chunk: 4
    read: { sql: { query: "select id from sale order by id", connection: shop } }
    write: { csv: { path: "@/ids.csv", columns: [id] } }
"#;

        let run = stand.run(text, &[]).await;

        assert!(run.is_completed(), "{:?}", run.end);
        let step = run.step("by_page").unwrap();
        assert_eq!(step.counters.write, 24);
        let sum = stand.texts("select cast(sum(cents) as text) from sold").await;
        assert_eq!(sum, [(2..=25).map(|id| id * 100 + 25).sum::<i64>().to_string()]);
        assert_eq!(stand.content("ids.csv").lines().count(), 26);
    }
}

async fn a_cursor_fetches_as_many_rows_at_once_as_a_page_has(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let rows: Vec<String> = (1..=95).map(|id| format!("({id})")).collect();
    // The last one has no absolute value: what is fetched with it fails, what was fetched before does not.
    let insert = format!("insert into source values {}, (-9223372036854775808)", rows.join(", "));
    stand.sql(&["create table source (id bigint)", "create table target (id bigint)", &insert]).await;
    let text = r#"
job: by-tens
steps:
  - name: copy
    chunk: 10
    read: { sql: { query: "select abs(id) as id from source", page: 10 } }
    write: { sql: { table: target, columns: [id] } }
"#;
    let job = stand.job(&[text]);

    let failed = stand.launch(&job, &[]).await.unwrap();
    stand.sql(&["delete from source where id < 0"]).await;
    let again = stand.launch(&job, &[]).await.unwrap();

    assert_eq!(failed.end.status, BatchStatus::Failed);
    assert_eq!(failed.step("copy").unwrap().counters.write, 90, "nine fetches went well");
    assert!(again.is_completed(), "{:?}", again.end);
    assert_eq!(again.step("copy").unwrap().counters.write, 5);
    assert_eq!(stand.texts("select cast(sum(id) as text) from target").await, ["4560"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_one_kind_become_files_of_the_other() {
    let stand = Stand::on(Scratch::file()).await;
    stand.write("a1.jsonl", "{\"id\":1,\"name\":\"김\",\"price\":0.29}\n");
    stand.write("a2.jsonl", "{\"id\":2,\"price\":1.5,\"name\":null,\"tags\":[1]}\n[]\n");
    let text = r#"
job: convert
steps:
  - name: to_csv
    chunk: 10
    read: { jsonl: { path: "@/a*.jsonl" } }
    process: { filter: "row.id < 100" }
    write: { csv: { path: "@/out.csv", delimiter: ";", columns: [name, id, price] } }
    skip: { limit: 1, on: parse, reject: "@/rejects.jsonl" }
  - name: back
    chunk: 10
    read: { csv: { path: "@/out.csv", delimiter: ";" } }
    process: { map: { cents: "decimal(row.price, 2)", name: "row.name" } }
    write: { jsonl: { path: "@/back.jsonl" } }
"#;

    let run = stand.run(text, &[]).await;

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(stand.content("out.csv"), "name;id;price\n김;1;0.29\n;2;1.5\n");
    assert_eq!(
        stand.content("back.jsonl"),
        "{\"cents\":29,\"name\":\"김\"}\n{\"cents\":150,\"name\":\"\"}\n"
    );
    let reject: serde_json::Value = serde_json::from_str(&stand.content("rejects.jsonl")).unwrap();
    assert_eq!((&reject["kind"], &reject["item"]), (&"parse".into(), &"[]".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_column_that_is_not_there_fails_with_those_that_are() {
    let stand = Stand::on(Scratch::memory()).await;
    stand.write("in.csv", "id,amount\n1,2\n");
    let text = r#"
job: typo
steps:
  - name: s
    chunk: 1
    read: { csv: { path: "@/in.csv" } }
    process: { map: { a: "row.amuont" } }
    write: { jsonl: { path: "@/out.jsonl" } }
"#;

    let run = stand.run(text, &[]).await;

    assert_eq!(run.end.status, BatchStatus::Failed);
    let told = &run.end.exit.description;
    assert!(told.contains("there is no column \"amuont\"; there are id, amount"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fixed_width_files_are_read_and_written_by_positions_from_one() {
    let stand = Stand::on(Scratch::file()).await;
    stand.write("in.txt", "BALANCES\nKim   0001250 A\n이영희   0000007 B\n");
    let text = r#"
job: fixed
steps:
  - name: to_csv
    chunk: 10
    read: { fixed_width: { path: "@/in.txt", skip_lines: 1, columns: { name: 1-6, cents: 7-13, kind: 15 } } }
    process: { map: { kind: "row.kind", name: "row.name", cents: "int(row.cents)" } }
    write: { csv: { path: "@/out.csv", quote: "'", delimiter: ";" } }
  - name: back
    chunk: 10
    read: { csv: { path: "@/out.csv", quote: "'", delimiter: ";" } }
    write:
      fixed_width:
        path: "@/back.txt"
        columns: { kind: 10, cents: { at: 1-4, align: right, pad: "0" }, name: 5-9 }
"#;

    let run = stand.run(text, &[]).await;

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(stand.content("out.csv"), "kind;name;cents\nA;Kim;1250\nB;이영희;7\n");
    assert_eq!(stand.content("back.txt"), "1250Kim  A\n0007이영희  B\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn csv_can_have_other_quotes_comments_and_lines_before_its_header() {
    let stand = Stand::on(Scratch::file()).await;
    stand.write("in.csv", "exported 2026-11-15\nid;name\n# none\n1;'a;b'\n2;\"c\"\n");
    stand.write("plain.csv", "id,name\n1,\"a\n");
    stand.write("twice.csv", "id,name,id\n1,a,2\n");
    let job = |file: &str, options: &str| {
        format!(
            "job: {file}\nsteps:\n  - name: s\n    chunk: 1\n    read: {{ csv: {{ path: \"@/{file}.csv\"{options} }} }}\n    \
             write: {{ json: {{ path: \"@/{file}.json\" }} }}\n"
        )
    };

    let read =
        stand.run(&job("in", ", delimiter: ';', quote: \"'\", comment: '#', skip_lines: 1"), &[]).await;
    let plain = stand.run(&job("plain", ", quote: none"), &[]).await;
    let twice = stand.run(&job("twice", ""), &[]).await;

    assert!(read.is_completed() && plain.is_completed(), "{:?} {:?}", read.end, plain.end);
    let expected = "[\n{\"id\":\"1\",\"name\":\"a;b\"},\n{\"id\":\"2\",\"name\":\"\\\"c\\\"\"}\n]\n";
    assert_eq!(stand.content("in.json"), expected);
    assert_eq!(stand.content("plain.json"), "[\n{\"id\":\"1\",\"name\":\"\\\"a\"}\n]\n");
    let told = &twice.end.exit.description;
    assert!(told.contains("columns 1 and 3 are both named \"id\""), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn xml_records_become_rows_and_rows_become_xml() {
    let stand = Stand::on(Scratch::file()).await;
    stand.write(
        "in.xml",
        "<day><transaction id=\"1\"><amount>12.50</amount><memo>a &amp; b</memo></transaction>\n\
         <transaction id=\"2\"><amount>7</amount></transaction></day>",
    );
    let text = r#"
job: xml
steps:
  - name: to_xml
    chunk: 1
    read: { xml: { path: "@/in.xml", record: transaction, columns: [id, amount, memo] } }
    process: { map: { id: "int(row.id)", cents: "decimal(row.amount, 2)", memo: "row.memo" } }
    write: { xml: { path: "@/out.xml", record: payment, root: payments, attributes: [id] } }
"#;

    let run = stand.run(text, &[]).await;

    assert!(run.is_completed(), "{:?}", run.end);
    let expected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<payments>\n  \
        <payment id=\"1\"><cents>1250</cents><memo>a &amp; b</memo></payment>\n  \
        <payment id=\"2\"><cents>700</cents></payment>\n</payments>\n";
    assert_eq!(stand.content("out.xml"), expected);
}
