//! A process that was given up, and whose own clock has not told it so: the database has the last word.

use super::gate::{Gate, kept, stand};
use crate::{TTL, options};
use metrics_exporter_prometheus::PrometheusBuilder;
use std::sync::Arc;
use tidemill_domain::audit::Actor;
use tidemill_domain::job::{BatchStatus, JobParameters};
use tidemill_domain::time::FakeClock;
use tidemill_engine::job::{JobRegistry, Launcher, Running};
use tidemill_engine::{EngineError, Process, reaper};
use tidemill_store::Store;
use tidemill_store::scratch::Scratch;

// The metrics of one thread are counted.
tidemill_store::on_both![
    one_thread: the_commit_of_a_ghost_is_refused_and_counted
];

async fn the_commit_of_a_ghost_is_refused_and_counted(scratch: Scratch) {
    let stand = stand(scratch).await;
    let recorder = PrometheusBuilder::new().build_recorder();
    let counted = recorder.handle();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let store = stand.bench.store();
    let gate = Gate::closed();
    let ghost = launch(store, "ghost", &gate).await;
    gate.reached().await;

    stand.bench.clock().advance(TTL);
    let reaped = reaper::run_once(store).await.unwrap();
    let lost =
        store.read().await.unwrap().jobs().execution(ghost.execution).await.unwrap().unwrap().execution;
    let open = Gate::closed();
    open.open();
    let finished = launch(store, "heir", &open).await.ended().await.unwrap();
    gate.open();
    let refused = ghost.ended().await;

    assert_eq!(reaped.executions, 1);
    assert_eq!(lost.status, BatchStatus::Failed);
    assert!(lost.exit.description.contains("the process ghost (host, 7)"), "{lost:?}");
    assert_eq!(finished.status, BatchStatus::Completed);
    assert!(matches!(refused, Err(EngineError::LeaseLost { .. })), "{refused:?}");
    assert_eq!(kept(store).await, Vec::from_iter(1..=30));
    let counted = counted.render();
    assert!(counted.contains("tidemill_fencing_rejections_total{kind=\"job\"} 1"), "{counted}");
}

/// Launches the job in a process of its own, whose clock stands still, as that of a frozen process does.
async fn launch(store: &Store, name: &str, gate: &Gate) -> Running {
    let clock = Arc::new(FakeClock::at("2026-11-15T02:00:00Z".parse().unwrap()));
    let process = Process::register(store.clone(), clock.clone(), options(name, TTL)).await.unwrap();
    let launcher = Launcher::new(store.clone(), process, clock, JobRegistry::new([gate.job()]).unwrap());
    launcher.launch("gated", &JobParameters::new(), &Actor::system()).await.unwrap()
}
