//! A job that fails: the server notifies by mail, webhook and topic, and counts.

mod sns;

use crate::Stage;
use crate::job_reload::until;
use crate::serve::Served;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidemill_testkit::{Guarded, skip};

/// The variable that names a Python with aiosmtpd.
const SMTP_PYTHON: &str = "TIDEMILL_TEST_SMTP_PYTHON";

const KEYS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/job_alert");

/// A stage with a job that fails until the file `ok` is there.
fn stage() -> Stage {
    let stage = Stage::new().with("SMTP_PASSWORD", "hunter2");
    fs::create_dir(stage.path("jobs")).unwrap();
    let command = format!("[\"test\", \"-e\", \"{}\"]", stage.path("ok").display());
    let job = format!("job: load\nsteps:\n  - name: look\n    command: {command}\n");
    fs::write(stage.path("jobs/load.yaml"), job).unwrap();
    stage
}

/// Runs the job to its end, and returns its status.
fn run(served: &Served) -> String {
    let (status, body) = served.post("/api/v1/jobs/load/executions", "{}");
    assert!(status < 300, "{status} {body}");
    let id = serde_json::from_str::<Value>(&body).unwrap()["id"].clone();
    until("the execution ends", || {
        let found: Value =
            serde_json::from_str(&served.get(&format!("/api/v1/executions/{id}"), None).1).unwrap();
        let status = found["execution"]["status"].as_str().unwrap().to_owned();
        matches!(&*status, "FAILED" | "COMPLETED").then_some(status)
    })
}

/// Answers every call with 200, and keeps the bodies.
fn receiver() -> (String, Arc<Mutex<Vec<Value>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let kept = bodies.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let (mut text, mut buffer) = (String::new(), [0; 4096]);
            // The body is one JSON object, so the last brace ends it.
            while !(text.contains("\r\n\r\n") && text.trim_end().ends_with('}')) {
                let read = stream.read(&mut buffer).unwrap();
                text.push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
            let body = text.split_once("\r\n\r\n").unwrap().1;
            kept.lock().unwrap().push(serde_json::from_str(body).unwrap());
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        }
    });
    (url, bodies)
}

/// An SMTP server in the folder of the stage, and its port.
fn smtp(stage: &Stage, python: &PathBuf, mode: &str, refusals: &str) -> (Guarded, String) {
    let program = format!("{KEYS}/smtp_server.py");
    let folder = stage.folder.path().to_str().unwrap();
    let mut command = stage.dress(Command::new(python), &[&program, mode, folder, KEYS, refusals]);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command.stdout(Stdio::null()).stderr(fs::File::create(stage.path("smtp.log")).unwrap());
    let server = Guarded::spawn(command).unwrap();
    let port = until("the SMTP server listens", || fs::read_to_string(stage.path("port")).ok());
    (server, port)
}

fn mails(stage: &Stage) -> Vec<Value> {
    let text = fs::read_to_string(stage.path("mails.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn configure(stage: &Stage, mode: &str, port: &str, url: &str) {
    let rule = "[alert.rules.job_failed]\nchannels = [\"ops\", \"hook\"]\n";
    fs::write(stage.path("tidemill.toml"), rule.to_owned() + &channels(mode, port, url)).unwrap();
}

fn channels(mode: &str, port: &str, url: &str) -> String {
    format!(
        "[alert.mail.ops]\nhost = \"localhost\"\nport = {port}\ntls = \"{mode}\"\nca = \"{KEYS}/ca.pem\"\n\
         user = \"tidemill\"\npassword = \"env:SMTP_PASSWORD\"\n\
         from = \"Tidemill <tidemill@example.com>\"\nto = \"ops@example.com, 당직 <oncall@example.com>\"\n\
         [alert.webhooks.hook]\nurl = \"{url}\"\nallow_private = true\n"
    )
}

fn a_failure_is_mailed_and_posted(mode: &str, mechanism: &str) {
    let found = skip::require("smtp", std::env::var_os(SMTP_PYTHON));
    let Some(python) = found.map(PathBuf::from) else { return };
    let stage = stage();
    let (_server, port) = smtp(&stage, &python, mode, "1");
    let (url, posted) = receiver();
    configure(&stage, mode, &port, &url);
    let served = Served::start(&stage, &["-vvv"]);

    assert_eq!(run(&served), "FAILED");
    // The first attempt is answered with 451, so it is made again.
    let mail = until("a mail about the failure", || mails(&stage).into_iter().next());
    assert_eq!(mail["subject"], "[Tidemill] critical: job_failed for job/load");
    assert_eq!(mail["to"], serde_json::json!(["ops@example.com", "oncall@example.com"]));
    assert_eq!((&mail["from"], &mail["mechanism"]), (&"tidemill@example.com".into(), &mechanism.into()));
    assert_eq!(mail["auto"], "auto-generated");
    let text = mail["text"].as_str().unwrap();
    assert!(text.contains("execution 1 failed in step look (TM"), "{text}");
    until("a webhook about the failure", || (posted.lock().unwrap().len() == 1).then_some(()));
    let notice = posted.lock().unwrap()[0].clone();
    assert_eq!((&notice["rule"], &notice["notice"]), (&"job_failed".into(), &"fired".into()));
    let detail = notice["detail"].as_str().unwrap();
    assert!(detail.starts_with("execution 1 failed in step look (TM") && detail.ends_with(')'), "{notice}");
    let listed = stage.run(&["alert", "list", "-o", "json"]);
    assert!(listed.succeeds().stdout.contains("execution 1 failed in step look"), "{listed:#?}");

    fs::write(stage.path("ok"), "").unwrap();
    assert_eq!(run(&served), "COMPLETED");
    let mail = until("a mail about the end", || mails(&stage).into_iter().nth(1));
    assert_eq!(mail["subject"], "[Tidemill] resolved: job_failed for job/load");
    until("a webhook about the end", || (posted.lock().unwrap().len() == 2).then_some(()));
    assert_eq!(posted.lock().unwrap()[1]["notice"], "resolved");
    let shown = stage.run(&["config", "show"]);
    let log = fs::read_to_string(stage.path("serve.log")).unwrap();
    assert!(!log.contains("hunter2") && !shown.succeeds().stdout.contains("hunter2"), "{log}");
    assert!(log.contains("did not reach ops"), "{log}");
}

#[test]
fn a_failure_is_mailed_with_starttls() {
    a_failure_is_mailed_and_posted("starttls", "PLAIN");
}

#[test]
fn a_failure_is_mailed_with_tls() {
    a_failure_is_mailed_and_posted("tls", "LOGIN");
}

#[test]
fn a_server_that_cannot_be_trusted_or_a_mailbox_that_is_not_there_gets_no_mail() {
    let found = skip::require("smtp", std::env::var_os(SMTP_PYTHON));
    let Some(python) = found.map(PathBuf::from) else { return };
    let stage = stage();
    let (_server, port) = smtp(&stage, &python, "starttls", "0");
    let common = format!(
        "host = \"localhost\"\nport = {port}\nuser = \"tidemill\"\nfrom = \"a@example.com\"\n\
         password = \"env:SMTP_PASSWORD\""
    );
    let ca = format!("ca = \"{KEYS}/ca.pem\"");
    fs::write(
        stage.path("tidemill.toml"),
        format!(
            "[alert.rules.job_failed]\nchannels = [\"untrusted\", \"refused\", \"misspelt\"]\n\
             [alert.mail.untrusted]\n{common}\nto = \"a@example.com\"\n\
             [alert.mail.refused]\n{common}\nto = \"nobody@example.com\"\n{ca}\n\
             [alert.mail.misspelt]\n{}\nto = \"a@example.com\"\n{ca}\n",
            common.replace("tidemill", "tidemil")
        ),
    )
    .unwrap();
    let served = Served::start(&stage, &[]);

    assert_eq!(run(&served), "FAILED");
    let log = until("all three have failed", || {
        let log = fs::read_to_string(stage.path("serve.log")).unwrap();
        let has_all =
            ["reach untrusted", "reach refused", "reach misspelt"].iter().all(|text| log.contains(text));
        has_all.then_some(log)
    });

    let line = |text: &str| log.lines().find(|line| line.contains(text)).unwrap().to_owned();
    assert!(line("reach untrusted").contains("will try again"), "{log}");
    assert!(
        line("reach refused").contains("given up") && log.contains("answered 550 no such mailbox"),
        "{log}"
    );
    assert!(line("reach misspelt").contains("given up") && log.contains("refused the login (535)"), "{log}");
    assert!(mails(&stage).is_empty() && !log.contains("hunter2"), "{log}");
}

/// A job of one command, with this `notify`.
fn notifying(stage: &Stage, name: &str, notify: &str, command: &str) {
    let job = format!("job: {name}\nnotify: {notify}\nsteps:\n  - name: look\n    command: {command}\n");
    fs::write(stage.path(&format!("jobs/{name}.yaml")), job).unwrap();
}

#[test]
fn the_ends_of_jobs_that_ran_without_a_server_are_mailed_and_posted_once_there_is_one() {
    let found = skip::require("smtp", std::env::var_os(SMTP_PYTHON));
    let Some(python) = found.map(PathBuf::from) else { return };
    let stage = stage();
    let (_server, port) = smtp(&stage, &python, "tls", "0");
    let (url, posted) = receiver();
    fs::write(stage.path("tidemill.toml"), channels("tls", &port, &url)).unwrap();
    let look = format!("[\"test\", \"-e\", \"{}\"]", stage.path("ok").display());
    notifying(&stage, "load", "{ on: [failed, stopped], to: [hook, ops] }", &look);
    let slow = format!("[sh, -c, \"touch {}; sleep 600\"]", stage.path("begun").display());
    notifying(&stage, "slow", "[{ on: stopped, to: hook }, { on: [completed, failed], to: ops }]", &slow);
    notifying(&stage, "done", "[{ on: completed, to: ops }, { on: always, to: hook }]", "[\"true\"]");

    assert_ne!(stage.run(&["job", "run", "jobs/load.yaml"]).code, Some(0));
    fs::write(stage.path("ok"), "").unwrap();
    stage.run(&["job", "run", "jobs/load.yaml"]).succeeds();
    let mut slow = Guarded::spawn(stage.command(&["job", "run", "jobs/slow.yaml"])).unwrap();
    until("the job is at work", || stage.path("begun").exists().then_some(()));
    stage.run(&["job", "stop", "3", "--reason", "enough"]).succeeds();
    assert_eq!(slow.wait_deadline(Duration::from_secs(180)).and_then(|ended| ended.code()), Some(11));
    stage.run(&["job", "run", "jobs/done.yaml"]).succeeds();
    let _served = Served::start(&stage, &[]);

    // One that completed is not among those that `load` names.
    let ends = || -> Vec<Value> {
        posted.lock().unwrap().iter().filter(|notice| notice["rule"] == "job_end").cloned().collect()
    };
    let mut notices = until("three webhooks", || Some(ends()).filter(|ends| ends.len() >= 3));
    notices.sort_by_key(|notice| notice["execution"].as_i64());
    let told = notices.iter().map(|notice| ["status", "summary"].map(|key| notice[key].as_str().unwrap()));
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            ["FAILED", "job load failed: execution 1"],
            ["STOPPED", "job slow stopped: execution 3"],
            ["COMPLETED", "job done completed: execution 4"],
        ]
    );
    let mut subjects = until("two mails", || {
        let mails = mails(&stage);
        (mails.len() >= 2).then(|| mails.iter().map(|mail| mail["subject"].to_string()).collect::<Vec<_>>())
    });
    subjects.sort_unstable();
    let title = |summary: &str| format!("\"[Tidemill] {summary}\"");
    assert_eq!(subjects, [title("job done completed: execution 4"), title("job load failed: execution 1")]);
    assert_eq!((ends().len(), mails(&stage).len()), (3, 2));
}

#[test]
fn durations_and_active_executions_are_scraped() {
    let stage = stage();
    let waits = "[\"sh\", \"-c\", \"until test -e done; do sleep 0.1; done\"]";
    let job = format!("job: slow\nsteps:\n  - name: wait\n    command: {waits}\n");
    fs::write(
        stage.path("jobs/slow.yaml"),
        job.replace("done;", &format!("{};", stage.path("done").display())),
    )
    .unwrap();
    let served = Served::start(&stage, &[]);
    let metrics = || served.get("/metrics", None).1;
    let has = |text: &str| until(text, || metrics().lines().any(|line| line == text).then_some(()));

    assert_eq!(served.post("/api/v1/jobs/slow/executions", "{}").0 / 100, 2);
    has("tidemill_job_active_executions{job=\"slow\"} 1");
    assert_eq!(run(&served), "FAILED");
    fs::write(stage.path("ok"), "").unwrap();
    assert_eq!(run(&served), "COMPLETED");
    fs::write(stage.path("done"), "").unwrap();

    has("tidemill_job_duration_seconds_count{job=\"load\",status=\"FAILED\"} 1");
    has("tidemill_job_duration_seconds_count{job=\"load\",status=\"COMPLETED\"} 1");
    has("tidemill_step_duration_seconds_count{job=\"load\",step=\"look\",status=\"FAILED\"} 1");
    has("tidemill_step_duration_seconds_count{job=\"slow\",step=\"wait\",status=\"COMPLETED\"} 1");
    has("tidemill_job_active_executions{job=\"slow\"} 0");
    let buckets = metrics();
    assert!(buckets.contains("tidemill_job_duration_seconds_bucket{job=\"slow\""), "{buckets}");
}
