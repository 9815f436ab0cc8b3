//! What commands are told, and what becomes of what they say.

use super::Yard;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::code::Code;
use tidemill_domain::job::{BatchStatus, JobParameters};
use tidemill_engine::job::{CommandExit, CommandSpec, LogFolder};
use tidemill_engine::testing::TestRun;

/// What a step says about its failure.
fn reason(run: &TestRun) -> &str {
    assert_eq!((run.end.status, run.end.code), (BatchStatus::Failed, Some(Code::CommandFailed)), "{run:?}");
    &run.step("it").unwrap().exit.description
}

/// Our own memory that is in use, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn a_failure_tells_the_last_lines_of_both_streams() {
    let yard = Yard::new().await;

    let run = yard.run(yard.shell("seq 100; sleep 0.2; echo 'no space left' >&2; exit 7")).await;

    let reason = reason(&run);
    assert!(
        reason.starts_with("the command \"sh\" ended with exit code 7; its last lines:\n82\n"),
        "{reason}"
    );
    assert!(reason.ends_with("\n100\nno space left"), "{reason}");
}

#[tokio::test]
async fn output_in_no_known_encoding_is_shown_as_far_as_it_goes() {
    let yard = Yard::new().await;

    let run = yard.run(yard.shell("printf 'a\\377\\033[2Jb\\n'; exit 1")).await;

    assert!(reason(&run).ends_with("\na\u{fffd}\u{fffd}[2Jb"), "{}", reason(&run));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_output_needs_neither_memory_nor_patience() {
    let yard = Yard::new().await;
    let before = resident();
    let most = Arc::new(AtomicU64::new(before));
    let looking = {
        let most = most.clone();
        tokio::spawn(async move {
            loop {
                most.fetch_max(resident(), Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
    };

    let run = yard.run(yard.shell("yes | head -c 100000000; echo the end; exit 1")).await;

    looking.abort();
    assert!(reason(&run).ends_with("\ny\nthe end"), "{}", reason(&run));
    let grown = most.load(Ordering::Relaxed) - before;
    assert!(grown < 50_000, "{grown} KiB more than before");
}

#[tokio::test]
async fn an_argument_is_an_argument_and_no_part_of_a_script() {
    let yard = Yard::new().await;
    let evil = "'; touch broken; echo $(touch broken) `touch broken` \" && rm -rf * #";
    let spec = CommandSpec::new("printf").args(["%s\n", evil]).folder(yard.folder.path());

    let run = yard.run(spec.log_file(yard.path("output"))).await;

    assert!(run.is_completed(), "{run:?}");
    assert_eq!(yard.line("output").await, evil);
    assert!(!yard.path("broken").exists());
}

#[tokio::test]
async fn a_command_learns_what_it_is_run_for() {
    let yard = Yard::new().await;
    let parameters = JobParameters::new().with("run.date", "2026-11-15").with("지역", "서울");
    // Not by a shell, which drops variables whose names it cannot write. It fails, so that it can be run again.
    let spec = CommandSpec::new("env")
        .env("REGION", "a b")
        .exit_code(0, CommandExit::failed("AGAIN"))
        .log_file(yard.path("output"));

    let first = yard.run_with(spec.clone(), &parameters).await;
    let told = environment(&yard.line("output").await);
    std::fs::remove_file(yard.path("output")).unwrap();
    yard.run_with(spec, &parameters).await;
    let told_again = environment(&yard.line("output").await);

    let step = first.step("it").unwrap();
    assert_eq!(told["TIDEMILL_JOB"], "commanded");
    assert_eq!(told["TIDEMILL_STEP"], "it");
    assert_eq!(told["TIDEMILL_EXECUTION_ID"], first.end.execution.to_string());
    assert_eq!(told["TIDEMILL_STEP_EXECUTION_ID"], step.id.to_string());
    assert_eq!((&*told["TIDEMILL_RESTART"], &*told_again["TIDEMILL_RESTART"]), ("0", "1"));
    assert_eq!(told["TIDEMILL_PARAM_RUN_DATE"], "2026-11-15");
    assert_eq!(told["TIDEMILL_PARAM_지역"], "서울");
    assert_eq!(told["REGION"], "a b");
    assert!(told.contains_key("PATH"));
    let ours = told.keys().filter(|name| name.starts_with("TIDEMILL_")).count();
    assert_eq!(ours, 7, "{told:?}");
}

#[tokio::test]
async fn a_cleared_environment_has_only_what_was_said() {
    let yard = Yard::new().await;
    let spec = CommandSpec::new("/usr/bin/env").env_clear().env("ONLY", "this").log_file(yard.path("output"));

    yard.run(spec).await;

    let told = environment(&yard.line("output").await);
    let names: Vec<&str> =
        told.keys().map(String::as_str).filter(|name| !name.starts_with("TIDEMILL_")).collect();
    assert_eq!(names, ["ONLY"]);
}

fn environment(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[tokio::test]
async fn variables_that_would_hide_others_are_refused() {
    let yard = Yard::new().await;
    let parameters = JobParameters::new().with("a.b", "1").with("a_b", "2");

    let same = yard.run_with(yard.shell("true"), &parameters).await;
    let own = yard.run(yard.shell("true").env("TIDEMILL_JOB", "another")).await;
    let bad = yard.run(yard.shell("true").env("A=B", "c")).await;

    assert!(reason(&same).contains("TIDEMILL_PARAM_A_B"), "{}", reason(&same));
    assert!(reason(&own).contains("TIDEMILL_JOB is set for every command"), "{}", reason(&own));
    assert!(reason(&bad).contains("\"A=B\" is not the name of a variable"), "{}", reason(&bad));
}

#[tokio::test]
async fn a_program_that_cannot_be_started_says_why_and_what_helps() {
    let yard = Yard::new().await;
    let file = |name: &str, text: &str, mode: u32| {
        std::fs::write(yard.path(name), text).unwrap();
        std::fs::set_permissions(yard.path(name), PermissionsExt::from_mode(mode)).unwrap();
        CommandSpec::new(format!("./{name}")).folder(yard.folder.path())
    };

    for (spec, what) in [
        (CommandSpec::new("./no-such-program"), "there is no such program"),
        (CommandSpec::new("true").folder("/nowhere"), "its working folder /nowhere does not exist"),
        (file("closed.sh", "#!/bin/sh\n", 0o644), "chmod +x"),
        (file("bare.sh", "true\n", 0o755), "#!/bin/sh"),
        (CommandSpec::new("true").log_file("/nowhere/log"), "its log file /nowhere/log cannot be written"),
    ] {
        let run = yard.run(spec).await;
        assert!(reason(&run).contains(what), "{}", reason(&run));
    }
}

#[tokio::test]
async fn a_relative_program_starts_at_the_working_folder() {
    let yard = Yard::new().await;
    std::fs::write(yard.path("here.sh"), "#!/bin/sh\npwd > where\n").unwrap();
    std::fs::set_permissions(yard.path("here.sh"), PermissionsExt::from_mode(0o755)).unwrap();

    let run = yard.run(CommandSpec::new("./here.sh").folder(yard.folder.path())).await;

    assert!(run.is_completed(), "{run:?}");
    assert_eq!(yard.line("where").await, yard.folder.path().canonicalize().unwrap().to_str().unwrap());
}

#[tokio::test]
async fn both_streams_are_kept_in_a_file_of_the_step_and_a_restart_begins_another() {
    let yard = Yard::new().await;
    let logs = LogFolder::new(yard.path("logs"), "here");
    let script = "echo out; echo err >&2; test -e go";
    let launcher = yard.stand.bench.launcher(&super::job(yard.shell(script))).unwrap().logs(logs.clone());
    let run = async || {
        let running = launcher.launch("commanded", &JobParameters::new(), &Actor::system()).await.unwrap();
        running.ended().await.unwrap()
    };

    let failed = run().await;
    std::fs::write(yard.path("go"), "").unwrap();
    let completed = run().await;

    assert_eq!((failed.status, completed.status), (BatchStatus::Failed, BatchStatus::Completed));
    for end in [failed, completed] {
        let run = yard.stand.bench.look(end).await.unwrap();
        let step = run.step("it").unwrap();
        let part = logs.read(step.execution, step.id, 0).unwrap().expect("its own file");
        let mut lines: Vec<String> = part.text().lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!(lines, ["err", "out"]);
    }
}

#[tokio::test]
async fn a_command_runs_even_if_its_output_cannot_be_kept() {
    let yard = Yard::new().await;
    std::fs::write(yard.path("logs"), "a file").unwrap();
    let logs = LogFolder::new(yard.path("logs"), "here");
    let launcher = yard.stand.bench.launcher(&super::job(yard.shell("echo out"))).unwrap().logs(logs);

    let running = launcher.launch("commanded", &JobParameters::new(), &Actor::system()).await.unwrap();

    assert_eq!(running.ended().await.unwrap().status, BatchStatus::Completed);
}
