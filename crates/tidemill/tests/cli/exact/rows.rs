//! Jobs that sort, leave out duplicates, look up and validate. They die at points of their chunks, and go on.

use super::writers::{execute, numbers};
use super::{another, die_at, go_on, stage};
use crate::examples::Program;
use serde_json::Value;
use std::fs;
use tidemill_store::item::Database;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![rows_that_are_sorted_checked_and_looked_up_are_exact];

/// In a chunk of the middle with refused rows, in the first one of duplicates only, and at the end.
const DEATHS: [&str; 5] = [
    "chunk_after_write:3",
    "chunk_before_commit:3",
    "chunk_after_commit:3",
    "chunk_before_commit:6",
    "chunk_after_commit:6",
];

const REFINE: &str = r#"job: refine
parameters: { run: { type: long, default: 1 } }
steps:
  - name: refine
    chunk: 10
    read: { csv: { path: in.csv } }
    process:
      sort: [{ by: "int(row.id)" }, "amount desc"]
      dedupe: id
      validate: { amount: { required: true, type: long, min: 0 } }
      lookup:
        country:
          read: { sql: { query: "select code, name from countries" } }
          key: code
          match: row.country
          columns: { country_name: name }
      map: { id: "int(row.id)", country: row.country_name }
    write: { sql: { table: refined } }
    skip: { limit: 20, on: validation, reject: rejects.jsonl }
"#;

const IDS: i64 = 50;

/// Each id once, in no order, and the even ones once more; with a text of this length. The rules refuse 3, 13 and so on;
/// the countries of 7, 17 and so on are unknown.
fn input(length: usize) -> String {
    let mixed = (1..=IDS).map(|n| n * 37 % IDS + 1).chain((1..=IDS).filter(|id| id % 2 == 0));
    let text = "x".repeat(length);
    let line = |id: i64| {
        let (amount, country) = (if id % 10 == 3 { -1 } else { id }, if id % 10 == 7 { "XX" } else { "KR" });
        format!("{id},{amount},{country},{text}\n")
    };
    std::iter::once("id,amount,country,text\n".to_owned()).chain(mixed.map(line)).collect()
}

fn is_refused(id: i64) -> bool {
    matches!(id % 10, 3 | 7)
}

async fn refined(database: &Scratch, program: &Program, death: &str, length: usize) {
    let store = database.store(None).await.unwrap();
    let own = Database::of(&store);
    execute(
        &own,
        &[
            "create table countries (code varchar(2) primary key, name varchar(20) not null)",
            "insert into countries (code, name) values ('KR', 'Korea'), ('US', 'America')",
            // Without a key, so that a second copy of a row would be seen.
            "create table refined (id bigint not null, country varchar(20) not null)",
        ],
    )
    .await;
    fs::write(program.stage.path("in.csv"), input(length)).unwrap();
    fs::write(program.stage.path("refine.yaml"), REFINE).unwrap();

    die_at(program, &["job", "run", "refine.yaml"], death);
    go_on(program, &["job", "run", "refine.yaml"]).succeeds();

    let expected: Vec<i64> = (1..=IDS).filter(|id| !is_refused(*id)).collect();
    let written = "select id from refined where country = 'Korea' order by id";
    assert_eq!(numbers(&own, written).await, expected, "death at {death}");
    let sum = "select cast(sum(read_count) as bigint) from batch_step_execution";
    let counts = async |column: &str| numbers(&own, &sum.replace("read_count", column)).await[0];
    let counted = [
        counts("read_count").await,
        counts("filter_count").await,
        counts("process_skip_count").await,
        counts("write_count").await,
    ];
    assert_eq!(counted, [75, 25, 10, 40], "death at {death}");
    let rejects = fs::read_to_string(program.stage.path("rejects.jsonl")).unwrap();
    let refused: Vec<i64> = rejects.lines().map(rejected).collect();
    assert_eq!(refused, (1..=IDS).filter(|id| is_refused(*id)).collect::<Vec<_>>(), "death at {death}");
}

/// The id of the row that a line of the rejects is about.
fn rejected(line: &str) -> i64 {
    let reject: Value = serde_json::from_str(line).unwrap();
    // A long item is cut off, so it is no JSON.
    let (_, rest) = reject["item"].as_str().unwrap().split_once("\"id\":\"").unwrap();
    rest.split('"').next().unwrap().parse().unwrap()
}

async fn rows_that_are_sorted_checked_and_looked_up_are_exact(kind: Scratch) {
    for death in DEATHS {
        let database = another(&kind).await;
        let program = Program::tidemill(stage(database.url()));

        refined(&database, &program, death, 1).await;
    }
}

/// 75 rows of 1 MB are more than a step keeps in memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_step_that_dies_has_sorted_on_disk_is_gone() {
    let database = Scratch::file();
    let stage = stage(database.url());
    let temporary = stage.path("tmp");
    let program = Program::tidemill(stage.with("TMPDIR", temporary.to_str().unwrap()));
    fs::create_dir(&temporary).unwrap();

    refined(&database, &program, "chunk_after_commit:3", 1_000_000).await;

    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
    // Without the folder, nothing can be sorted: so it was in use.
    fs::remove_dir(&temporary).unwrap();
    let again = program.run(&["job", "run", "refine.yaml", "-p", "run=2"]);
    assert!(again.stderr.contains("for what is being sorted cannot be used"), "{again:#?}");
}

const COLLECT: &str = "job: collect
steps:
  - name: collect
    chunk: 10
    read: { FORMAT: { path: 'in/*' } }
    process: { validate: { id: { type: long } } }
    write: { jsonl: { path: out.jsonl } }
    skip: { limit: 10, on: validation, reject: why.jsonl, reject_source: again }
";

/// The rows with these numbers have no id.
const BAD: [i64; 6] = [3, 17, 18, 31, 34, 50];

/// Before and after the first bad row is put aside, in the second file, and when all chunks are there.
const REJECT_DEATHS: [&str; 7] = [
    "chunk_after_write:1",
    "chunk_before_commit:1",
    "chunk_after_commit:1",
    "chunk_before_commit:2",
    "chunk_after_write:4",
    "chunk_after_commit:4",
    "chunk_after_commit:5",
];

/// Of two files with this header, each row that is refused is put aside once, under one header.
fn check_rejects(format: &str, header: &str, line: impl Fn(i64) -> String, deaths: &[&str]) {
    let lines = |keep: &dyn Fn(i64) -> bool, rows: std::ops::RangeInclusive<i64>| -> String {
        rows.filter(|n| keep(*n)).map(&line).collect()
    };
    for death in deaths {
        let database = Scratch::file();
        let program = Program::tidemill(stage(database.url()));
        fs::create_dir(program.stage.path("in")).unwrap();
        for (name, rows) in [("in/a", 1..=30), ("in/b", 31..=50)] {
            fs::write(program.stage.path(name), format!("{header}{}", lines(&|_| true, rows))).unwrap();
        }
        fs::write(program.stage.path("collect.yaml"), COLLECT.replace("FORMAT", format)).unwrap();

        die_at(&program, &["job", "run", "collect.yaml"], death);
        go_on(&program, &["job", "run", "collect.yaml"]).succeeds();

        let read = |name: &str| fs::read_to_string(program.stage.path(name)).unwrap();
        let bad = lines(&|n| BAD.contains(&n), 1..=50);
        assert_eq!(read("again"), format!("{header}{bad}"), "{format}, death at {death}");
        let count = |name: &str| read(name).lines().count();
        assert_eq!((count("why.jsonl"), count("out.jsonl")), (6, 44), "{format}, death at {death}");
        for left in ["again.part", "why.jsonl.part", "out.jsonl.part"] {
            assert!(!program.stage.path(left).exists(), "{left} is left over");
        }
    }
}

#[test]
fn rows_that_are_put_aside_in_the_format_of_their_file_are_there_once() {
    let id = |n: i64| if BAD.contains(&n) { format!("no {n}") } else { n.to_string() };
    check_rejects("csv", "id,name\n", |n| format!("{},\"a, \"\"b\"\"\"\n", id(n)), &REJECT_DEATHS);
    let line = |n: i64| format!("{{\"id\":\"{}\",\"name\":\"{n}\"}}\n", id(n));
    check_rejects("jsonl", "", line, &["chunk_before_commit:2", "chunk_after_commit:4"]);
}
