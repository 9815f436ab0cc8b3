//! A job's process is killed, or frozen and comes back as a ghost, while another one goes on with the job.

use super::{GRACE, Ground, LEASE, PATIENCE, arguments};
use std::time::Duration;
use tidemill_domain::job::BatchStatus;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_store::scratch::Scratch;
use tidemill_store::{Store, StoreOptions};
use tidemill_testkit::{Guarded, Signal};

tidemill_store::on_both![
    an_execution_whose_process_was_killed_fails_soon_after_its_lease_and_says_why,
    a_job_that_asks_for_it_is_restarted_by_a_process_that_has_it,
    a_frozen_process_comes_back_as_a_ghost_and_writes_nothing_any_more,
];

const RUN: &str = "run=night";
/// A chunk of this run takes four seconds.
const SLOW: &str = "pause=400,long,false";
const FAST: &str = "pause=0,long,false";

/// A server of the same program, which finds the dead and has the jobs.
const STANDBY: [&str; 3] = ["serve", "--listen", "127.0.0.1:0"];

async fn an_execution_whose_process_was_killed_fails_soon_after_its_lease_and_says_why(database: Scratch) {
    let ground = Ground::new(database).await;
    let _standby = ground.program.start("standby.log", &STANDBY);
    let mut victim = ground.start_mortal("victim.log", &arguments("sweep", RUN, SLOW));
    let id = ground.at_work("sweep", "night").await;

    victim.signal(Signal::KILL).unwrap();
    let clock = SystemClock::new();
    let start = clock.monotonic();
    let failed = ground
        .until(async || {
            let (detail, steps) = ground.executions("sweep", "night").await.pop()?;
            (detail.execution.status == BatchStatus::Failed).then_some((detail, steps))
        })
        .await;
    let took = clock.monotonic().since(start);

    assert!(took <= LEASE + GRACE, "found after {took:?} on {}", ground.database.url());
    let (detail, steps) = failed;
    let reason = &detail.execution.exit.description;
    assert!(reason.contains(&format!(", {})", victim.pid())) && reason.contains("no heartbeat"), "{reason}");
    assert!(steps.iter().all(|step| step.status == BatchStatus::Failed), "{steps:?}");
    let restarted = ground.program.run(&["job", "restart", &id.to_string()]);
    restarted.succeeds();
    ground.assert_exact("sweep", "night").await;
}

async fn a_job_that_asks_for_it_is_restarted_by_a_process_that_has_it(database: Scratch) {
    let ground = Ground::new(database).await;
    let _standby = ground.program.start("standby.log", &STANDBY);
    let mut victim = ground.start_mortal("victim.log", &arguments("phoenix", RUN, SLOW));
    ground.at_work("phoenix", "night").await;

    victim.signal(Signal::KILL).unwrap();
    let executions = ground
        .until(async || {
            let executions = ground.executions("phoenix", "night").await;
            let is_over = executions.last()?.0.execution.status == BatchStatus::Completed;
            is_over.then_some(executions)
        })
        .await;

    assert_eq!(executions.len(), 2);
    assert_eq!(executions[1].0.execution.crash_restarts, 1);
    assert_eq!(executions[1].0.execution.launched_by.as_deref(), Some("tidemill"));
    ground.assert_exact("phoenix", "night").await;
}

async fn a_frozen_process_comes_back_as_a_ghost_and_writes_nothing_any_more(database: Scratch) {
    let ground = Ground::new(database).await;
    let mut ghost = ground.start_mortal("ghost.log", &arguments("sweep", RUN, SLOW));
    let id = ground.at_work("sweep", "night").await;
    freeze_at_work(&mut ghost, &ground).await;

    // As soon as its lease has run out.
    ground.go_on(&arguments("sweep", RUN, FAST)).succeeds();
    let before = ground.rows("night").await;
    ghost.signal(Signal::CONT).unwrap();
    let ended = ghost.wait_deadline(PATIENCE).expect("the ghost ends by itself");

    assert_eq!(ended.code(), Some(5), "{ended:?}");
    let said = std::fs::read_to_string(ground.program.stage.path("ghost.log")).unwrap();
    assert!(said.contains("error[TM0302]") && said.contains(&format!("execution {id}")), "{said}");
    assert_eq!(ground.rows("night").await, before);
    ground.assert_exact("sweep", "night").await;
    let executions = ground.executions("sweep", "night").await;
    assert_eq!(executions.len(), 2);
    let reason = &executions[0].0.execution.exit.description;
    assert!(reason.contains(&format!(", {})", ghost.pid())), "{reason}");
}

/// Freezes a process in the middle of its work, and not while it holds the database's write lock: that would stop
/// everybody else on SQLite, too.
async fn freeze_at_work(worker: &mut Guarded, ground: &Ground) {
    for _ in 0..20 {
        worker.signal(Signal::STOP).unwrap();
        let options = StoreOptions { busy_timeout: Duration::from_millis(300), ..StoreOptions::default() };
        let store = Store::open(ground.database.url().parse().unwrap(), &options).await.unwrap();
        let is_free = store.begin().await.is_ok();
        store.close().await;
        if is_free {
            return;
        }
        worker.signal(Signal::CONT).unwrap();
    }
    panic!("the worker always held the write lock");
}
