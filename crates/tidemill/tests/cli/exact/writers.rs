//! Jobs that write to several targets or to another database: they die at points of their chunks, and go on.

use super::{another, die_at, go_on, stage};
use crate::examples::Program;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use tidemill_domain::item::Value;
use tidemill_domain::job::ExecutionContext;
use tidemill_store::item::{CursorReader, Database, SqlQuery};
use tidemill_store::scratch::Scratch;
use tidemill_testkit::skip;

tidemill_store::on_both![
    tables_and_files_that_are_written_together_are_exact,
    another_database_of_the_same_kind_has_each_row_at_least_once,
];

/// The variable that names a MySQL or MariaDB.
const MYSQL_URL: &str = "TIDEMILL_TEST_MYSQL_URL";

const ROWS: i64 = 50;
const CHUNK: i64 = 10;

/// In a chunk of the middle, where rows of another database are there and the chunk is not; and at the end.
const DEATHS: [&str; 4] =
    ["chunk_after_write:3", "chunk_before_commit:3", "chunk_after_commit:3", "chunk_after_commit:5"];

/// A job of one step that reads the numbers from 1 on.
fn job(write: &str) -> String {
    format!(
        "job: spread\nsteps:\n  - name: spread\n    chunk: {CHUNK}\n    read: {{ csv: {{ path: in.csv }} }}\n    \
         process: {{ map: {{ id: int(row.id), kind: int(row.id) % 3 }} }}\n    write: {write}\n"
    )
}

/// Lets the job die at the point, and go on to its end.
fn run(program: &Program, write: &str, death: &str) {
    let lines: String = (1..=ROWS).map(|id| format!("{id}\n")).collect();
    std::fs::write(program.stage.path("in.csv"), format!("id\n{lines}")).unwrap();
    std::fs::write(program.stage.path("spread.yaml"), job(write)).unwrap();
    die_at(program, &["job", "run", "spread.yaml"], death);
    go_on(program, &["job", "run", "spread.yaml"]).succeeds();
}

pub(super) async fn execute(database: &Database, statements: &[&str]) {
    let statements: Vec<SqlQuery> = statements.iter().map(|text| SqlQuery::new(*text)).collect();
    database.run_statements(&statements).await.unwrap();
}

pub(super) async fn numbers(database: &Database, query: &str) -> Vec<i64> {
    let mut reader = CursorReader::new("rows", database.clone(), SqlQuery::new(query));
    reader.open(&ExecutionContext::new()).await.unwrap();
    let mut numbers = Vec::new();
    while let Some(row) = reader.read().await.unwrap() {
        let Value::Long(number) = row.values()[0] else { panic!("{row:?}") };
        numbers.push(number);
    }
    reader.close().await;
    numbers
}

const SPREAD: &str = r#"
      - choose:
          - { when: "row.kind == 0", to: { sql: { table: zeros, columns: [id] } } }
          - { when: "row.kind == 1", to: [{ sql: { table: gone, mode: delete, on: id } }, { csv: { path: ones.csv, columns: [id] } }] }
          - { else: { sql: { table: twos, mode: upsert, on: id } } }
      - sql: { statement: "insert into said (id) values (:id)" }
      - jsonl: { path: all.jsonl }
"#;

/// A procedure that inserts into the table `called`, where there are procedures.
fn procedure(url: &str) -> Option<&'static str> {
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("sqlite") => None,
        Some("postgres" | "postgresql") => {
            Some("create procedure keep(n bigint) language sql as 'insert into called (id) values (n)'")
        }
        _ => Some("create procedure keep(n bigint) insert into called (id) values (n)"),
    }
}

async fn tables_and_files_that_are_written_together_are_exact(kind: Scratch) {
    for death in DEATHS {
        let database = another(&kind).await;
        let store = database.store(None).await.unwrap();
        let own = Database::of(&store);
        execute(
            &own,
            &[
                // Without a key, so that a second copy of a row would be seen.
                "create table zeros (id bigint not null)",
                "create table gone (id bigint not null)",
                "insert into gone (id) values (1), (2), (49)",
                "create table twos (id bigint primary key, kind bigint not null)",
                "create table said (id bigint not null)",
                "create table called (id bigint not null)",
            ],
        )
        .await;
        let program = Program::tidemill(stage(database.url()));
        let mut write = SPREAD.to_owned();
        if let Some(procedure) = procedure(database.url()) {
            execute(&own, &[procedure]).await;
            write.push_str("      - sql: { call: \"keep(:id)\" }\n");
        }

        run(&program, &write, death);

        let of = |kind: i64| (1..=ROWS).filter(|id| id % 3 == kind).collect::<Vec<_>>();
        assert_eq!(numbers(&own, "select id from zeros order by id").await, of(0), "{death}");
        assert_eq!(numbers(&own, "select id from twos order by id").await, of(2), "{death}");
        assert_eq!(numbers(&own, "select id from gone order by id").await, [2], "{death}");
        let all: Vec<i64> = (1..=ROWS).collect();
        assert_eq!(numbers(&own, "select id from said order by id").await, all, "{death}");
        let called = procedure(database.url()).map_or_else(Vec::new, |_| all);
        assert_eq!(numbers(&own, "select id from called order by id").await, called, "{death}");
        let ones: String = of(1).iter().map(|id| format!("{id}\n")).collect();
        let read = |name: &str| std::fs::read_to_string(program.stage.path(name)).unwrap();
        assert_eq!(read("ones.csv"), format!("id\n{ones}"), "{death}");
        let all: String = (1..=ROWS).map(|id| format!("{{\"id\":{id},\"kind\":{}}}\n", id % 3)).collect();
        assert_eq!(read("all.jsonl"), all, "{death}");
    }
}

const ELSEWHERE: &str = r#"
      - sql: { table: kept, mode: upsert, on: id, connection: shop }
      - sql: { table: gone, mode: delete, on: id, connection: shop }
      - sql: { table: added, columns: [id], connection: shop }
      - sql: { statement: "insert into said (id) values (:id)", connection: shop }
"#;

/// With `connection: shop`: by upsert and delete what is there is exact; by insert, statement and procedure each row is there, and
/// at most one chunk twice.
async fn check_elsewhere(own: &Scratch, shop_url: &str, shop: &Database, death: &str) {
    execute(
        shop,
        &[
            "create table kept (id bigint primary key, kind bigint not null)",
            "insert into kept (id, kind) values (7, 99), (1000, 99)",
            "create table gone (id bigint not null)",
            "insert into gone (id) values (1), (50), (1000)",
            "create table added (id bigint not null)",
            "create table said (id bigint not null)",
            "create table called (id bigint not null)",
        ],
    )
    .await;
    let program = Program::tidemill(stage(own.url()));
    std::fs::write(
        program.stage.path("tidemill.toml"),
        format!("[connections.shop]\nurl = \"{shop_url}\"\n"),
    )
    .unwrap();
    let mut write = ELSEWHERE.to_owned();
    let mut repeated = vec!["added", "said"];
    if let Some(procedure) = procedure(shop_url) {
        execute(shop, &[procedure]).await;
        write.push_str("      - sql: { call: \"keep(:id)\", connection: shop }\n");
        repeated.push("called");
    }

    run(&program, &write, death);

    let all: Vec<i64> = (1..=ROWS).collect();
    assert_eq!(numbers(shop, "select id from kept where kind <> 99 order by id").await, all, "{death}");
    assert_eq!(numbers(shop, "select id from kept where kind = 99").await, [1000], "{death}");
    assert_eq!(numbers(shop, "select id from gone").await, [1000], "{death}");
    let is_repeated = death.starts_with("chunk_after_write") || death.starts_with("chunk_before_commit");
    let expected = ROWS + if is_repeated { CHUNK } else { 0 };
    for table in repeated {
        let found = numbers(shop, &format!("select id from {table}")).await;
        let distinct: Vec<i64> = found.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
        assert_eq!((distinct, found.len() as i64), (all.clone(), expected), "{table}, {death}");
    }
}

async fn another_database_of_the_same_kind_has_each_row_at_least_once(own: Scratch) {
    for death in &DEATHS[..3] {
        let (own, shop) = (another(&own).await, another(&own).await);
        let store = shop.store(None).await.unwrap();
        check_elsewhere(&own, shop.url(), &Database::of(&store), death).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql_has_each_row_at_least_once() {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let Some(url) = skip::require("mysql", std::env::var(MYSQL_URL).ok()) else { return };
    let server = Database::connect(&url).unwrap();
    let (place, _) = url.rsplit_once('/').unwrap();
    for death in &DEATHS[..3] {
        let name = format!("tm_writers_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        execute(&server, &[&format!("create database {name}")]).await;
        let url = format!("{place}/{name}");

        check_elsewhere(&Scratch::file(), &url, &Database::connect(&url).unwrap(), death).await;

        execute(&server, &[&format!("drop database {name}")]).await;
    }
}
