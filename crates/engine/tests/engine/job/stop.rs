//! Executions that shall stop while they are in the middle of a chunk.

use super::gate::{Gate, kept, stand};
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::job::{BatchStatus, JobParameters};
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_chunk_that_takes_longer_than_the_grace_is_rolled_back,
    a_chunk_that_ends_within_the_grace_is_kept,
];

async fn a_chunk_that_takes_longer_than_the_grace_is_rolled_back(scratch: Scratch) {
    let stand = stand(scratch).await;
    let gate = Gate::closed();
    let launcher = stand.bench.launcher(&gate.job()).unwrap();
    let running = launcher.launch("gated", &JobParameters::new(), &Actor::system()).await.unwrap();
    gate.reached().await;

    launcher.stop_all(Duration::from_millis(50)).await;

    let stopped = stand.bench.look(running.ended().await.unwrap()).await.unwrap();
    assert_eq!(stopped.end.status, BatchStatus::Stopped);
    let step = stopped.step("numbers").unwrap();
    assert_eq!(step.status, BatchStatus::Stopped);
    assert_eq!(step.exit.description, "stopped in the middle of a chunk");
    assert_eq!((step.counters.write, step.counters.commit, step.counters.rollback), (10, 1, 1));
    assert_eq!(kept(stand.bench.store()).await, Vec::from_iter(1..=10));
    gate.open();
    let finished = stand.bench.run(&gate.job(), &JobParameters::new()).await.unwrap();
    assert!(finished.is_completed());
    assert_eq!(kept(stand.bench.store()).await, Vec::from_iter(1..=30));
}

async fn a_chunk_that_ends_within_the_grace_is_kept(scratch: Scratch) {
    let stand = stand(scratch).await;
    let gate = Gate::closed();
    let launcher = stand.bench.launcher(&gate.job()).unwrap();
    let running = launcher.launch("gated", &JobParameters::new(), &Actor::system()).await.unwrap();
    gate.reached().await;

    let stopping = async {
        launcher.stop_all(Duration::from_secs(10)).await;
    };
    tokio::join!(stopping, async { gate.open() });

    let stopped = stand.bench.look(running.ended().await.unwrap()).await.unwrap();
    assert_eq!(stopped.end.status, BatchStatus::Stopped);
    assert_eq!(stopped.step("numbers").unwrap().counters.rollback, 0);
    assert_eq!(kept(stand.bench.store()).await, Vec::from_iter(1..=20));
    assert!(stand.bench.run(&gate.job(), &JobParameters::new()).await.unwrap().is_completed());
    assert_eq!(kept(stand.bench.store()).await, Vec::from_iter(1..=30));
}
