//! Schedules through the launcher, on both databases, with a clock that the test moves.

use crate::job::Stand;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::job::{BatchStatus, JobParameters};
use tidemill_domain::schedule::TickOutcome;
use tidemill_domain::time::{Clock, Timestamp};
use tidemill_engine::Process;
use tidemill_engine::job::{Job, JobRegistry, Launcher, Step};
use tidemill_engine::schedule::{self, MissedRuns, Overlap, Schedule, Turned};
use tidemill_engine::testing::JobBench;
use tidemill_store::job::ExecutionFilter;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    of_servers_that_race_for_a_tick_exactly_one_fires_it,
    after_hours_without_a_server_each_policy_makes_up_for_what_it_says,
    while_an_earlier_execution_runs_a_tick_is_skipped_or_waits,
    a_launch_that_is_refused_is_recorded_and_the_schedule_goes_on,
    a_server_without_room_or_without_the_job_leaves_a_tick_to_another,
    the_loop_fires_by_itself_and_with_the_parameters_of_the_tick,
    ticks_that_nothing_tells_apart_are_one_instance_after_the_other,
    the_next_instance_has_a_number_of_its_own_and_nothing_else_of_earlier_runs,
];

const HOUR: Duration = Duration::from_secs(3600);

/// Waits while it is told to.
fn job(name: &str, waits: &Arc<AtomicBool>) -> Job {
    let waits = waits.clone();
    let step = Step::tasklet("s", move |_| {
        let waits = waits.clone();
        async move {
            while waits.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(())
        }
    });
    Job::new(name).step(step)
}

fn quick(name: &str) -> Job {
    job(name, &Arc::new(AtomicBool::new(false)))
}

/// The clock begins at 02:00, so its first tick is at 03:00.
fn hourly() -> Schedule {
    Schedule::new("hourly", "load").cron("0 * * * *").parameter("tick", "${tick}")
}

fn at(text: &str) -> Timestamp {
    format!("2026-11-15T{text}Z").parse().unwrap()
}

/// A process that lives as long as the test, whatever its clock does.
async fn bench(stand: &Stand) -> JobBench {
    JobBench::on(stand.bench.store().clone(), stand.clock.clone()).await.unwrap()
}

async fn launcher(stand: &Stand, name: &str, jobs: Vec<Job>) -> Launcher {
    let options = crate::options(name, Duration::from_secs(1_000_000_000));
    let clock: Arc<dyn Clock> = stand.clock.clone();
    let process = Process::register(stand.bench.store().clone(), clock.clone(), options).await.unwrap();
    Launcher::new(stand.bench.store().clone(), process, clock, JobRegistry::new(jobs).unwrap())
}

async fn outcomes(bench: &JobBench) -> Vec<(Timestamp, TickOutcome)> {
    bench.ticks("hourly").await.unwrap().into_iter().map(|tick| (tick.tick, tick.outcome)).collect()
}

async fn executions(bench: &JobBench) -> usize {
    let mut tx = bench.store().read().await.unwrap();
    let found = tx.jobs().executions(&ExecutionFilter::default(), None, 500).await.unwrap().len();
    tx.rollback().await.unwrap();
    found
}

async fn of_servers_that_race_for_a_tick_exactly_one_fires_it(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let bench = bench(&stand).await;
    let mut racers = Vec::new();
    for name in ["one", "two", "three"] {
        racers.push(launcher(&stand, name, vec![quick("load")]).await);
    }
    bench.define(&racers[0], [hourly().overlap(Overlap::Allow)]).await.unwrap();

    let rounds = 25;
    for round in 1..=rounds {
        bench.clock().advance(HOUR);
        let mut turns = Vec::new();
        for racer in racers.clone() {
            turns.push(tokio::spawn(async move { schedule::turn(&racer).await.unwrap() }));
        }
        let mut fired = 0;
        for turn in turns {
            match turn.await.unwrap() {
                Turned::Fired { running, .. } => {
                    fired += 1;
                    running.ended().await.unwrap();
                }
                Turned::Nothing => {}
                // The key of the ticks would have to hold here what the lock should have.
                other => panic!("round {round}: {other:?}"),
            }
        }
        assert_eq!(fired, 1, "round {round}");
    }

    let ticks = bench.ticks("hourly").await.unwrap();
    let distinct: BTreeSet<_> = ticks.iter().map(|tick| tick.execution.unwrap()).collect();
    assert_eq!((ticks.len(), distinct.len(), executions(&bench).await), (rounds, rounds, rounds));
}

async fn after_hours_without_a_server_each_policy_makes_up_for_what_it_says(scratch: Scratch) {
    use TickOutcome::{Fired, Missed};
    let times = ["03:00:00", "04:00:00", "05:00:00", "06:00:00"].map(at);
    let stand = Stand::on(scratch).await;
    let bench = bench(&stand).await;
    let launcher = launcher(&stand, "one", vec![quick("load")]).await;
    for (number, (policy, expected)) in [
        (MissedRuns::Skip, [Missed; 4]),
        (MissedRuns::Latest, [Missed, Missed, Missed, Fired]),
        (MissedRuns::All { limit: 2 }, [Missed, Missed, Fired, Fired]),
        (MissedRuns::All { limit: 100 }, [Fired; 4]),
    ]
    .into_iter()
    .enumerate()
    {
        bench.clock().jump_to(at("02:30:00"));
        let name = format!("s{number}");
        let schedule = Schedule { name: name.clone(), ..hourly() }.missed(policy);
        bench.define(&launcher, [schedule.parameter("n", number.to_string())]).await.unwrap();

        bench.clock().jump_to(at("06:30:00"));
        bench.fire_due(&launcher).await.unwrap();

        let found: Vec<_> = bench.ticks(&name).await.unwrap();
        let found: Vec<_> = found.into_iter().map(|tick| (tick.tick, tick.outcome)).collect();
        assert_eq!(found, times.into_iter().zip(expected).collect::<Vec<_>>(), "{policy}");
    }
}

async fn while_an_earlier_execution_runs_a_tick_is_skipped_or_waits(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    for (overlap, expected) in [(Overlap::Skip, TickOutcome::Skipped), (Overlap::Wait, TickOutcome::Fired)] {
        stand.clock.jump_to(at("02:00:00"));
        let (bench, waits) = (bench(&stand).await, Arc::new(AtomicBool::new(true)));
        let name = format!("load_{overlap}");
        let launcher = launcher(&stand, "one", vec![job(&name, &waits)]).await;
        let schedule = Schedule { name: "hourly".into(), job: name, ..hourly() }.overlap(overlap);
        bench.define(&launcher, [schedule]).await.unwrap();
        stand.clock.jump_to(at("03:00:00"));
        let Turned::Fired { running, .. } = schedule::turn(&launcher).await.unwrap() else { panic!() };

        stand.clock.jump_to(at("04:00:00"));
        assert!(matches!(schedule::turn(&launcher).await.unwrap(), Turned::Passed));
        waits.store(false, Ordering::SeqCst);
        running.ended().await.unwrap();
        stand.clock.jump_to(at("04:30:00"));
        bench.fire_due(&launcher).await.unwrap();

        let expected = [(at("03:00:00"), TickOutcome::Fired), (at("04:00:00"), expected)];
        assert_eq!(outcomes(&bench).await, expected, "{overlap}");
        let mut tx = bench.store().begin().await.unwrap();
        tx.execute_for_test("delete from tidemill_schedule").await.unwrap();
        tx.commit().await.unwrap();
    }
}

async fn a_launch_that_is_refused_is_recorded_and_the_schedule_goes_on(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let bench = bench(&stand).await;
    let launcher = launcher(&stand, "one", vec![quick("load")]).await;
    let once = JobParameters::new().with("day", "2026-11-15");
    launcher.launch("load", &once, &Actor::system()).await.unwrap().ended().await.unwrap();
    let schedule = Schedule { parameters: vec![("day".into(), "${tick.date}".into())], ..hourly() };
    bench.define(&launcher, [schedule]).await.unwrap();

    for _ in 0..2 {
        bench.clock().advance(HOUR);
        let turned = schedule::turn(&launcher).await.unwrap();
        assert!(matches!(&turned, Turned::Refused(why) if why.contains("TM1004")), "{turned:?}");
    }

    let ticks = bench.ticks("hourly").await.unwrap();
    assert!(ticks.iter().all(|tick| tick.outcome == TickOutcome::Refused && tick.execution.is_none()));
    assert!(ticks[0].reason.as_deref().unwrap().starts_with("TM1004: "), "{ticks:?}");
    assert_eq!((ticks.len(), executions(&bench).await), (2, 1));
}

async fn a_server_without_room_or_without_the_job_leaves_a_tick_to_another(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let (bench, waits) = (bench(&stand).await, Arc::new(AtomicBool::new(true)));
    let full = launcher(&stand, "full", vec![job("load", &waits)]).await.max_running(1);
    let foreign = launcher(&stand, "foreign", vec![quick("other")]).await;
    let free = launcher(&stand, "free", vec![quick("load")]).await;
    bench.define(&full, [hourly()]).await.unwrap();
    let running = full.launch("load", &JobParameters::new(), &Actor::system()).await.unwrap();
    bench.clock().advance(HOUR);

    let without_job = schedule::turn(&foreign).await.unwrap();
    let without_room = schedule::turn(&full).await.unwrap();
    bench.clock().advance(HOUR / 2);
    let other = schedule::turn(&free).await.unwrap();

    assert!(matches!(without_job, Turned::Nothing), "{without_job:?}");
    assert!(matches!(without_room, Turned::Passed), "{without_room:?}");
    let Turned::Fired { tick, running: fired, .. } = other else { panic!("{other:?}") };
    assert_eq!((tick, fired.ended().await.unwrap().status), (at("03:00:00"), BatchStatus::Completed));
    waits.store(false, Ordering::SeqCst);
    running.ended().await.unwrap();
}

async fn the_loop_fires_by_itself_and_with_the_parameters_of_the_tick(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let bench = bench(&stand).await;
    let launcher = launcher(&stand, "one", vec![quick("load")]).await;
    let seoul = hourly().cron("30 * * * *").zone("Asia/Seoul").parameter("day", "${tick.date-1d},date");
    bench.define(&launcher, [seoul]).await.unwrap();
    let looping = tokio::spawn(schedule::run(launcher));

    bench.clock().advance(HOUR / 2);
    let tick = loop {
        if let Some(tick) = bench.ticks("hourly").await.unwrap().into_iter().next() {
            break tick;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };

    looping.abort();
    let mut tx = bench.store().read().await.unwrap();
    let launched = tx.jobs().execution(tick.execution.unwrap()).await.unwrap().unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(launched.execution.launched_by.as_deref(), Some("schedule hourly"));
    let expected = JobParameters::new()
        .with("tick", "2026-11-15T02:30:00Z")
        .with("day", tidemill_domain::job::ParameterValue::from_stored("date", "2026-11-14").unwrap());
    assert_eq!(launched.job_parameters().unwrap(), expected);
}

async fn ticks_that_nothing_tells_apart_are_one_instance_after_the_other(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let bench = bench(&stand).await;
    let launcher = launcher(&stand, "one", vec![quick("load")]).await;
    let plain = Schedule::new("hourly", "load").cron("0 * * * *").parameter("region", "kr");
    bench.define(&launcher, [plain]).await.unwrap();

    let mut exits = Vec::new();
    for _hour in 0..3 {
        bench.clock().advance(HOUR);
        let fired = bench.fire_due(&launcher).await.unwrap();
        exits.extend(fired.into_iter().map(|tick| tick.run.end.exit.code));
    }

    assert_eq!(exits, ["COMPLETED"; 3], "it does its work each time");
    let mut tx = bench.store().read().await.unwrap();
    assert_eq!(tx.jobs().instances("load", None, 10).await.unwrap().len(), 3);
    tx.rollback().await.unwrap();
}

async fn the_next_instance_has_a_number_of_its_own_and_nothing_else_of_earlier_runs(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let bench = bench(&stand).await;
    let launchers = [
        launcher(&stand, "one", vec![quick("load")]).await,
        launcher(&stand, "two", vec![quick("load")]).await,
    ];
    let first = JobParameters::new().with("run.id", 41).with("old", "x").with_non_identifying("rest", "y");
    launchers[0].launch("load", &first, &Actor::system()).await.unwrap().ended().await.unwrap();

    let mut racing = Vec::new();
    for number in 0..6 {
        let launcher = launchers[number % 2].clone();
        racing.push(tokio::spawn(async move {
            let running =
                launcher.launch_next("load", &JobParameters::new(), &Actor::system()).await.unwrap();
            running.ended().await.unwrap().execution
        }));
    }
    let mut given = BTreeSet::new();
    for racer in racing {
        let id = racer.await.unwrap();
        let mut tx = bench.store().read().await.unwrap();
        let parameters = tx.jobs().execution(id).await.unwrap().unwrap().parameters;
        tx.rollback().await.unwrap();
        assert_eq!(parameters.len(), 1, "{parameters:?}");
        given.insert((parameters[0].name.clone(), parameters[0].value.clone()));
    }

    let expected = (42..48).map(|number| ("run.id".to_owned(), number.to_string())).collect();
    assert_eq!(given, expected);
    let twice = launchers[0].launch_next("load", &first, &Actor::system()).await.unwrap_err();
    assert_eq!(twice.code().to_string(), "TM1007");
}
