//! How commands end: by themselves, by time, by a stop, by force; and that nothing of them is left.

use super::{PATIENCE, Yard, gone, is_running, job};
use crate::{TTL, options};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::code::Code;
use tidemill_domain::job::flow::Target;
use tidemill_domain::job::{BatchStatus, JobParameters};
use tidemill_domain::time::FakeClock;
use tidemill_engine::job::{CommandExit, CommandSpec, JobRegistry, Launcher, Step};
use tidemill_engine::{EngineError, Process, reaper};

/// Has a child in the background, and waits for it. The numbers of both are in files.
const PAIR: &str = "sleep 600 & echo $! > child; echo $$ > parent; wait";

/// The same, deaf to SIGTERM.
const DEAF_PAIR: &str = "trap '' TERM; sh -c 'while :; do sleep 1; done' & echo $! > child; echo $$ > parent; while :; do wait; done";

const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn a_command_that_ends_with_zero_completes_its_step() {
    let yard = Yard::new().await;

    let run = yard.run(yard.shell("echo done")).await;

    let step = run.step("it").unwrap();
    assert_eq!((run.end.status, step.status), (BatchStatus::Completed, BatchStatus::Completed));
    assert_eq!(step.delivery.as_deref(), Some("at-least-once"));
    let context = run.context("it").unwrap();
    assert_eq!(
        (context.get_text("batch.stepType"), context.get_long("command.exit_code")),
        (Some("command"), Some(0))
    );
    assert_eq!(context.get("command.running"), None);
}

#[tokio::test]
async fn the_numbers_of_commands_mean_what_the_step_says() {
    let yard = Yard::new().await;
    let spec = |number: i32| {
        yard.shell(&format!("exit {number}"))
            .exit_code(3, CommandExit::completed("NO_DATA"))
            .exit_code(4, CommandExit::failed("BAD_INPUT"))
    };
    let flow = |number: i32| {
        job(spec(number))
            .step(Step::command("other", |_| Ok(CommandSpec::new("true"))))
            .on("it", "NO_DATA", Target::End(Some("NOTHING".into())))
            .on("it", "BAD_INPUT", Target::To("other".into()))
            .on("it", "FAILED", Target::Fail)
            .on("it", "*", Target::To("other".into()))
    };

    let mut ends = Vec::new();
    for number in [3, 4, 5] {
        let parameters = JobParameters::new().with("number", i64::from(number));
        ends.push(yard.stand.bench.run(&flow(number), &parameters).await.unwrap());
    }

    assert_eq!(ends[0].end.exit.code, "NOTHING");
    assert_eq!(ends[0].step("it").unwrap().exit.code, "NO_DATA");
    assert_eq!(ends[1].step("it").unwrap().exit.code, "BAD_INPUT");
    assert!(ends[1].step("other").is_some() && ends[1].is_completed());
    assert_eq!((ends[2].end.status, ends[2].end.code), (BatchStatus::Failed, Some(Code::CommandFailed)));
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended_with_all_that_it_started() {
    let yard = Yard::new().await;

    let run = yard.run(yard.shell(PAIR).timeout(Duration::from_secs(10))).await;

    let step = run.step("it").unwrap();
    assert_eq!((step.status, run.end.code), (BatchStatus::Failed, Some(Code::CommandFailed)));
    assert!(step.exit.description.contains("did not end within 10s"), "{step:?}");
    gone(yard.process("parent").await).await;
    gone(yard.process("child").await).await;
}

#[tokio::test]
async fn a_command_that_never_ceases_to_write_is_ended_in_time() {
    let yard = Yard::new().await;

    let run = yard.run(CommandSpec::new("yes").timeout(Duration::from_millis(300))).await;

    let step = run.step("it").unwrap();
    assert!(step.exit.description.contains("did not end within 300ms"), "{step:?}");
}

#[tokio::test]
async fn a_stop_ends_a_command_with_all_that_it_started() {
    let yard = Yard::new().await;
    let (launcher, running) = yard.launch(yard.shell(PAIR).kill_after(LONG)).await;
    let (parent, child) = (yard.process("parent").await, yard.process("child").await);
    assert!(is_running(parent) && is_running(child));

    tokio::time::timeout(PATIENCE, launcher.stop_all(LONG)).await.unwrap();

    let run = yard.stand.bench.look(running.ended().await.unwrap()).await.unwrap();
    assert_eq!(
        (run.end.status, run.step("it").unwrap().status),
        (BatchStatus::Stopped, BatchStatus::Stopped)
    );
    gone(parent).await;
    gone(child).await;
}

#[tokio::test]
async fn a_command_that_does_not_listen_is_killed_after_its_grace() {
    let yard = Yard::new().await;
    let (launcher, running) = yard.launch(yard.shell(DEAF_PAIR).kill_after(Duration::from_millis(300))).await;
    let (parent, child) = (yard.process("parent").await, yard.process("child").await);

    tokio::time::timeout(PATIENCE, launcher.stop_all(LONG)).await.unwrap();

    assert_eq!(running.ended().await.unwrap().status, BatchStatus::Stopped);
    gone(parent).await;
    gone(child).await;
}

#[tokio::test]
async fn a_step_that_has_to_end_now_takes_the_whole_group_with_it() {
    let yard = Yard::new().await;
    let (launcher, running) = yard.launch(yard.shell(DEAF_PAIR).kill_after(LONG)).await;
    let (parent, child) = (yard.process("parent").await, yard.process("child").await);

    launcher.stop_all(Duration::from_millis(50)).await;

    assert_eq!(running.ended().await.unwrap().status, BatchStatus::Stopped);
    gone(parent).await;
    gone(child).await;
}

#[tokio::test]
async fn what_a_command_leaves_in_the_background_ends_with_it() {
    let yard = Yard::new().await;

    let run = yard.run(yard.shell("sleep 600 & echo $! > child; exit 0")).await;

    assert!(run.is_completed(), "{run:?}");
    gone(yard.process("child").await).await;
}

#[tokio::test]
async fn a_command_that_closes_its_output_is_still_waited_for() {
    let yard = Yard::new().await;

    let run = yard.run(yard.shell("exec >&- 2>&-; sleep 0.5; echo late > mark; exit 4")).await;

    assert_eq!(run.context("it").unwrap().get_long("command.exit_code"), Some(4));
    assert_eq!(yard.line("mark").await, "late");
}

#[tokio::test]
async fn a_command_that_somebody_else_kills_fails_with_the_signal() {
    let yard = Yard::new().await;

    let run = yard.run(yard.shell("kill -9 $$")).await;

    let description = &run.step("it").unwrap().exit.description;
    assert!(description.contains("was killed by signal 9"), "{description}");
}

#[tokio::test]
async fn who_goes_on_for_a_frozen_process_ends_its_command_first() {
    let yard = Yard::new().await;
    let bench = &yard.stand.bench;
    // The second run ends at once, and says who of the first still lived when it began.
    let script = format!(
        "if [ $TIDEMILL_RESTART = 1 ]; then kill -0 $(cat parent) && echo both > overlap; exit 0; fi; {PAIR}"
    );
    let job = job(yard.shell(&script));
    let launch = async |name: &str| {
        let clock = Arc::new(FakeClock::at("2026-11-15T02:00:00Z".parse().unwrap()));
        let process =
            Process::register(bench.store().clone(), clock.clone(), options(name, TTL)).await.unwrap();
        let jobs = JobRegistry::new([job.clone()]).unwrap();
        let launcher = Launcher::new(bench.store().clone(), process, clock, jobs);
        launcher.launch("commanded", &JobParameters::new(), &Actor::system()).await.unwrap()
    };
    // Its clock stands still, so that it takes itself for alive.
    let ghost = launch("ghost").await;
    let (parent, child) = (yard.process("parent").await, yard.process("child").await);
    bench.clock().advance(TTL);
    assert_eq!(reaper::run_once(bench.store()).await.unwrap().executions, 1);

    let finished = launch("heir").await.ended().await.unwrap();

    assert_eq!(finished.status, BatchStatus::Completed);
    assert!(!yard.path("overlap").exists(), "two copies ran at once");
    assert!(!is_running(parent) && !is_running(child));
    let refused = tokio::time::timeout(PATIENCE, ghost.ended()).await.unwrap();
    assert!(matches!(refused, Err(EngineError::LeaseLost { .. })), "{refused:?}");
}
