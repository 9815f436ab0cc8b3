//! Records on the standard output of a process of its own: this program again, told to run one test.

use super::{options, record};
use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use tidemill_domain::outbox::line;
use tidemill_engine::outbox::sink::StdoutSink;
use tidemill_engine::outbox::{Outcome, Publisher};

/// Where the other process tells what became of its records.
const ANSWER: &str = "TIDEMILL_TEST_STDOUT_ANSWER";

/// Does nothing but in the process that the tests below start.
#[tokio::test]
async fn the_other_process() {
    let Some(answer) = std::env::var_os(ANSWER) else { return };
    let mut word = Vec::new();
    std::io::stdin().read_to_end(&mut word).unwrap();

    let sink = StdoutSink::new(options());
    let outcomes = sink.publish(&[record(1, "a"), record(2, "b")]).await;

    fs::write(answer, format!("{outcomes:?} {}", sink.is_gone())).unwrap();
}

fn start(answer: &std::path::Path) -> Child {
    let name = "outbox::stdout::the_other_process";
    Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(ANSWER, answer)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn records_go_to_the_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    let answer = folder.path().join("answer");
    let mut child = start(&answer);

    child.stdin.take().unwrap().flush().unwrap();
    let output = child.wait_with_output().unwrap();

    assert_eq!(
        fs::read_to_string(answer).unwrap(),
        format!("{:?} false", [Outcome::Delivered, Outcome::Delivered])
    );
    let lines = output.stdout.split(|byte| *byte == b'\n');
    // What the test runner says stands before the first one.
    let records = lines.filter_map(|text| line::read(text).or_else(|| line::read_behind(text)));
    let ids: Vec<i64> = records.map(|published| published.id.get()).collect();
    assert_eq!(ids, [1, 2]);
}

#[test]
fn a_reader_that_has_gone_away_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let answer = folder.path().join("answer");
    let mut child = start(&answer);

    // The test runner says what it runs, and it needs somebody to say it to.
    let mut stdout = child.stdout.take().unwrap();
    let (mut said, mut byte) = (Vec::new(), [0]);
    while !said.ends_with(b"... ") {
        stdout.read_exact(&mut byte).unwrap();
        said.extend(byte);
    }
    drop(stdout);
    drop(child.stdin.take());
    child.wait().unwrap();

    let answer = fs::read_to_string(answer).unwrap();
    assert_eq!(answer.matches("Unavailable").count(), 2, "{answer}");
    assert!(answer.contains("Broken pipe") && answer.ends_with(" true"), "{answer}");
}
