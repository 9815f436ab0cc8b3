//! The order of the sources, through the real binary; the details are tested beside the code.

use crate::Stage;
use std::fs;

fn origin_of(stage: &Stage, arguments: &[&str], key: &str) -> (String, String) {
    let mut all = vec!["config", "show", "--origin", "-o", "jsonl"];
    all.extend(arguments);
    let ran = stage.run(&all);
    let line =
        ran.succeeds().stdout.lines().find(|line| line.contains(&format!("\"{key}\""))).unwrap().to_owned();
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    let text = |name: &str| value[name].as_str().unwrap_or("").to_owned();
    (text("value"), text("origin"))
}

#[test]
fn each_source_wins_over_those_below() {
    let stage = Stage::new();
    let lease = |stage: &Stage| origin_of(stage, &[], "process.lease");
    assert_eq!(lease(&stage), (String::new(), "default".into()));

    fs::create_dir_all(stage.path("user/tidemill")).unwrap();
    fs::write(stage.path("user/tidemill/config.toml"), "process.lease = \"16s\"").unwrap();
    assert_eq!(lease(&stage).0, "16s");
    fs::write(stage.path("tidemill.toml"), "\n[process]\nlease = \"17s\"").unwrap();
    let (value, origin) = lease(&stage);
    assert_eq!(value, "17s");
    assert!(origin.ends_with("tidemill.toml:3:9"), "{origin}");
    fs::write(stage.path("other.toml"), "process.lease = \"18s\"").unwrap();
    assert_eq!(origin_of(&stage, &["--config", "other.toml"], "process.lease").0, "18s");
    let stage = stage.with("TIDEMILL_PROCESS_LEASE", "19s");
    assert!(lease(&stage).1.contains("TIDEMILL_PROCESS_LEASE"));

    assert!(origin_of(&stage, &["--database", "sqlite://x.db"], "database.url").1.contains("--database"));
}

#[test]
fn secrets_are_masked_and_files_of_secrets_are_read() {
    let stage = Stage::on("postgres://user:geheim@127.0.0.1:1/app");
    fs::write(stage.path("pw"), "sehr-geheim\n").unwrap();
    let stage = stage.with("TIDEMILL_DATABASE_PASSWORD_FILE", "pw");

    for arguments in [
        &["config", "show", "--origin"][..],
        &["-vvv", "config", "show"],
        &["-vvv", "doctor"],
        &["-vvv", "db", "status", "-o", "json"],
    ] {
        let ran = stage.run(arguments);
        assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("geheim"), "{ran:#?}");
    }
    assert_eq!(origin_of(&stage, &[], "database.url").0, "postgres://user:***@127.0.0.1:1/app");
}
