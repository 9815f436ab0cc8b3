//! The first run: what `init` writes is accepted, and does what it says next.

use crate::serve::Served;
use crate::{BINARY, Stage};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![what_is_written_is_accepted_and_runs_as_it_is_told,];

const WRITTEN: [&str; 3] = ["tidemill.toml", "jobs/payments.yaml", "payments.csv"];

async fn what_is_written_is_accepted_and_runs_as_it_is_told(database: Scratch) {
    let stage = Stage::on(database.url());
    let told = stage.run(&["init", "my batch"]).succeeds().stdout.clone();
    fs::create_dir(stage.path("bin")).unwrap();
    symlink(BINARY, stage.path("bin/tidemill")).unwrap();

    let steps = told.split_once("Next:\n").unwrap().1;
    let steps: Vec<&str> = steps.lines().map(str::trim).filter(|step| *step != "tidemill serve").collect();
    let path = format!("{}:{}", stage.path("bin").display(), std::env::var("PATH").unwrap());
    let script = format!(
        "cd 'my batch'\ntidemill db migrate\ntidemill config check\ntidemill job check jobs\ncd ..\n{}\n",
        steps.join("\n")
    );
    let mut shell = stage.dress(Command::new("sh"), &["-ec", &script]);
    let ran = crate::Ran::of(shell.env("PATH", path).output().unwrap());

    ran.succeeds();
    assert!(steps.len() == 3 && steps[0] == "cd 'my batch'", "{steps:?}");
    assert!(ran.stdout.contains("Files read: ") && ran.stdout.contains("tidemill.toml"), "{ran:#?}");
    let report = fs::read_to_string(stage.path("my batch/report-2026-11-15.csv")).unwrap();
    assert_eq!(report, "account,cents\nKR-001,2324\nKR-002,1250\n");
}

#[test]
fn a_server_in_the_folder_has_the_job() {
    let stage = Stage::new();
    let told = stage.run(&["init"]).succeeds().stdout.clone();
    assert!(told.ends_with("  tidemill serve\n") && !told.contains("cd "), "{told}");

    let served = Served::start(&stage, &[]);

    let (status, jobs) = served.get("/api/v1/jobs", None);
    assert!(status == 200 && jobs.contains("\"payments\""), "{jobs}");
}

#[test]
fn the_configuration_changes_nothing_but_the_folder_of_jobs() {
    let (before, after) = (Stage::new(), Stage::new());
    after.run(&["init"]).succeeds();

    let shown = |stage: &Stage| stage.run(&["config", "show", "-o", "csv"]).succeeds().stdout.clone();
    let (before, after) = (shown(&before), shown(&after));

    let changed: Vec<&str> = after.lines().filter(|line| !before.contains(line)).collect();
    assert_eq!(changed.len(), 1, "{changed:?}");
    assert!(changed[0].starts_with("jobs.folder,"), "{changed:?}");
}

#[test]
fn nothing_is_replaced_unless_somebody_says_so() {
    for name in WRITTEN {
        let stage = Stage::new();
        fs::create_dir(stage.path("jobs")).unwrap();
        // Also what could not be read as a configuration.
        fs::write(stage.path(name), "mine = [").unwrap();

        let ran = stage.run(&["init"]);

        ran.fails("TM0005", 5);
        assert!(ran.stderr.contains(name), "{ran:#?}");
        assert_eq!(fs::read_to_string(stage.path(name)).unwrap(), "mine = [");
        let others = WRITTEN.iter().filter(|other| **other != name);
        assert_eq!(others.filter(|other| stage.path(other).exists()).count(), 0, "{name}");

        stage.run(&["init", "--force"]).succeeds();
        assert!(!fs::read_to_string(stage.path(name)).unwrap().contains("mine"), "{name}");
        stage.run(&["config", "check"]).succeeds();
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let stage = Stage::new();
    fs::write(stage.path("file"), "").unwrap();

    let ran = stage.run(&["init", "file/below"]);

    ran.fails("TM0003", 1);
    assert!(ran.stderr.contains("file/below/tidemill.toml"), "{ran:#?}");
}
