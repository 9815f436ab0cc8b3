//! Executions whose process is gone.

use super::Stand;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::{BatchStatus, ExecutionId, JobParameters};
use tidemill_domain::time::Clock;
use tidemill_engine::job::{Job, JobRegistry, Launcher, NotifyOn, Step, recovery};
use tidemill_engine::testing::JobBench;
use tidemill_engine::{EngineError, Process, reaper};
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    an_execution_whose_process_fell_silent_fails_with_the_reason_and_its_ghost_is_refused,
];

/// Waits for ever while it is told to.
fn job(waits: &Arc<AtomicBool>, on_crash: OnCrash) -> Job {
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
    Job::new("waiting").step(step).on_crash(on_crash)
}

async fn status(bench: &JobBench, id: ExecutionId) -> (BatchStatus, String) {
    let mut tx = bench.store().read().await.unwrap();
    let found = tx.jobs().execution(id).await.unwrap().unwrap().execution;
    tx.rollback().await.unwrap();
    (found.status, found.exit.description)
}

/// A second process on the same database, as another host would be.
async fn other(bench: &JobBench, clock: Arc<dyn Clock>, job: Job) -> (Process, Launcher) {
    let process =
        Process::register(bench.store().clone(), clock.clone(), crate::options("other", crate::TTL))
            .await
            .unwrap();
    let jobs = JobRegistry::new([job]).unwrap();
    (process.clone(), Launcher::new(bench.store().clone(), process, clock, jobs))
}

async fn an_execution_whose_process_fell_silent_fails_with_the_reason_and_its_ghost_is_refused(
    scratch: Scratch,
) {
    let stand = Stand::on(scratch).await;
    let (bench, waits) = (&stand.bench, Arc::new(AtomicBool::new(true)));
    let job = job(&waits, OnCrash::Fail);
    let launcher = bench.launcher(&job).unwrap();
    let running = launcher.launch("waiting", &JobParameters::new(), &Actor::system()).await.unwrap();
    let id = running.execution;
    // What the start of the step has locked would be left for the next time.
    crate::until("the step of the execution", async || steps_of(bench, id).await > 0).await;
    assert!(recovery::recover_once(bench.store()).await.unwrap().is_empty(), "its process is alive");

    bench.clock().advance(crate::TTL);
    let reaped = reaper::run_once(bench.store()).await.unwrap();
    waits.store(false, Ordering::SeqCst);
    let ghost = running.ended().await;

    assert_eq!(reaped.executions, 1);
    let (status, reason) = status(bench, id).await;
    assert_eq!(status, BatchStatus::Failed);
    assert!(reason.contains("bench") && reason.contains("no heartbeat since"), "{reason}");
    assert!(matches!(ghost, Err(EngineError::LeaseLost { .. })), "{ghost:?}");
    let (_, heir) = other(bench, stand.clock.clone(), job).await;
    let again = heir.restart(id, &Actor::system()).await.unwrap().ended().await.unwrap();
    assert_eq!(again.status, BatchStatus::Completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_shall_be_restarted_is_restarted_once_and_not_for_ever() {
    let stand = Stand::on(Scratch::file()).await;
    let (bench, waits) = (&stand.bench, Arc::new(AtomicBool::new(true)));
    let job = job(&waits, OnCrash::Restart { limit: 1 });
    let launcher = bench.launcher(&job).unwrap();
    let first = launcher.launch("waiting", &JobParameters::new(), &Actor::system()).await.unwrap();
    bench.clock().advance(crate::TTL);
    reaper::run_once(bench.store()).await.unwrap();

    let (heir, launcher) = other(bench, stand.clock.clone(), job.clone()).await;
    let restarting = tokio::spawn(recovery::run(launcher));
    let second = ExecutionId::new(first.execution.get() + 1);
    let is_started = async || status_of(bench, second).await == Some(BatchStatus::Started);
    crate::until("the restart of the execution", is_started).await;
    restarting.abort();
    drop(heir);
    bench.clock().advance(crate::TTL);
    reaper::run_once(bench.store()).await.unwrap();

    assert_eq!(status_of(bench, second).await, Some(BatchStatus::Failed));
    let mut tx = bench.store().begin().await.unwrap();
    assert_eq!(
        tx.jobs().take_due_restart(&[("waiting", None)]).await.unwrap(),
        None,
        "one restart was allowed"
    );
    tx.rollback().await.unwrap();
    waits.store(false, Ordering::SeqCst);
}

/// The job is no longer restartable, so that its restart is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_an_execution_whose_restart_is_refused_is_notified() {
    let stand = Stand::on(Scratch::file()).await;
    let (bench, waits) = (&stand.bench, Arc::new(AtomicBool::new(true)));
    let job = job(&waits, OnCrash::Restart { limit: 1 }).notify(NotifyOn::Failed, "ops");
    let launcher = bench.launcher(&job).unwrap();
    launcher.launch("waiting", &JobParameters::new(), &Actor::system()).await.unwrap();
    bench.clock().advance(crate::TTL);
    reaper::run_once(bench.store()).await.unwrap();
    let queued = async || bench.store().read().await.unwrap().alerts().deliveries(10).await.unwrap().len();
    assert_eq!(queued().await, 0, "it is restarted");

    let (_heir, launcher) = other(bench, stand.clock.clone(), job.not_restartable()).await;
    let restarting = tokio::spawn(recovery::run(launcher));
    crate::until("the notice of the end", async || queued().await > 0).await;

    restarting.abort();
    assert_eq!(queued().await, 1);
    waits.store(false, Ordering::SeqCst);
}

async fn steps_of(bench: &JobBench, id: ExecutionId) -> usize {
    let mut tx = bench.store().read().await.unwrap();
    let steps = tx.jobs().steps(id).await.unwrap().len();
    tx.rollback().await.unwrap();
    steps
}

async fn status_of(bench: &JobBench, id: ExecutionId) -> Option<BatchStatus> {
    let mut tx = bench.store().read().await.unwrap();
    let found = tx.jobs().execution(id).await.unwrap().map(|found| found.execution.status);
    tx.rollback().await.unwrap();
    found
}
