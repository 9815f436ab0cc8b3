//! `job test`: jobs run on sample inputs, and what differs from what is expected is shown.

use crate::{Ran, Stage, workspace};
use serde_json::Value;
use std::fs;
use tidemill_testkit::moto::{PYTHON, PrivateMoto};
use tidemill_testkit::skip;

const JOB: &str = r#"job: rates
parameters: { day: { type: date, required: true } }
steps:
  - name: load
    chunk: 2
    read: { csv: { path: in/rates.csv } }
    process: { map: { code: "row.code", rate: "decimal(row.rate, 2)" } }
    write: { sql: { table: rate, mode: upsert, key: code } }
  - name: shop
    chunk: 10
    read: { sql: { query: "select code, name from currency", key: code, connection: shop } }
    write: { csv: { path: "names-${day}.csv", columns: [code, name] } }
"#;

const TEST: &str = r#"# Kept.
cases:
  - name: new and changed rates
    parameters: { day: 2026-11-15 }
    given:
      files:
        in/rates.csv: |
          code,rate
          USD,1390.50
          EUR,1500
      sql: create table rate (code text primary key, rate bigint)
      tables:
        rate: [{ code: EUR, rate: 1 }, { code: JPY, rate: null }]
      connections:
        shop:
          sql: create table currency (code text primary key, name text)
          tables:
            currency: |
              code,name
              EUR,Euro
              USD,US dollar
    expect:
      steps:
        load: { read: 2, written: 2 }
      tables:
        rate:
          - { code: EUR, rate: 150000 }
          - { code: JPY, rate: null }
          - { code: USD, rate: 139050 }
      files:
        names-2026-11-15.csv: "code,name\nEUR,Euro\nUSD,US dollar\n"

  # Kept too.
  - name: nothing there
    parameters: { day: 2026-11-16 }
    given:
      files: { in/rates.csv: "code,rate\n" }
      sql: create table rate (code text primary key, rate bigint)
      connections: { shop: { sql: "create table currency (code text primary key, name text)" } }
    expect: { status: COMPLETED, tables: { rate: [] } }
"#;

/// A stage without a database, with this test beside the job.
fn stage(test: &str) -> Stage {
    let stage = Stage::on("postgres://nobody@127.0.0.1:1/x");
    fs::create_dir(stage.path("jobs")).unwrap();
    fs::write(stage.path("jobs/rates.yaml"), JOB).unwrap();
    fs::write(stage.path("jobs/rates.test.yaml"), test).unwrap();
    stage
}

fn ends(ran: &Ran, code: i32) -> String {
    assert_eq!(ran.code, Some(code), "{ran:#?}");
    ran.stdout.clone()
}

#[test]
fn the_examples_pass_their_tests() {
    let examples = workspace().join("examples/jobs").canonicalize().unwrap();

    let told = Stage::new().run(&["job", "test", examples.to_str().unwrap()]).succeeds().stdout.clone();

    assert!(told.ends_with("2 passed, 0 failed\n"), "{told}");
}

#[test]
fn a_job_that_does_what_is_expected_passes_without_a_database_or_files_of_its_own() {
    let stage = stage(TEST);

    for path in ["jobs", "jobs/rates.yaml", "jobs/rates.test.yaml"] {
        let told = ends(&stage.run(&["job", "test", path]), 0);
        assert!(told.contains("ok      jobs/rates.test.yaml: new and changed rates\n"), "{told}");
        assert!(told.ends_with("2 passed, 0 failed\n"), "{told}");
    }

    let left: Vec<_> =
        fs::read_dir(stage.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["jobs"], "the job wrote elsewhere");
    fs::write(stage.path("tidemill.toml"), "[connections.shop]\nurl = \"sqlite:shop.db\"\n").unwrap();
    stage.run(&["job", "check", "jobs"]).succeeds();
}

#[test]
fn differences_are_shown_row_by_row_and_line_by_line() {
    let wrong = TEST
        .replace(
            "{ code: USD, rate: 139050 }",
            "{ code: USD, rate: 139000 }\n          - { code: CHF, rate: 9 }",
        )
        .replace("          - { code: JPY, rate: null }\n", "")
        .replace("US dollar\\n\"", "Dollar\\n\"")
        .replace("written: 2", "written: 3");
    let stage = stage(&wrong);

    let told = ends(&stage.run(&["job", "test", "jobs/rates.yaml"]), 1);

    assert_eq!(
        told,
        "FAILED  jobs/rates.test.yaml: new and changed rates
  step load: written is 2, expected 3
  table rate: 3 differences
    changed  code=USD: rate is 139050, expected 139000
    missing  code=CHF rate=9
    extra    code=JPY rate=null
  file names-2026-11-15.csv: 2 differences
    -    3  USD,Dollar
    +    3  USD,US dollar
ok      jobs/rates.test.yaml: nothing there
1 passed, 1 failed
"
    );
    let json = ends(&stage.run(&["job", "test", "jobs/rates.yaml", "-o", "json"]), 1);
    let found: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(found["items"][0]["is_passed"], false);
    assert_eq!(found["items"][1]["differences"], Value::Array(Vec::new()));
}

#[test]
fn files_are_compared_byte_by_byte() {
    let test = TEST.replace(
        r#"names-2026-11-15.csv: "code,name\nEUR,Euro\nUSD,US dollar\n""#,
        "names-2026-11-15.csv: { from: golden.csv }",
    );
    let stage = stage(&test);
    let run = || stage.run(&["job", "test", "jobs/rates.yaml"]);

    run().fails("TM1020", 2);
    fs::write(stage.path("jobs/golden.csv"), "code,name\nEUR,Euro\nUSD,US dollar\n").unwrap();
    ends(&run(), 0);
    fs::write(stage.path("jobs/golden.csv"), b"code,name\nEUR,\xff\n").unwrap();
    let told = ends(&run(), 1);
    assert!(told.contains("file names-2026-11-15.csv has other bytes than expected"), "{told}");
}

#[test]
fn an_empty_expectation_fails_until_it_is_filled_in() {
    let empty = "cases:
  - name: first
    parameters: { day: 2026-11-15 }
    given:
      files: { in/rates.csv: \"code,rate\\nUSD,1.5\\n\" }
      sql: create table rate (code text primary key, rate bigint)
      tables: { rate: [] }
      connections: { shop: { sql: \"create table currency (code text, name text)\" } }
    expect:
";
    let stage = stage(empty);

    let told = ends(&stage.run(&["job", "test", "jobs/rates.yaml"]), 1);

    assert!(told.contains("expect is empty"), "{told}");
}

#[test]
fn a_test_that_cannot_be_read_or_set_up_is_refused_with_its_place() {
    let misspelt = stage(&TEST.replace("status: COMPLETED", "sttaus: COMPLETED"));
    let ran = misspelt.run(&["job", "test", "jobs/rates.yaml"]);
    ran.fails("TM1020", 2);
    assert!(
        ran.stderr.contains("jobs/rates.test.yaml:40:15: unknown key \"sttaus\" in expect"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("did you mean status?"), "{}", ran.stderr);

    let outside = stage(&TEST.replace("in/rates.csv: |", "../rates.csv: |"));
    let ran = outside.run(&["job", "test", "jobs"]);
    assert!(ran.stderr.contains("leads out of the folder of the test"), "{}", ran.stderr);

    let broken = stage(&TEST.replace("sql: create table rate", "sql: creat table rate"));
    let ran = broken.run(&["job", "test", "jobs"]);
    assert!(ran.stderr.contains("the case \"new and changed rates\" cannot run"), "{}", ran.stderr);

    let none = stage(TEST);
    fs::remove_file(none.path("jobs/rates.test.yaml")).unwrap();
    let ran = none.run(&["job", "test", "jobs/rates.yaml"]);
    ran.fails("TM1020", 2);
    assert!(ran.stderr.contains("jobs/rates.yaml has no test"), "{}", ran.stderr);
}

#[test]
fn a_job_that_does_not_start_fails_its_case() {
    let stage = stage(&TEST.replace("day: 2026-11-16", "dya: 2026-11-16"));

    let told = ends(&stage.run(&["job", "test", "jobs"]), 1);

    assert!(told.contains("FAILED  jobs/rates.test.yaml: nothing there\n  the job did not start"), "{told}");
}

#[test]
fn objects_are_read_and_written_for_real() {
    let Some(python) = skip::require("moto", std::env::var_os(PYTHON)) else { return };
    let server = PrivateMoto::start(&python).unwrap();
    server.put("in.csv", b"id\n1\n").unwrap();
    let test = "cases: [{ name: copied, expect: { steps: { copy: { read: 1, written: 1 } } } }]\n";
    let stage = server.variables().iter().fold(stage(TEST), |stage, (name, value)| stage.with(name, value));
    let job = "job: copy
steps:
  - name: copy
    chunk: 10
    read: { csv: { path: 's3://lake/in.csv' } }
    write: { csv: { path: 's3://lake/out.csv', columns: [id] } }
";
    fs::write(stage.path("jobs/copy.yaml"), job).unwrap();
    fs::write(stage.path("jobs/copy.test.yaml"), test).unwrap();

    ends(&stage.run(&["job", "test", "jobs/copy.yaml"]), 0);

    assert_eq!(server.get("out.csv").unwrap().as_deref(), Some(&b"id\n1\n"[..]));
}
