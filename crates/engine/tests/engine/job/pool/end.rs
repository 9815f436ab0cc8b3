//! Units come back at every end of a step.

use super::{LONG, Work, World, adw, all, becomes, level, other, record, some, stand, stranger};
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::code::Code;
use tidemill_domain::job::{BatchStatus, JobParameters};
use tidemill_domain::pool::command::{Release, ReleaseBy};
use tidemill_domain::pool::{End, State};
use tidemill_engine::job::{Job, Partition, PoolUse, Step, StepScope};
use tidemill_engine::pool::{PoolOptions, Pools};
use tidemill_engine::{EngineError, reaper};
use tidemill_store::job::ExecutionChanged;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    whatever_the_end_the_units_come_back_and_a_restart_asks_again,
    a_step_whose_database_refuses_it_opens_the_breaker,
    who_is_stopped_in_the_queue_leaves_it,
    a_process_that_ends_in_order_gives_back_what_its_steps_hold,
    who_waited_too_long_fails_and_can_be_restarted,
    an_execution_whose_process_died_is_recovered_together_with_its_units,
    an_execution_that_died_in_the_queue_leaves_it_when_it_is_recovered,
    a_step_whose_units_were_taken_back_runs_to_its_end,
    partitions_that_ask_for_themselves_never_exceed_the_pool_together,
];

async fn whatever_the_end_the_units_come_back_and_a_restart_asks_again(scratch: Scratch) {
    let stand = stand(scratch).await;
    for work in [Work::Fails, Work::Panics] {
        let world = World::new().does(work);
        let job = Job::new(format!("{work:?}")).step(world.step("s").pool(all(6)));

        let failed = stand.bench.run(&job, &JobParameters::new()).await.unwrap();

        assert_eq!(failed.end.status, BatchStatus::Failed, "{work:?}");
        assert_eq!(level(&stand).await, (0, 0), "{work:?}");
        let world = world.does(Work::Succeeds);
        let again = stand.bench.run(&job, &JobParameters::new()).await.unwrap();
        assert!(again.is_completed());
        assert_eq!((world.runs(), level(&stand).await), (2, (0, 0)));
    }
}

async fn a_step_whose_database_refuses_it_opens_the_breaker(scratch: Scratch) {
    let stand = stand(scratch).await;
    for (work, is_open) in [(Work::Fails, false), (Work::Refused, true)] {
        let job = Job::new(format!("{work:?}")).step(World::new().does(work).step("s").pool(all(6)));

        let failed = stand.bench.run(&job, &JobParameters::new()).await.unwrap();

        assert_eq!(failed.end.status, BatchStatus::Failed, "{work:?}");
        let pool = record(&stand).await;
        assert_eq!((pool.usage, pool.breaker.is_open()), (0, is_open), "{work:?}");
    }
    assert_eq!(record(&stand).await.breaker.reason, "SQLSTATE 53300");
}

async fn who_is_stopped_in_the_queue_leaves_it(scratch: Scratch) {
    let stand = stand(scratch).await;
    let (world, held) = (World::new(), other(&stand, 10).await);
    let job = Job::new("waits").step(world.step("s").pool(all(6)));
    let launcher = stand.bench.launcher(&job).unwrap();
    let running = launcher.launch("waits", &JobParameters::new(), &Actor::system()).await.unwrap();
    becomes(&stand, (10, 1)).await;
    let mut tx = stand.bench.store().begin().await.unwrap();
    let asked = tx.jobs().request_stop(running.execution, &Actor::system(), None).await.unwrap();
    assert!(matches!(asked, ExecutionChanged::Done { .. }), "{asked:?}");
    tx.commit().await.unwrap();

    let end = tokio::time::timeout(LONG, running.ended()).await.unwrap().unwrap();

    let run = stand.bench.look(end).await.unwrap();
    assert_eq!(run.end.status, BatchStatus::Stopped);
    assert_eq!(run.step("s").unwrap().exit.description, "stopped while it waited for pool adw");
    assert_eq!((world.runs(), level(&stand).await), (0, (10, 0)));
    held.release(false).await.unwrap();
    assert!(stand.bench.run(&job, &JobParameters::new()).await.unwrap().is_completed());
}

async fn a_process_that_ends_in_order_gives_back_what_its_steps_hold(scratch: Scratch) {
    let stand = stand(scratch).await;
    let world = World::closed();
    let job = Job::new("ends").step(world.step("s").pool(all(6)));
    let launcher = stand.bench.launcher(&job).unwrap();
    let running = launcher.launch("ends", &JobParameters::new(), &Actor::system()).await.unwrap();
    becomes(&stand, (6, 0)).await;

    launcher.stop_all(Duration::from_millis(20)).await;

    assert_eq!(running.ended().await.unwrap().status, BatchStatus::Stopped);
    assert_eq!(level(&stand).await, (0, 0));
}

async fn who_waited_too_long_fails_and_can_be_restarted(scratch: Scratch) {
    let stand = stand(scratch).await;
    let (world, held) = (World::new(), other(&stand, 5).await);
    for wait in [Duration::ZERO, Duration::from_millis(60)] {
        let wanted = PoolUse { wait: Some(wait), ..all(6) };
        let job = Job::new("impatient").step(world.step("s").pool(wanted));

        let run = stand.bench.run(&job, &JobParameters::new()).await.unwrap();

        assert_eq!((run.end.status, run.end.code), (BatchStatus::Failed, Some(Code::PoolFull)));
        let reason = &run.step("s").unwrap().exit.description;
        assert!(reason.contains("did not have 6 units within") && reason.contains("place 1"), "{reason}");
        assert_eq!(level(&stand).await, (5, 0), "nobody is left in the queue");
    }
    held.release(false).await.unwrap();
    let job = Job::new("impatient").step(world.step("s").pool(all(6)));
    assert!(stand.bench.run(&job, &JobParameters::new()).await.unwrap().is_completed());
}

async fn an_execution_whose_process_died_is_recovered_together_with_its_units(scratch: Scratch) {
    let stand = stand(scratch).await;
    let world = World::closed();
    let job = Job::new("lost").step(world.step("s").pool(all(6)));
    let launcher = stand.bench.launcher(&job).unwrap();
    let running = launcher.launch("lost", &JobParameters::new(), &Actor::system()).await.unwrap();
    becomes(&stand, (6, 0)).await;
    // Runs of others may be called anything.
    let strangers = [
        format!("execution-{}", running.execution),
        "execution-x".into(),
        format!("execution-{}", "9".repeat(40)),
    ];
    let mut held = Vec::new();
    for run in &strangers {
        held.push(stranger(&stand, run, 1).await);
    }
    reaper::run_once(stand.bench.store()).await.unwrap();
    assert_eq!(level(&stand).await, (9, 0), "its process is alive");

    stand.clock.advance(crate::TTL);
    reaper::run_once(stand.bench.store()).await.unwrap();

    assert_eq!(level(&stand).await, (3, 0), "long before the lease on the units is over");
    world.open();
    let ghost = running.ended().await;
    assert!(matches!(ghost, Err(EngineError::LeaseLost { .. })), "{ghost:?}");
    assert_eq!(level(&stand).await, (3, 0));
}

async fn an_execution_that_died_in_the_queue_leaves_it_when_it_is_recovered(scratch: Scratch) {
    let stand = stand(scratch).await;
    let (world, held) = (World::new(), other(&stand, 10).await);
    let job = Job::new("lost").step(world.step("s").pool(all(6)));
    let launcher = stand.bench.launcher(&job).unwrap();
    let running = launcher.launch("lost", &JobParameters::new(), &Actor::system()).await.unwrap();
    becomes(&stand, (10, 1)).await;

    stand.clock.advance(crate::TTL);
    reaper::run_once(stand.bench.store()).await.unwrap();

    let mut tx = stand.bench.store().read().await.unwrap();
    let cancelled = tx.pools().tickets(&adw(), &[State::Cancelled], 10).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(cancelled.len(), 1);
    // Its ghost may ask once more, and gives back what it gets without having begun.
    held.release(false).await.unwrap();
    assert!(running.ended().await.is_err());
    assert_eq!((world.runs(), level(&stand).await), (0, (0, 0)));
}

async fn a_step_whose_units_were_taken_back_runs_to_its_end(scratch: Scratch) {
    let stand = stand(scratch).await;
    let world = World::closed();
    let job = Job::new("robbed").step(world.step("s").pool(all(6)));
    let launcher = stand.bench.launcher(&job).unwrap();
    let running = launcher.launch("robbed", &JobParameters::new(), &Actor::system()).await.unwrap();
    becomes(&stand, (6, 0)).await;
    let pools = Pools::start(stand.bench.store().clone(), PoolOptions::default());
    let by = ReleaseBy::Run { dag_id: "robbed".into(), run_id: format!("execution-{}", running.execution) };
    let end = End::ByOperator { by: "ann".into(), reason: "needed elsewhere".into() };
    pools.release(Release { pool: adw(), by, epoch: None, end, call: None }).await.unwrap();
    assert_eq!(level(&stand).await, (0, 0));

    world.open();

    assert_eq!(running.ended().await.unwrap().status, BatchStatus::Completed);
    assert_eq!(level(&stand).await, (0, 0));
}

async fn partitions_that_ask_for_themselves_never_exceed_the_pool_together(scratch: Scratch) {
    let stand = stand(scratch).await;
    let world = World::new();
    let parts = |_: &StepScope, grid: usize| {
        Ok((0..grid).map(|n| Partition::new(format!("p{n}"))).collect::<Vec<_>>())
    };
    let worker = world.step("w").pool(PoolUse { units: Some(some(4)), ..PoolUse::new(adw()) });
    let job = Job::new("each").step(Step::partitioned("m", worker, parts).grid(8).concurrency(8).build());

    let run = stand.bench.run(&job, &JobParameters::new()).await.unwrap();

    assert!(run.is_completed(), "{:?}", run.end);
    assert_eq!(world.runs(), 8);
    assert!(world.most() <= 10, "{}", world.most());
    assert_eq!(level(&stand).await, (0, 0));
    let mut tx = stand.bench.store().read().await.unwrap();
    let ended = tx.pools().tickets(&adw(), &[State::Released], 100).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(ended.len(), 8, "each had a lease of its own");
    assert_eq!(record(&stand).await.suspect, 0);
}
