//! `tidemill run` with real processes: the command gets its units, they come back at every end, and the command's own
//! end is what the caller sees.

use crate::pool::{in_use, json_of, stage};
use crate::{BINARY, Ran, Stage};
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::{Guarded, Signal};

tidemill_store::on_both![
    a_command_is_told_what_it_has_and_ends_as_it_would_alone,
    signals_reach_the_command_and_its_units_come_back,
    who_is_killed_takes_its_command_along_and_its_units_are_in_doubt_until_somebody_frees_them,
    one_waits_for_the_other_and_starts_when_that_ends,
    who_does_not_get_its_units_in_time_leaves_the_queue_and_says_why,
    several_pools_come_together_or_not_at_all,
    units_come_back_although_the_database_cannot_take_them_at_first,
];

const PATIENCE: Duration = Duration::from_secs(180);

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let clock = SystemClock::new();
    let start = clock.monotonic();
    while !is_so() {
        assert!(clock.monotonic().since(start) < PATIENCE, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn text(stage: &Stage, file: &str) -> String {
    fs::read_to_string(stage.path(file)).unwrap_or_default()
}

/// Starts `tidemill run` with a shell script in the background.
fn start(stage: &Stage, log: &str, arguments: &[&str], script: &str) -> Guarded {
    let all = [&["run"], arguments, &["--", "sh", "-c", script]].concat();
    let mut command = stage.command(&all);
    let log = fs::File::create(stage.path(log)).unwrap();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    Guarded::spawn(command).unwrap()
}

/// Whether a process still does something. One that is dead and not yet waited for does not.
fn is_running(process: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

async fn a_command_is_told_what_it_has_and_ends_as_it_would_alone(database: Scratch) {
    let stage = stage(&database);
    let run = |arguments: &[&str], script: &str| {
        stage.run(&[&["run", "--pool", "etl"], arguments, &["--", "sh", "-c", script]].concat())
    };

    let told = run(
        &["--units", "16", "--hint", "/*+ PARALLEL(16) FULL(A) */"],
        "echo $TIDEMILL_UNITS; echo \"$TIDEMILL_HINT\"; echo $TIDEMILL_LEASE; exit 0",
    );
    let lines: Vec<&str> = told.succeeds().stdout.lines().collect();
    assert_eq!(lines[..2], ["16", "/*+ PARALLEL(16) FULL(A) */"]);
    assert_eq!(json_of(&stage.run(&["why", lines[2], "-o", "json"]))["items"][0]["ending"], "released");

    run(&["--units", "5", "--min", "8"], "exit 0").fails("TM0002", 2);
    assert_eq!(run(&["--units", "1"], "exit 7").code, Some(7));
    assert_eq!(run(&["--units", "1"], "kill -KILL $$").code, Some(137));
    // By the hint, and with less than it asks for.
    let less =
        run(&["--hint", "/*+ PARALLEL(64) */", "--min", "2"], "echo \"$TIDEMILL_UNITS $TIDEMILL_HINT\"");
    assert_eq!(less.succeeds().stdout, "32 /*+ PARALLEL(32) */\n");
    assert!(less.stderr.contains("granted 32 of 64 units of etl"), "{less:#?}");
    // Nobody knows how to lower this one, so it has all that it may come to.
    let whole = run(
        &["--units", "4", "--hint", "/*+ PARALLEL(a b c 8) */"],
        "echo \"$TIDEMILL_UNITS $TIDEMILL_HINT\"",
    );
    assert_eq!(whole.succeeds().stdout, "16 /*+ PARALLEL(a b c 8) */\n");
    assert!(whole.stderr.contains("warning: a parallel hint cannot be read"), "{whole:#?}");
    let other = run(&["--units", "8", "--hint", "/*+ PARALLEL(4) */"], "echo $TIDEMILL_UNITS");
    assert_eq!(other.succeeds().stdout, "8\n");
    assert!(other.stderr.contains("warning: the number of the request"), "{other:#?}");
    let missing = stage.run(&["run", "--pool", "4", "--", "./no-such-program"]);
    missing.fails("TM1209", 127);
    fs::write(stage.path("plain"), "").unwrap();
    stage.run(&["run", "--pool", "etl", "--", "./plain"]).fails("TM1209", 126);
    // A command of ours does not stumble over what it is told.
    stage.run(&["run", "--pool", "etl", "--", BINARY, "config", "check"]).succeeds();

    assert_eq!(in_use(&stage, "etl"), 0);
    let why = stage.run(&["pool", "verify"]);
    assert!(why.succeeds().stderr.contains("0 violations"), "{why:#?}");
}

#[test]
fn at_a_terminal_the_command_keeps_it() {
    let database = Scratch::file();
    let stage = stage(&database);
    let inner = format!(
        "{BINARY} run --pool etl --units 8 -- sh -c 'read x; echo got $x with $TIDEMILL_UNITS; exit 3'"
    );
    let mut command = stage.dress(Command::new("script"), &["-qec", &inner, "/dev/null"]);
    let mut terminal = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();

    terminal.stdin.take().unwrap().write_all(b"a line\n").unwrap();

    let ran = Ran::of(terminal.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(3), "{ran:#?}");
    assert!(ran.stdout.contains("got a line with 8"), "{ran:#?}");
    assert_eq!(in_use(&stage, "etl"), 0);
}

async fn signals_reach_the_command_and_its_units_come_back(database: Scratch) {
    let stage = stage(&database);
    let polite = "trap 'echo heard >> heard; exit 5' TERM; echo > ready; while :; do sleep 0.05; done";
    let plain = "echo > ready; sleep 600";

    for (signal, script, expected) in
        [(Signal::TERM, polite, 5), (Signal::TERM, plain, 143), (Signal::INT, plain, 130)]
    {
        let mut running = start(&stage, "run.log", &["--pool", "etl", "--units", "8"], script);
        until("the command", || stage.path("ready").exists());
        assert_eq!(in_use(&stage, "etl"), 8);

        running.signal(signal).unwrap();

        let ended = running.wait_deadline(PATIENCE).expect("it ends");
        assert_eq!(ended.code(), Some(expected), "{}", text(&stage, "run.log"));
        assert_eq!(in_use(&stage, "etl"), 0);
        fs::remove_file(stage.path("ready")).unwrap();
    }
    assert_eq!(text(&stage, "heard"), "heard\n");
}

async fn who_is_killed_takes_its_command_along_and_its_units_are_in_doubt_until_somebody_frees_them(
    database: Scratch,
) {
    let stage = stage(&database);
    let script = "sleep 600 & echo $! > child; echo $$ > parent; wait";
    let arguments = ["--pool", "etl", "--units", "40", "--lease", "20s"];
    let mut running = start(&stage, "run.log", &arguments, script);
    until("the command", || text(&stage, "parent").ends_with('\n'));
    let processes = [text(&stage, "child"), text(&stage, "parent")];
    assert!(processes.iter().all(|process| is_running(process)));

    running.signal(Signal::KILL).unwrap();

    until("the end of the command", || !processes.iter().any(|process| is_running(process)));
    // Somebody who waits notices that nothing is heard of it, and still gets nothing.
    let mut next = start(&stage, "next.log", &["--pool", "etl", "--units", "8"], "echo > started");
    let holder = || json_of(&stage.run(&["pool", "holders", "etl", "-o", "json"]))["items"][0].clone();
    until("the doubt", || holder()["state"] == "suspect");
    assert_eq!(in_use(&stage, "etl"), 40);
    assert!(!stage.path("started").exists());
    let lease = holder()["id"].as_str().unwrap().to_owned();
    stage.run(&["pool", "release", &lease, "--reason", "its process was killed"]).succeeds();
    let ended = next.wait_deadline(PATIENCE).expect("the next one starts");
    assert_eq!(ended.code(), Some(0), "{}", text(&stage, "next.log"));
    assert!(stage.path("started").exists());
    assert!(text(&stage, "next.log").contains("waiting for etl: position 1, 40 of 40 units in use"));
    assert_eq!(in_use(&stage, "etl"), 0);
}

async fn one_waits_for_the_other_and_starts_when_that_ends(database: Scratch) {
    let stage = stage(&database);
    let arguments = ["--pool", "etl", "--units", "30", "--min", "30", "--wait", "1m"];
    // Each notes when it begins and ends, and the first ends when it is told to.
    let first = "echo one begins >> log; until [ -e go ]; do sleep 0.05; done; echo one ends >> log";
    let mut one = start(&stage, "one.log", &arguments, first);
    until("the first", || text(&stage, "log").contains("one begins"));
    let mut two = start(&stage, "two.log", &arguments, "echo two begins >> log");
    until("the second in the queue", || text(&stage, "two.log").contains("waiting for etl: position 1"));

    fs::write(stage.path("go"), "").unwrap();

    for child in [&mut one, &mut two] {
        assert_eq!(child.wait_deadline(PATIENCE).expect("it ends").code(), Some(0));
    }
    assert_eq!(text(&stage, "log"), "one begins\none ends\ntwo begins\n");
    assert_eq!(in_use(&stage, "etl"), 0);
}

async fn who_does_not_get_its_units_in_time_leaves_the_queue_and_says_why(database: Scratch) {
    let stage = stage(&database);
    let mut holder =
        start(&stage, "holder.log", &["--pool", "etl", "--units", "38"], "echo > held; sleep 600");
    until("the holder", || stage.path("held").exists());
    let run = |wait: &str| {
        stage.run(&["run", "--pool", "etl", "--units", "8", "--min", "4", "--wait", wait, "--", "true"])
    };

    let at_once = run("0");
    let later = run("1500ms");
    let interrupted = {
        let mut waiting =
            start(&stage, "waiting.log", &["--pool", "etl", "--units", "8", "--min", "8"], "true");
        until("the waiter", || text(&stage, "waiting.log").contains("position 1"));
        waiting.signal(Signal::INT).unwrap();
        waiting.wait_deadline(PATIENCE).expect("it ends").code()
    };

    let what = "error[TM1204]: pool \"etl\" is full and --wait is 0\n  38 of 40 units in use, you requested 8 (min 4); 0 requests are ahead\n";
    assert!(at_once.fails("TM1204", 8).stderr.starts_with(what), "{at_once:#?}");
    assert!(
        at_once.stderr.contains("add `--wait 30m`") && at_once.stderr.contains("tidemill pool holders etl")
    );
    assert!(later.fails("TM1204", 8).stderr.contains("no units after 1s500ms"), "{later:#?}");
    assert_eq!(interrupted, Some(130));
    let shown = json_of(&stage.run(&["pool", "show", "etl", "-o", "json"]));
    assert_eq!((&shown["waiting"], &shown["in_use"]), (&0.into(), &38.into()));
    stage.run(&["run", "--pool", "etl", "--units", "64", "--min", "64", "--", "true"]).fails("TM1205", 2);
    stage.run(&["run", "--pool", "nothing", "--", "true"]).fails("TM1201", 3);
    stage
        .run(&["run", "--pool", "etl", "--wait", "0", "--hint", "/*+ PARALLEL(a b c 8) */", "--", "true"])
        .fails("TM1204", 8);
    holder.signal(Signal::TERM).unwrap();
    assert!(holder.wait_deadline(PATIENCE).is_some());
}

async fn several_pools_come_together_or_not_at_all(database: Scratch) {
    let stage = stage(&database);
    stage.run(&["pool", "create", "emr-slots", "--max", "4", "--threshold", "100", "--min", "1"]).succeeds();
    let both = ["run", "--pool", "etl=8:2", "--pool", "emr-slots=2", "--wait", "0", "--"];

    let script = "echo $TIDEMILL_UNITS $TIDEMILL_UNITS_ETL $TIDEMILL_UNITS_EMR_SLOTS; [ -n \"$TIDEMILL_LEASE_EMR_SLOTS\" ]";
    let told = stage.run(&[&both[..], &["sh", "-c", script]].concat());
    assert_eq!(told.succeeds().stdout, "8 8 2\n");
    stage.run(&["pool", "pause", "emr-slots", "--reason", "x"]).succeeds();
    let refused = stage.run(&[&both[..], &["true"]].concat());
    assert!(refused.fails("TM1204", 8).stderr.contains("pool \"emr-slots\" is paused"), "{refused:#?}");
    assert_eq!((in_use(&stage, "etl"), in_use(&stage, "emr-slots")), (0, 0));
    assert_eq!(json_of(&stage.run(&["pool", "show", "etl", "-o", "json"]))["waiting"], 0);
    stage.run(&["run", "--pool", "etl=1", "--pool", "4=2", "--", "true"]).fails("TM0002", 2);
}

async fn units_come_back_although_the_database_cannot_take_them_at_first(database: Scratch) {
    let stage = stage(&database).with("TIDEMILL_DATABASE_BUSY_TIMEOUT", "100ms");
    let script = "echo > ready; until [ -e go ]; do sleep 0.05; done; echo > done; exit 6";
    let mut running = start(&stage, "run.log", &["-vv", "--pool", "etl", "--units", "8"], script);
    until("the command", || stage.path("ready").exists());
    let store = database.store(None).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.pools().lock(&"etl".parse().unwrap()).await.unwrap();

    fs::write(stage.path("go"), "").unwrap();
    until("the end of the command", || stage.path("done").exists());
    until("a refusal", || text(&stage, "run.log").contains("units could not be given back yet"));
    tx.rollback().await.unwrap();

    assert_eq!(running.wait_deadline(PATIENCE).expect("it ends").code(), Some(6));
    assert_eq!(in_use(&stage, "etl"), 0);
}
