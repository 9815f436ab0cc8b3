//! The example of the guide "Beyond one machine": the same orders by partitions of several processes, and by Spark.

use crate::examples::Program;
use crate::{BINARY, Ran, Stage, workspace};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tidemill_store::scratch::Scratch;
use tidemill_store::sqlx;
use tidemill_testkit::{Signal, skip};

/// The variable that names the home of a Spark.
const SPARK_HOME: &str = "TIDEMILL_TEST_SPARK_HOME";

const PATIENCE: Duration = Duration::from_secs(180);

/// The first order of 2000, whatever the number of files.
const FIRST: &str = "\n1,2026-07-31,51,3,89.94,paid\n";

/// None when tests with Spark are to be skipped.
fn spark_home() -> Option<String> {
    skip::require("spark", std::env::var(SPARK_HOME).ok())
}

fn example(name: &str) -> String {
    workspace().join("examples/beyond").join(name).canonicalize().unwrap().display().to_string()
}

/// Runs a script of the example in the folder of the stage.
fn python(stage: &Stage, script: &str, arguments: &[&str]) -> Ran {
    let mut python = Command::new("python3");
    // Leaves nothing in the folder of the example.
    python.args(["-B", &example(script)]);
    Ran::of(stage.dress(python, arguments).output().unwrap())
}

/// The next instance of a job of the example.
fn run(program: &Program, file: &str, more: &[&str]) -> Ran {
    let file = example(file);
    program.run(&[&["job", "run", &file, "--next"], more].concat())
}

/// The cents of an order that was not cancelled.
fn cents(line: &str) -> Option<i64> {
    let cells: Vec<&str> = line.split(',').collect();
    let [_, _, _, quantity, price, status] = cells[..] else { panic!("this is no order: {line}") };
    let cents = price.replace('.', "").parse::<i64>().unwrap() * quantity.parse::<i64>().unwrap();
    (status == "paid").then_some(cents)
}

/// The number of orders and cents of all files.
fn sums(files: &[PathBuf]) -> (i64, i64) {
    let texts: Vec<String> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let paid: Vec<i64> = texts.iter().flat_map(|text| text.lines().skip(1).filter_map(cents)).collect();
    (i64::try_from(paid.len()).unwrap(), paid.iter().sum())
}

/// The same as the job has them.
async fn sums_of_totals(database: &Scratch) -> (i64, i64) {
    let query = "select cast(sum(orders) as bigint), cast(sum(cents) as bigint) from beyond_totals";
    let store = database.store(None).await.unwrap();
    let mut tx = store.read().await.unwrap();
    let sums = sqlx::query_as(query).fetch_one(tx.postgres().unwrap()).await.unwrap();
    tx.rollback().await.unwrap();
    store.close().await;
    sums
}

/// Only on PostgreSQL, because Spark takes its time: the next test compares both ways on SQLite.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_ways_come_to_the_same_totals_and_a_changed_order_is_found() {
    let Some(home) = spark_home() else { return };
    let Some(database) = Scratch::postgres_with_schema().await else { return };
    let stage = Stage::on(database.url()).with("SPARK_HOME", &home);
    python(&stage, "generate.py", &["--orders", "2000", "--files", "4", "data"]).succeeds();
    let program = Program::tidemill(stage);
    let orders: Vec<PathBuf> =
        (0..4).map(|n| program.stage.path(&format!("data/orders-00{n}.csv"))).collect();
    let mut worker = program.start("worker.log", &["job", "work", "--jobs", &example(""), "--slots", "1"]);
    let app = format!("app={}", example("orders.py"));

    run(&program, "partitioned.yaml", &[]).succeeds();
    run(&program, "spark.yaml", &["-p", &app, "-p", "master=local[2]"]).succeeds();
    run(&program, "compare.yaml", &[]).succeeds();
    assert_eq!(sums_of_totals(&database).await, sums(&orders));

    // One way gets an order that costs a cent more.
    let text = fs::read_to_string(&orders[0]).unwrap();
    assert!(text.contains(FIRST), "{text}");
    fs::write(&orders[0], text.replacen(FIRST, &FIRST.replace("89.94", "89.95"), 1)).unwrap();
    for file in &orders {
        fs::remove_file(format!("{}.clean", file.display())).unwrap();
    }
    run(&program, "partitioned.yaml", &[]).succeeds();
    let different = run(&program, "compare.yaml", &[]);

    assert_eq!(different.code, Some(10), "{different:#?}");
    // The row of each way.
    assert!(different.stderr.contains("expected rows == 0; found rows = 2"), "{different:#?}");
    worker.signal(Signal::TERM).unwrap();
    assert!(worker.wait_deadline(PATIENCE).unwrap().success());
}

#[test]
fn the_script_that_measures_prints_the_table_of_the_guide() {
    let Some(home) = spark_home() else { return };
    let database = Scratch::file();
    let stage = Stage::on(database.url()).with("TIDEMILL_DATABASE_INIT", "always").with("SPARK_HOME", &home);
    let guide = fs::read_to_string(workspace().join("docs/guide/beyond.md")).unwrap();

    let few = ["--sizes", "2000", "--workers", "2", "--files", "4"];
    let ran = python(&stage, "measure.py", &[&["--binary", BINARY], &few[..]].concat());

    let table: Vec<&str> = ran.succeeds().stdout.lines().collect();
    assert!(guide.contains(&format!("\n{}\n{}\n", table[0], table[1])), "{table:#?}");
    let expected = ["clean | 2,000 | partitions", "totals | 2,000 | partitions"]
        .into_iter()
        .chain(["clean | 2,000 | Spark", "totals | 2,000 | Spark"]);
    let expected: Vec<String> = expected.map(|row| format!("| {row} | 2 | ")).collect();
    assert_eq!(table.len(), 2 + expected.len(), "{table:#?}");
    assert!(table[2..].iter().zip(&expected).all(|(row, begin)| row.starts_with(begin)), "{table:#?}");
}
