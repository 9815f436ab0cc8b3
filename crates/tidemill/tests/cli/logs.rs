//! `tidemill logs`: the output of commands, while they run, afterwards, and until they are purged.

use crate::Stage;
use std::fs;
use std::process::Stdio;
use std::time::Duration;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::{Guarded, Signal};

tidemill_store::on_both![
    output_is_printed_followed_and_deleted_with_its_execution,
    the_output_of_a_killed_process_stays,
];

const PATIENCE: Duration = Duration::from_secs(120);

/// Prints two lines, waits for the file `go`, and prints one more; its second step prints one line.
const JOB: &str = "job: shout
steps:
  - name: wait
    command: [sh, -c, 'echo hello; echo careful >&2; while [ ! -e go ]; do sleep 0.02; done; echo done']
  - name: last
    command: [sh, -c, 'echo second']
";

fn stage(database: &Scratch) -> Stage {
    let stage = Stage::on(database.url()).with("TIDEMILL_DATABASE_INIT", "always");
    fs::write(stage.path("shout.yaml"), JOB).unwrap();
    stage.with("TIDEMILL_JOBS_LOG_DIR", "output")
}

fn start(stage: &Stage, arguments: &[&str], to: &str) -> Guarded {
    let mut command = stage.command(arguments);
    command.stdout(fs::File::create(stage.path(to)).unwrap()).stderr(Stdio::null());
    Guarded::spawn(command).unwrap()
}

/// Runs `logs` until it prints both streams of the first step.
fn until_printed(stage: &Stage) {
    for _ in 0..2_400 {
        let printed = stage.run(&["logs", "1"]).stdout;
        if printed.contains("hello") && printed.contains("careful") {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("no output");
}

async fn output_is_printed_followed_and_deleted_with_its_execution(database: Scratch) {
    let stage = stage(&database);
    let mut job = start(&stage, &["job", "run", "shout.yaml"], "job.txt");
    until_printed(&stage);
    let mut follower = start(&stage, &["logs", "1", "-f"], "followed.txt");

    fs::write(stage.path("go"), "").unwrap();

    assert!(job.wait_deadline(PATIENCE).is_some_and(|ended| ended.success()));
    assert!(follower.wait_deadline(PATIENCE).is_some_and(|ended| ended.success()));
    let all = stage.run(&["logs", "1"]).succeeds().stdout.clone();
    assert_eq!(fs::read_to_string(stage.path("followed.txt")).unwrap(), all);
    assert!(all.starts_with("==> step wait <==\n"), "{all}");
    assert!(all.ends_with("\ndone\n==> step last <==\nsecond\n"), "{all}");
    assert_eq!(stage.run(&["logs", "1", "--step", "last"]).succeeds().stdout, "second\n");
    let unknown = stage.run(&["logs", "1", "--step", "lost"]);
    assert!(unknown.fails("TM0508", 3).stderr.contains("its steps are: wait, last"), "{unknown:#?}");
    stage.run(&["logs", "9"]).fails("TM1002", 3);

    stage.run(&["job", "purge", "--older-than", "0s"]).succeeds();

    stage.run(&["logs", "1"]).fails("TM1002", 3);
    let folder = fs::read_dir(stage.path("output")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "{folder:?}");
}

async fn the_output_of_a_killed_process_stays(database: Scratch) {
    let stage = stage(&database);
    let mut job = start(&stage, &["job", "run", "shout.yaml"], "job.txt");
    until_printed(&stage);

    job.signal(Signal::KILL).unwrap();
    assert!(job.wait_deadline(PATIENCE).is_some());

    let kept = stage.run(&["logs", "1"]).succeeds().stdout.clone();
    assert!(kept.contains("hello\n") && kept.contains("careful\n") && !kept.contains("done"), "{kept}");
}

#[test]
fn output_is_beside_the_database_and_is_looked_for_where_it_is_configured() {
    let stage = Stage::new();
    fs::write(stage.path("shout.yaml"), JOB).unwrap();
    fs::write(stage.path("go"), "").unwrap();
    stage.run(&["job", "run", "shout.yaml"]).succeeds();
    assert!(stage.path("tidemill-logs/tidemill_db/1/1.log").exists());

    let stage = stage.with("TIDEMILL_JOBS_LOG_DIR", "nowhere");

    let missing = stage.run(&["logs", "1"]);
    let advice = "tidemill-logs/tidemill_db; to read it from other machines, set jobs.log_dir";
    assert!(missing.fails("TM1028", 3).stderr.contains(advice), "{missing:#?}");
}

#[test]
fn a_second_run_says_that_there_is_nothing_to_do_and_how_to_run_it_again() {
    let stage = Stage::new();
    fs::write(stage.path("shout.yaml"), JOB).unwrap();
    fs::write(stage.path("go"), "").unwrap();
    stage.run(&["job", "run", "shout.yaml"]).succeeds();

    let second = stage.run(&["job", "run", "shout.yaml"]);
    let next = stage.run(&["job", "run", "shout.yaml", "--next"]);

    let note = &second.succeeds().stderr;
    assert!(note.contains("nothing to do: this instance completed on 20"), "{note}");
    assert!(note.contains("(execution 1); run it as a new instance with --next"), "{note}");
    assert!(!next.succeeds().stderr.contains("nothing to do"), "{next:#?}");
    let codes = stage.run(&["executions", "-o", "csv"]);
    assert_eq!(codes.succeeds().stdout.matches(",NOOP,").count(), 1, "{codes:#?}");
    let none = stage.run(&["logs", "2"]);
    assert!(none.succeeds().stderr.contains("no output"), "{none:#?}");
    assert!(stage.run(&["logs", "3"]).succeeds().stdout.ends_with("==> step last <==\nsecond\n"));
}
