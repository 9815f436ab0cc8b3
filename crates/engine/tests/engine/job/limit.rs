//! How many executions one process runs at once.

use super::Stand;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::code::Code;
use tidemill_domain::job::lifecycle::OnCrash;
use tidemill_domain::job::{BatchStatus, JobParameters};
use tidemill_domain::time::Clock;
use tidemill_engine::job::{Job, JobError, JobRegistry, Launcher, Running, Step, recovery};
use tidemill_engine::testing::JobBench;
use tidemill_engine::{Process, reaper};
use tidemill_store::job::ExecutionFilter;
use tidemill_store::scratch::Scratch;
use tokio::sync::watch;

tidemill_store::on_both![
    a_launch_beyond_the_limit_is_refused_and_leaves_nothing_behind,
    of_many_launches_at_once_as_many_succeed_as_there_is_room_for,
    what_shall_be_restarted_waits_until_there_is_room,
];

/// Long enough for several rounds of the loop that restarts.
const ROUNDS: Duration = Duration::from_millis(700);

/// Waits until the test lets all of them end.
fn job(gate: &watch::Sender<bool>) -> Job {
    let gate = gate.subscribe();
    let step = Step::tasklet("wait", move |_| {
        let mut gate = gate.clone();
        async move {
            let _never_closed = gate.wait_for(|is_open| *is_open).await;
            Ok(())
        }
    });
    Job::new("waiting").step(step).on_crash(OnCrash::Restart { limit: 3 })
}

async fn launch(launcher: &Launcher, number: i64) -> Result<Running, JobError> {
    launcher.launch("waiting", &JobParameters::new().with("n", number), &Actor::system()).await
}

/// The statuses of all executions, the newest first.
async fn statuses(bench: &JobBench) -> Vec<BatchStatus> {
    let mut tx = bench.store().read().await.unwrap();
    let found = tx.jobs().executions(&ExecutionFilter::default(), None, 100).await.unwrap();
    tx.rollback().await.unwrap();
    found.into_iter().map(|found| found.status).collect()
}

async fn a_launch_beyond_the_limit_is_refused_and_leaves_nothing_behind(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let (bench, gate) = (&stand.bench, watch::Sender::new(false));
    let launcher = bench.launcher(&job(&gate)).unwrap().max_running(1);
    let first = launch(&launcher, 1).await.unwrap();

    let refused = launch(&launcher, 2).await.unwrap_err();

    assert!(matches!(refused, JobError::TooManyRunning { limit: 1 }), "{refused:?}");
    assert_eq!(refused.code(), Code::TooManyExecutions);
    assert_eq!(statuses(bench).await.len(), 1);
    gate.send_replace(true);
    assert_eq!(first.ended().await.unwrap().status, BatchStatus::Completed);
    let second = launch(&launcher, 2).await.unwrap().ended().await.unwrap();
    assert_eq!(second.status, BatchStatus::Completed);
}

async fn of_many_launches_at_once_as_many_succeed_as_there_is_room_for(scratch: Scratch) {
    const LIMIT: usize = 3;
    let stand = Stand::on(scratch).await;
    let (bench, gate) = (&stand.bench, watch::Sender::new(false));
    let launcher = bench.launcher(&job(&gate)).unwrap().max_running(LIMIT);
    let launching: Vec<_> = (0..12)
        .map(|number| {
            let launcher = launcher.clone();
            tokio::spawn(async move { launch(&launcher, number).await })
        })
        .collect();

    let mut running = Vec::new();
    for launched in launching {
        match launched.await.unwrap() {
            Ok(launched) => running.push(launched),
            Err(error) => assert!(matches!(error, JobError::TooManyRunning { .. }), "{error:?}"),
        }
    }

    assert_eq!((running.len(), statuses(bench).await.len()), (LIMIT, LIMIT));
    gate.send_replace(true);
    for one in running {
        one.ended().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_limit_nothing_is_refused() {
    let stand = Stand::on(Scratch::file()).await;
    let gate = watch::Sender::new(false);
    let launcher = stand.bench.launcher(&job(&gate)).unwrap();

    for number in 0..40 {
        launch(&launcher, number).await.unwrap();
    }

    gate.send_replace(true);
    launcher.stop_all(Duration::from_secs(10)).await;
}

async fn what_shall_be_restarted_waits_until_there_is_room(scratch: Scratch) {
    let stand = Stand::on(scratch).await;
    let (bench, gate, never) = (&stand.bench, watch::Sender::new(false), watch::Sender::new(false));
    let ghost = bench.launcher(&job(&never)).unwrap();
    launch(&ghost, 1).await.unwrap();
    bench.clock().advance(crate::TTL);
    let heir = heir(bench, stand.clock.clone(), job(&gate)).await;
    let other = launch(&heir, 2).await.unwrap();
    assert_eq!(reaper::run_once(bench.store()).await.unwrap().executions, 1);

    let looking = tokio::time::timeout(ROUNDS, recovery::run(heir.clone())).await;

    assert!(looking.is_err(), "it looks for as long as its process lives");
    assert_eq!(statuses(bench).await.len(), 2, "nothing was restarted while there was no room");
    let restarting = tokio::spawn(recovery::run(heir));
    gate.send_replace(true);
    other.ended().await.unwrap();
    let all = [BatchStatus::Completed, BatchStatus::Completed, BatchStatus::Failed];
    let restarted = async {
        while statuses(bench).await != all {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(crate::SOON, restarted).await.unwrap();
    restarting.abort();
}

/// A second process on the same database, with room for one.
async fn heir(bench: &JobBench, clock: Arc<dyn Clock>, job: Job) -> Launcher {
    let options = crate::options("heir", crate::TTL);
    let process = Process::register(bench.store().clone(), clock.clone(), options).await.unwrap();
    let jobs = JobRegistry::new([job]).unwrap();
    Launcher::new(bench.store().clone(), process, clock, jobs).max_running(1)
}
