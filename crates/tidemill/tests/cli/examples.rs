//! The example programs, each as its first lines say that it is run.

use crate::{Ran, Stage, exact, workspace};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::Guarded;

tidemill_store::on_both![
    the_smallest_job_writes_its_file,
    a_payment_and_its_event_are_both_there_or_neither,
    a_message_that_comes_again_is_dealt_with_once,
    a_table_is_copied_and_the_copy_is_compared,
    rows_that_the_other_table_refuses_are_left_out_of_the_copy,
];

/// An example program in a folder of its own.
pub(crate) struct Program {
    pub(crate) stage: Stage,
    path: PathBuf,
}

impl Program {
    /// The program of this name. `cargo test` builds them all; with a single test target it does not, so one that
    /// is missing or older than its text is refused.
    pub(crate) fn new(name: &str, stage: Stage) -> Self {
        let path = Path::new(crate::BINARY).with_file_name("examples").join(name);
        let changed = |path: &Path| fs::metadata(path).and_then(|found| found.modified()).ok();
        let source = workspace().join("examples").join(format!("{name}.rs"));
        let is_fresh = changed(&path).is_some_and(|built| Some(built) >= changed(&source));
        assert!(is_fresh, "the example {name} is not up to date: `cargo build -p tidemill --examples`");
        Self { stage, path }
    }

    /// Tidemill itself.
    pub(crate) fn tidemill(stage: Stage) -> Self {
        Self { stage, path: crate::BINARY.into() }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.stage.dress(Command::new(&self.path), arguments)
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    /// Starts it in the background. What it says on standard error is in the file `log` of its folder.
    pub(crate) fn start(&self, log: &str, arguments: &[&str]) -> Guarded {
        self.spawn(log, self.command(arguments))
    }

    pub(crate) fn spawn(&self, log: &str, mut command: Command) -> Guarded {
        command.stdout(Stdio::null()).stderr(fs::File::create(self.stage.path(log)).unwrap());
        Guarded::spawn(command).unwrap()
    }
}

fn lines(program: &Program, file: &str) -> Vec<String> {
    fs::read_to_string(program.stage.path(file)).unwrap().lines().map(str::to_owned).collect()
}

async fn the_smallest_job_writes_its_file(database: Scratch) {
    let stage = Stage::on(database.url()).with("TIDEMILL_DATABASE_INIT", "always");
    let program = Program::new("hello_chunk", stage);

    program.run(&["job", "run", "hello"]).succeeds();

    let doubled: Vec<String> = (1..=100).map(|number| (number * 2).to_string()).collect();
    assert_eq!(lines(&program, "doubled.txt"), doubled);
}

#[test]
fn a_schedule_is_rehearsed_with_a_clock_of_ones_own() {
    let program = Program::new("scheduled_job", Stage::new());

    let rehearsed = program.run(&[]);

    let expected = "first night
  report for 2026-11-15
third night, the server slept through the second
  report for 2026-11-17
what became of the ticks
  2026-11-15T17:00:00.000000Z fired
  2026-11-16T17:00:00.000000Z missed no process fired it in time
  2026-11-17T17:00:00.000000Z fired
";
    let said: Vec<&str> = rehearsed.succeeds().stdout.lines().map(str::trim_end).collect();
    assert_eq!(said, expected.lines().collect::<Vec<_>>());
}

async fn a_payment_and_its_event_are_both_there_or_neither(database: Scratch) {
    let program = Program::new("outbox_event", Stage::new());

    let ran = program.run(&[database.url()]);

    let mut expected = vec!["payment/1 payment.made to payments"];
    if database.url().starts_with("postgres") {
        expected.push("payment/3 payment.made to payments");
    }
    assert_eq!(ran.succeeds().stdout.lines().collect::<Vec<_>>(), expected);
}

async fn a_message_that_comes_again_is_dealt_with_once(database: Scratch) {
    let program = Program::new("inbox_consumer", Stage::new());

    let ran = program.run(&[database.url()]);

    let expected = ["1 is new", "2 is new", "2 was dealt with before", "3 is new"];
    let told: Vec<String> = ran.succeeds().stdout.lines().map(str::to_owned).collect();
    assert_eq!(told, expected.map(|what| format!("message {what}")));
}

#[test]
fn a_job_that_failed_goes_on_where_it_was() {
    let program = Program::new("restart_after_crash", Stage::new());

    let mut stumbling = program.command(&["job", "run", "squares"]);
    let failed = Ran::of(stumbling.env("STUMBLE", "fail").output().unwrap());
    let finished = program.run(&["job", "run", "squares"]);

    assert_eq!(failed.code, Some(10), "{failed:#?}");
    assert!(finished.succeeds().stdout.contains("50"), "{finished:#?}");
    assert_eq!(lines(&program, "squares.txt"), squares());
}

#[test]
fn a_job_that_died_goes_on_when_its_process_no_longer_counts() {
    let database = Scratch::file();
    let program = Program::new("restart_after_crash", exact::stage(database.url()));

    let mut dying = program.command(&["job", "run", "squares"]);
    dying.env("STUMBLE", "die").stderr(Stdio::null());
    let mut dying = Guarded::spawn(dying).unwrap();
    let died = dying.wait_deadline(Duration::from_secs(180)).expect("it dies");
    assert_eq!(died.code(), None, "{died:?}");
    program.stage.move_away(dying.pid());
    program.run(&["job", "run", "squares"]).fails("TM1003", 5);
    program.stage.lapse(dying.pid());

    exact::go_on(&program, &["job", "run", "squares"]).succeeds();
    assert_eq!(lines(&program, "squares.txt"), squares());
}

fn squares() -> Vec<String> {
    (1..=100).map(|number| (number * number).to_string()).collect()
}

#[test]
fn bad_lines_are_kept_apart_and_a_busy_bank_is_asked_again() {
    let program = Program::new("skip_and_retry", Stage::new());
    let payments = "account,amount\nada,100\nbob,many\neve,300\nfay,-5\ngil,7\nhal,8,9\nian,10\n";
    fs::write(program.stage.path("payments.csv"), payments).unwrap();

    let ran = program.run(&["job", "run", "pay", "-p", "input=payments.csv", "-o", "json"]);

    assert!(ran.succeeds().stdout.contains("\"COMPLETED\""), "{ran:#?}");
    let receipts = lines(&program, "receipts.jsonl");
    let paid = ["ada", "eve", "gil", "ian"];
    assert_eq!(receipts.len(), paid.len(), "{receipts:?}");
    assert!(paid.iter().zip(&receipts).all(|(name, receipt)| receipt.contains(name)), "{receipts:?}");
    assert!(!receipts[2].contains("\"attempts\":1"), "the bank was not busy: {receipts:?}");
    let rejects = lines(&program, "rejects.jsonl");
    assert_eq!(rejects.len(), 3, "{rejects:?}");
    for (what, of) in [("payments.csv line 3", "bob,many"), ("validation", "fay"), ("line 7", "hal,8,9")] {
        assert!(rejects.iter().any(|line| line.contains(what) && line.contains(of)), "{what}: {rejects:?}");
    }
}

#[test]
fn too_many_bad_lines_are_an_error_that_says_so() {
    let program = Program::new("skip_and_retry", Stage::new());
    let payments = format!("account,amount\n{}", "bob,many\n".repeat(11));
    fs::write(program.stage.path("payments.csv"), payments).unwrap();

    let ran = program.run(&["job", "run", "pay", "-p", "input=payments.csv"]);

    assert_eq!(ran.code, Some(10), "{ran:#?}");
    assert!(ran.stderr.contains("the skip limit of 10 is exceeded"), "{ran:#?}");
}

async fn a_table_is_copied_and_the_copy_is_compared(database: Scratch) {
    let stage = Stage::on(database.url()).with("TIDEMILL_DATABASE_INIT", "always");
    let program = Program::new("copy_table", stage);
    let store = database.store(None).await.unwrap();

    program.run(&["job", "run", "prepare", "-p", "rows=3210"]).succeeds();
    let early = program.run(&["job", "run", "verify"]);
    let copied = program.run(&["job", "run", "copy"]);
    program.run(&["job", "run", "verify"]).succeeds();

    assert!(early.fails("TM1013", 10).stderr.contains("differ in 3210 rows"), "{early:#?}");
    assert!(copied.succeeds().stdout.contains("3210"), "{copied:#?}");
    // The comparison sees a row too many.
    let mut tx = store.begin().await.unwrap();
    let twice = "insert into target select * from source where id = 7";
    tx.execute_for_test(twice).await.unwrap();
    tx.commit().await.unwrap();
    program.run(&["job", "run", "verify"]).fails("TM1013", 10);
    store.close().await;
}

async fn rows_that_the_other_table_refuses_are_left_out_of_the_copy(database: Scratch) {
    let stage = Stage::on(database.url()).with("TIDEMILL_DATABASE_INIT", "always");
    let program = Program::new("copy_table", stage);

    program.run(&["job", "run", "prepare", "-p", "rows=1200", "-p", "refused=333"]).succeeds();
    let copied = program.run(&["job", "run", "copy", "-o", "csv"]);

    assert!(copied.succeeds().stdout.contains("rows,COMPLETED,1200,1197,0,0,0,3,"), "{copied:#?}");
    program.run(&["job", "run", "verify"]).succeeds();
}
