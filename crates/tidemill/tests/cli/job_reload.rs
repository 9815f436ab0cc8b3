//! Job files with mistakes, and files that change while a server runs.

use crate::serve::Served;
use crate::{Ran, Stage};
use serde_json::Value;
use std::fs;
use std::time::Duration;

/// A job with one command, `sh -c SCRIPT`.
fn job(name: &str, script: &str) -> String {
    format!("job: {name}\nsteps:\n  - name: run\n    command: [\"sh\", \"-c\", \"{script}\"]\n")
}

/// With files in `jobs`, the folder that is used without configuration.
fn stage(files: &[(&str, &str)]) -> Stage {
    let stage = Stage::new();
    fs::create_dir(stage.path("jobs")).unwrap();
    for (name, text) in files {
        fs::write(stage.path("jobs").join(name), text).unwrap();
    }
    stage
}

/// `good` loads, `bad` has three mistakes, and `twin` is declared twice.
fn mixed() -> Stage {
    stage(&[
        (
            "bad.yaml",
            "job: bad\nsteps:\n  - name: run\n    comand: [\"true\"]\n  - nam: x\n    sql: select 1\n",
        ),
        ("good.yaml", &job("good", "true")),
        ("twin-1.yaml", &job("twin", "true")),
        ("twin-2.yaml", &job("twin", "false")),
    ])
}

const MISTAKE: &str = "jobs/bad.yaml:4:5: unknown key \"comand\" in a step";

#[track_caller]
pub(crate) fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    for _ in 0..3_600 {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("in vain: {what}");
}

fn get(served: &Served, path: &str) -> Value {
    serde_json::from_str(&served.get(path, None).1).unwrap()
}

fn launch(served: &Served, job: &str) -> (u16, Value) {
    let (status, body) = served.post(&format!("/api/v1/jobs/{job}/executions"), "{}");
    (status, serde_json::from_str(&body).unwrap())
}

/// Whether the server can launch the job.
fn is_loaded(served: &Served, job: &str) -> bool {
    get(served, &format!("/api/v1/jobs/{job}"))["definition"].is_object()
}

fn until_status(served: &Served, execution: &Value, status: &str) {
    let path = format!("/api/v1/executions/{}", execution["id"]);
    until(status, || (get(served, &path)["execution"]["status"] == status).then_some(()));
}

#[test]
fn commands_work_with_the_valid_files_and_name_the_others() {
    let stage = mixed();

    let listed = stage.run(&["job", "list", "-o", "csv"]);
    assert!(listed.succeeds().stdout.contains("good") && !listed.stdout.contains("bad"), "{listed:#?}");
    let warnings: Vec<&str> = listed.stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(warnings.len(), 3, "{listed:#?}");
    assert!(warnings[0].contains(MISTAKE) && warnings[0].contains("(and 2 more)"), "{warnings:?}");
    assert!(warnings[2].contains("jobs/twin-2.yaml:1:6: two files declare the job \"twin\""), "{warnings:?}");
    stage.run(&["job", "run", "good"]).succeeds();
    let refused = |ran: Ran, what: &str| {
        ran.fails("TM1020", 2);
        assert!(ran.stderr.contains(what), "{ran:#?}");
    };
    refused(stage.run(&["job", "run", "bad"]), MISTAKE);
    refused(stage.run(&["job", "run", "twin"]), "two files declare the job");
    let doctor = stage.run(&["doctor"]);
    assert_eq!(doctor.code, Some(1), "{doctor:#?}");
    assert!(doctor.stdout.contains("✗ job files") && doctor.stdout.contains(MISTAKE), "{doctor:#?}");
}

#[test]
fn a_server_runs_the_valid_files_and_shows_the_others() {
    let stage = mixed();
    let served = Served::start(&stage, &[]);

    let log = fs::read_to_string(stage.path("serve.log")).unwrap();
    assert!(log.contains("ERROR") && log.contains(MISTAKE), "{log}");
    for page in ["/", "/jobs"] {
        let text = served.get(page, None).1;
        let mistake = MISTAKE.replace('"', "&quot;");
        assert!(text.contains(&mistake) && text.contains("jobs/twin-1.yaml"), "{page}: {text}");
    }
    assert_eq!(launch(&served, "good").0, 202);
    let (status, refused) = launch(&served, "bad");
    assert!((400..500).contains(&status) && refused["code"] == "TM1020", "{status} {refused}");
    assert!(refused["detail"].as_str().unwrap().contains(MISTAKE), "{refused}");
}

#[test]
fn a_server_notices_new_changed_and_removed_files() {
    let stage = stage(&[("a.yaml", &job("a", "true"))]);
    let served = Served::start(&stage, &[]);
    let write = |name: &str, text: &str| fs::write(stage.path("jobs").join(name), text).unwrap();
    let (status, first) = launch(&served, "a");
    assert_eq!(status, 202, "{first}");
    until_status(&served, &first, "COMPLETED");

    write("b.yaml", &job("b", "true"));
    until("a new job", || is_loaded(&served, "b").then_some(()));
    write("b.yaml", "job: b\nsteps: [\n");
    until("an invalid file", || (launch(&served, "b").1["code"] == "TM1020").then_some(()));
    write("b.yaml", &job("b", "exit 3"));
    until("a corrected file", || is_loaded(&served, "b").then_some(()));
    fs::remove_file(stage.path("jobs/a.yaml")).unwrap();
    until("a removed job", || (!is_loaded(&served, "a")).then_some(()));

    assert_eq!(launch(&served, "a").1["code"], "TM1001");
    let history = get(&served, "/api/v1/executions?job=a");
    assert_eq!(history["items"].as_array().unwrap().len(), 1, "{history}");
}

#[test]
fn running_executions_keep_their_definition_and_restarts_need_consent_to_another() {
    let waits = "until [ -e go ]; do sleep 0.1; done; echo old > out; exit 3";
    let stage = stage(&[("a.yaml", &job("a", waits))]);
    let served = Served::start(&stage, &[]);
    let (status, execution) = launch(&served, "a");
    assert_eq!(status, 202, "{execution}");

    fs::write(stage.path("jobs/a.yaml"), job("a", "echo new > out")).unwrap();
    fs::write(stage.path("jobs/b.yaml"), job("b", "true")).unwrap();
    until("the new files", || is_loaded(&served, "b").then_some(()));
    fs::write(stage.path("go"), "").unwrap();

    until_status(&served, &execution, "FAILED");
    assert_eq!(fs::read_to_string(stage.path("out")).unwrap(), "old\n");
    let restart = format!("/api/v1/executions/{}/restart", execution["id"]);
    let (status, refused) = served.post(&restart, "{}");
    assert!(status == 409 && refused.contains("TM1019"), "{status} {refused}");
    let (status, restarted) = served.post(&restart, r#"{"accept_change":true}"#);
    assert_eq!(status, 202, "{restarted}");
    until_status(&served, &serde_json::from_str(&restarted).unwrap(), "COMPLETED");
    assert_eq!(fs::read_to_string(stage.path("out")).unwrap(), "new\n");
}
