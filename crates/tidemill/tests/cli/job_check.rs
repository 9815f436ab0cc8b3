//! `job check`: what a job file would run, or everything that is wrong with it; and no database is touched.

use crate::{Ran, Stage, workspace};
use serde_json::Value;
use std::fs;

const JOB: &str = r#"job: transfers
description: Loads the transfers of a day.
parameters:
  date: { type: date, required: true }
  pace: { type: long, identifying: false, default: 5 }
steps:
  - name: load
    chunk: 1000
    read: { sql: { query: "select id, amount from t where day = ${date}", key: id, connection: shop } }
    process: { map: { id: "row.id", cents: "decimal(row.amount, 2)" } }
    write: { sql: { table: transfers, mode: copy } }
    on: { FAILED: end(PARTLY), "*": next }
  - name: report
    command: ["./report.sh", "${date}"]
"#;

const CONNECTION: &str =
    "[connections.shop]\nurl = \"postgres://reader@127.0.0.1:1/shop\"\npassword = \"env:SHOP\"\n";

/// A stage whose database nobody serves.
fn stage() -> Stage {
    let stage = Stage::on("postgres://nobody@127.0.0.1:1/x").with("SHOP", "geheim");
    fs::write(stage.path("tidemill.toml"), CONNECTION).unwrap();
    fs::create_dir(stage.path("jobs")).unwrap();
    fs::write(stage.path("jobs/transfers.yaml"), JOB).unwrap();
    stage
}

fn check(stage: &Stage, arguments: &[&str]) -> Ran {
    let mut all = vec!["job", "check"];
    all.extend(arguments);
    let ran = stage.run(&all);
    assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("geheim"), "{ran:#?}");
    ran
}

#[test]
fn a_good_file_is_told_in_words() {
    let ran = check(&stage(), &["jobs/transfers.yaml"]);

    let text = &ran.succeeds().stdout;
    for line in [
        "job transfers (jobs/transfers.yaml)",
        "  Loads the transfers of a day.",
        "  parameter date (date, required, identifying)",
        "  parameter pace (long, \"5\" unless given, not identifying)",
        "  step load: chunks of 1000 from sql on shop to table transfers (copy)",
        "    on FAILED: end(PARTLY)",
        "  step report: command ./report.sh ${date}",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn a_good_folder_is_told_for_programs() {
    let stage = stage();
    let other = "job: nightly\nparameters: { date: { type: date, required: true } }\nsteps:\n  - name: one\n    job: transfers\n";
    fs::write(stage.path("jobs/nightly.yml"), other).unwrap();

    let ran = check(&stage, &["jobs", "-o", "json"]);

    let found: Value = serde_json::from_str(&ran.succeeds().stdout).unwrap();
    assert_eq!(found["schema"], "tidemill.job_file/v1");
    let items = found["items"].as_array().unwrap();
    assert_eq!((&items[0]["job"], &items[1]["job"]), (&"nightly".into(), &"transfers".into()));
    assert_eq!(items[1]["steps"][0]["on"][0]["target"], "end(PARTLY)");
    assert_eq!(items[1]["parameters"][1]["default"], "5");
    assert_eq!(items[1]["fingerprint"].as_str().unwrap().len(), 64);
}

#[test]
fn every_fault_is_told_at_once_with_its_place_and_its_line() {
    let stage = stage();
    let wrong = JOB.replace("chunk:", "chnk:").replace("./report.sh\", \"${date}", "./report.sh\", \"${dat}");
    fs::write(stage.path("jobs/transfers.yaml"), wrong.replace("key: id,", "key: id, pages: 4,")).unwrap();

    let ran = check(&stage, &["jobs/transfers.yaml"]);

    ran.fails("TM1020", 2);
    assert!(ran.stderr.contains("jobs/transfers.yaml:8:5: unknown key \"chnk\""), "{}", ran.stderr);
    assert!(ran.stderr.contains("\n  8 |     chnk: 1000\n    |     ^^^^\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("fix: did you mean chunk?"), "{}", ran.stderr);
    assert!(ran.stderr.contains("jobs/transfers.yaml:14:31: ${dat} names no parameter"), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("\n3 problems in 1 file\n"), "{}", ran.stderr);
}

#[test]
fn several_paths_are_checked_at_once() {
    let stage = stage();
    fs::create_dir(stage.path("more")).unwrap();
    fs::write(stage.path("more/caller.yaml"), "job: caller\nsteps:\n  - name: one\n    job: broken\n")
        .unwrap();
    fs::write(stage.path("more/broken.yaml"), "job: broken\nstepps: []\nsteps: 5\n").unwrap();
    fs::write(stage.path("alone.yaml"), "job: alone\nsteps:\n  - name: one\n    sql: \"${x}\"\n").unwrap();

    let ran = check(&stage, &["jobs/transfers.yaml", "more", "alone.yaml"]);

    ran.fails("TM1020", 2);
    assert!(ran.stderr.contains("alone.yaml:4:11: ${x} names no parameter"), "{}", ran.stderr);
    assert!(ran.stderr.contains("more/broken.yaml:2:1: unknown key"), "{}", ran.stderr);
    assert!(ran.stderr.contains("more/broken.yaml:3:8: steps is a list of steps"), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("\n3 problems in 2 files\n"), "{}", ran.stderr);
}

#[test]
fn faults_are_told_for_programs_too() {
    let stage = stage();
    let wrong = JOB.replace("connection: shop", "connection: shpo").replace("row.id", "rwo.id");
    fs::write(stage.path("jobs/transfers.yaml"), wrong).unwrap();

    let ran = check(&stage, &["jobs/transfers.yaml", "-o", "json"]);

    let told: Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!((ran.code, &told["code"]), (Some(2), &"TM1020".into()));
    let [connection, variable] = told["errors"].as_array().unwrap().as_slice() else { panic!("{told}") };
    assert_eq!((&connection["at"]["line"], &connection["remedy"]), (&9.into(), &"did you mean shop?".into()));
    assert_eq!(
        variable["at"],
        serde_json::json!({ "file": "jobs/transfers.yaml", "line": 10, "column": 28 })
    );
    assert_eq!(variable["remedy"], "did you mean row?");
}

#[test]
fn a_connection_that_the_configuration_does_not_have_is_a_fault() {
    let stage = stage();
    fs::remove_file(stage.path("tidemill.toml")).unwrap();

    let ran = check(&stage, &["jobs"]);

    ran.fails("TM1020", 2);
    assert!(ran.stderr.contains("there is no connection \"shop\""), "{}", ran.stderr);
    assert!(ran.stderr.contains("add [connections.shop] with its url"), "{}", ran.stderr);
}

#[test]
fn the_faults_of_a_folder_are_told_by_their_files() {
    let folder = workspace().join("tests/bad_jobs/56-jobs-in-a-circle");

    let ran = check(&stage(), &[folder.to_str().unwrap()]);

    ran.fails("TM1020", 2);
    assert_eq!(ran.stderr.matches("error[TM1020]").count(), 2, "{}", ran.stderr);
}

#[test]
fn what_is_not_there_is_told() {
    let stage = stage();
    fs::create_dir(stage.path("empty")).unwrap();

    for (path, what) in
        [("nowhere.yaml", "cannot be read"), ("empty", "has no job files"), ("/dev/null", "no regular file")]
    {
        let ran = check(&stage, &[path]);
        ran.fails("TM1020", 2);
        assert!(ran.stderr.contains(what), "{path}: {}", ran.stderr);
    }
}
