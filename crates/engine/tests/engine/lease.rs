//! Leases as their holder sees them.

use crate::{Bench, TTL, key};
use metrics_exporter_prometheus::PrometheusBuilder;
use std::time::Duration;
use tidemill_domain::lease::{Epoch, Term};
use tidemill_domain::process::{Incarnation, ProcessRefusal, self_fencing_margin};
use tidemill_domain::time::Clock;
use tidemill_engine::process::End;
use tidemill_engine::{EngineError, incarnation, reaper};

#[tokio::test]
async fn a_holder_stops_trusting_its_lease_before_the_database_does() {
    let bench = Bench::new().await;
    let (one, two) = (bench.process("one").await, bench.process("two").await);
    let lease = one.acquire(&key("a"), Term::Process).await.unwrap();
    let trusted = TTL - self_fencing_margin(TTL);

    bench.clock.advance(trusted - Duration::from_micros(1));
    assert!(lease.is_trusted() && lease.check().is_ok());
    bench.clock.advance(Duration::from_micros(1));

    assert!(matches!(lease.check(), Err(EngineError::LeaseLost { .. })));
    lease.lost().await;
    let refused = two.acquire(&key("a"), Term::Process).await;
    assert!(matches!(refused, Err(EngineError::LeaseHeld { .. })), "the database still counts it as held");
}

#[tokio::test]
async fn a_jump_of_the_wall_clock_changes_nothing_for_the_holder() {
    let bench = Bench::new().await;
    let one = bench.process("one").await;
    let lease = one.acquire(&key("a"), Term::Process).await.unwrap();

    bench.clock.jump_to("2031-01-01T00:00:00Z".parse().unwrap());

    assert!(lease.is_trusted());
}

#[tokio::test]
async fn after_the_clock_went_back_the_dead_lose_what_they_held_and_trusted_it_no_longer() {
    let bench = Bench::new().await;
    let (one, two) = (bench.process("one").await, bench.process("two").await);
    let lease = one.acquire(&key("a"), Term::Process).await.unwrap();
    bench.clock.jump_to(bench.clock.now().minus(Duration::from_secs(3_600)));

    for _ in 0..4 {
        assert_eq!(reaper::run_once(&bench.store).await.unwrap(), reaper::Reaped::default());
        bench.clock.advance(TTL / 4);
        two.heartbeat().await.unwrap();
    }
    assert!(!lease.is_trusted());

    let reaped = reaper::run_once(&bench.store).await.unwrap();
    assert_eq!((reaped.processes, reaped.leases), (1, 1));
    assert!(two.acquire(&key("a"), Term::Process).await.unwrap().is_trusted());
    assert!(matches!(one.heartbeat().await, Err(EngineError::ProcessExpired { .. })));
}

#[tokio::test]
async fn a_heartbeat_keeps_the_process_and_the_terms_of_its_leases() {
    let bench = Bench::new().await;
    let one = bench.process("one").await;
    let long = one.acquire(&key("long"), Term::Process).await.unwrap();
    let short = one.acquire(&key("short"), Term::For(Duration::from_secs(5))).await.unwrap();

    for _ in 0..10 {
        bench.clock.advance(Duration::from_secs(3));
        one.heartbeat().await.unwrap();
        assert!(long.is_trusted() && short.is_trusted());
    }
    bench.clock.advance(Duration::from_secs(4));

    assert!(long.is_trusted() && !short.is_trusted());
}

#[tokio::test]
async fn a_ghost_is_refused_and_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let counted = recorder.handle();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let bench = Bench::new().await;
    let one = bench.process("one").await;
    let ghost = one.acquire(&key("a"), Term::Process).await.unwrap();
    bench.clock.advance(TTL);
    let two = bench.process("two").await;
    let heir = two.acquire(&key("a"), Term::Process).await.unwrap();
    assert_eq!(heir.fence().epoch, Epoch::new(2));

    let mut tx = bench.store.begin().await.unwrap();
    let refused = ghost.confirm(&mut tx).await;
    tx.rollback().await.unwrap();
    let mut tx = bench.store.begin().await.unwrap();
    heir.confirm(&mut tx).await.unwrap();
    tx.commit().await.unwrap();

    assert!(matches!(refused, Err(EngineError::LeaseLost { .. })));
    let text = counted.render();
    assert!(text.contains("tidemill_fencing_rejections_total{kind=\"test\"} 1"), "{text}");
    assert!(text.contains("tidemill_lease_takeovers_total{kind=\"test\"} 1"), "{text}");
}

#[tokio::test]
async fn a_late_heartbeat_ends_the_process_and_loses_everything() {
    let bench = Bench::new().await;
    let one = bench.process("one").await;
    let lease = one.acquire(&key("a"), Term::Process).await.unwrap();
    bench.clock.advance(TTL);

    let refused = one.heartbeat().await;

    assert!(matches!(refused, Err(EngineError::ProcessExpired { .. })));
    assert_eq!(one.ended().await, End::Expired);
    lease.lost().await;
    assert!(matches!(one.acquire(&key("b"), Term::Process).await, Err(EngineError::ProcessExpired { .. })));
}

#[tokio::test]
async fn a_term_that_could_not_be_renewed_is_lost() {
    let bench = Bench::new().await;
    let one = bench.process("one").await;
    let lease = one.acquire(&key("a"), Term::For(Duration::from_secs(2))).await.unwrap();
    bench.clock.advance(Duration::from_secs(3));

    one.heartbeat().await.unwrap();

    lease.lost().await;
    assert!(lease.check().is_err());
}

#[tokio::test]
async fn a_grant_whose_answer_was_lost_is_taken_up_again() {
    let bench = Bench::new().await;
    let one = bench.process("one").await;
    // What a commit leaves behind whose acknowledgement never arrived.
    let mut tx = bench.store.begin().await.unwrap();
    tx.leases().acquire(&key("a"), one.id(), Term::Process).await.unwrap().unwrap();
    tx.commit().await.unwrap();

    let lease = one.acquire(&key("a"), Term::Process).await.unwrap();

    assert_eq!(lease.fence().epoch, Epoch::new(2));
    assert!(matches!(one.acquire(&key("a"), Term::Process).await, Err(EngineError::LeaseHeld { .. })));
}

#[tokio::test]
async fn a_heartbeat_gives_back_what_nobody_knows_of() {
    let bench = Bench::new().await;
    let (one, two) = (bench.process("one").await, bench.process("two").await);
    let known = one.acquire(&key("known"), Term::Process).await.unwrap();
    let mut tx = bench.store.begin().await.unwrap();
    tx.leases().acquire(&key("unknown"), one.id(), Term::Process).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    assert!(two.acquire(&key("unknown"), Term::Process).await.is_err());

    one.heartbeat().await.unwrap();

    assert!(two.acquire(&key("unknown"), Term::Process).await.is_ok());
    assert!(known.is_trusted());
}

#[tokio::test]
async fn a_heartbeat_finds_out_what_was_taken() {
    let bench = Bench::new().await;
    let one = bench.process("one").await;
    let lease = one.acquire(&key("a"), Term::Process).await.unwrap();
    // As an operator would: the lease goes to nobody while its owner lives.
    let mut tx = bench.store.begin().await.unwrap();
    assert!(tx.leases().release(&key("a"), lease.fence()).await.unwrap());
    tx.commit().await.unwrap();
    assert!(lease.is_trusted(), "nobody has told it yet");

    one.heartbeat().await.unwrap();

    assert!(!lease.is_trusted());
    lease.lost().await;
}

#[tokio::test]
async fn an_acquire_that_nobody_waits_for_leaves_nothing_behind() {
    let bench = Bench::new().await;
    let (one, two) = (bench.process("one").await, bench.process("two").await);

    // Asked, and no longer waited for before anybody could answer.
    let wanted = key("a");
    tokio::select! {
        biased;
        answer = one.acquire(&wanted, Term::Process) => panic!("{answer:?} came without a wait"),
        () = std::future::ready(()) => {}
    }

    let mut had = two.acquire(&key("a"), Term::Process).await;
    for _ in 0..1000 {
        if had.is_ok() {
            break;
        }
        tokio::task::yield_now().await;
        one.heartbeat().await.unwrap();
        had = two.acquire(&key("a"), Term::Process).await;
    }
    assert!(had.is_ok(), "the lease was never given back");
}

#[tokio::test]
async fn a_lease_that_arrives_at_a_process_that_has_ended_is_lost() {
    let bench = Bench::new().await;
    let one = bench.process("one").await;
    one.stop().await.unwrap();

    assert!(one.acquire(&key("a"), Term::Process).await.is_err());
}

#[tokio::test]
async fn a_process_that_nobody_has_any_more_stops_its_heartbeat() {
    let bench = Bench::new().await;
    let clock = std::sync::Arc::new(tidemill_engine::SystemClock::new());
    // Heartbeats come every quarter of it in real time, and count from where the test has put the database's clock.
    let ttl = Duration::from_secs(20);
    let process = tidemill_engine::Process::start(bench.store.clone(), clock, crate::options("one", ttl))
        .await
        .unwrap();
    let id = process.id();
    bench.clock.advance(ttl / 2);
    let is_heard = async || {
        let mut tx = bench.store.begin().await.unwrap();
        let known = tx.processes().list(10).await.unwrap();
        tx.rollback().await.unwrap();
        known.iter().any(|one| one.id == id && one.heartbeat_at == bench.clock.now())
    };
    crate::until("a heartbeat while somebody has the process", is_heard).await;

    drop(process);
    // A heartbeat that was under way comes to its end, and still counts from the instant of the last one.
    tokio::time::sleep(ttl / 4).await;
    bench.clock.advance(ttl / 2);
    // Whoever went on would say here that it lives beyond the instant at which the test looks.
    tokio::time::sleep(ttl / 2).await;
    bench.clock.advance(ttl / 2);

    let mut tx = bench.store.begin().await.unwrap();
    assert_eq!(tx.processes().heartbeat(id, ttl).await.unwrap(), Err(ProcessRefusal::Lapsed));
}

#[tokio::test]
async fn what_is_released_dropped_or_stopped_can_be_had_at_once() {
    let bench = Bench::new().await;
    let (one, two) = (bench.process("one").await, bench.process("two").await);

    one.acquire(&key("a"), Term::Process).await.unwrap().release().await.unwrap();
    let a = two.acquire(&key("a"), Term::Process).await.unwrap();
    drop(one.acquire(&key("b"), Term::Process).await.unwrap());
    let asking = async {
        loop {
            if let Ok(lease) = two.acquire(&key("b"), Term::Process).await {
                return lease;
            }
            tokio::task::yield_now().await;
        }
    };
    let _b = tokio::time::timeout(crate::SOON, asking).await.expect("the lease that was dropped");
    two.stop().await.unwrap();

    assert_eq!(two.ended().await, End::Stopped);
    assert!(!a.is_trusted());
    assert!(one.acquire(&key("a"), Term::Process).await.is_ok());
}

#[tokio::test]
async fn the_reaper_declares_the_silent_dead_and_frees_what_they_held() {
    let bench = Bench::new().await;
    let one = bench.process("one").await;
    let _a = one.acquire(&key("a"), Term::Process).await.unwrap();
    let _b = one.acquire(&key("b"), Term::For(TTL * 9)).await.unwrap();
    assert_eq!(reaper::run_once(&bench.store).await.unwrap(), reaper::Reaped::default());
    bench.clock.advance(TTL);

    let reaped = reaper::run_once(&bench.store).await.unwrap();

    assert_eq!(reaped, reaper::Reaped { processes: 1, leases: 2, executions: 0 });
    assert_eq!(reaper::run_once(&bench.store).await.unwrap(), reaper::Reaped::default());
}

#[tokio::test]
async fn a_process_that_this_machine_no_longer_has_is_dead_at_once() {
    let bench = Bench::new().await;
    let (killed, hidden) = (bench.process("killed").await, bench.process("hidden").await);
    let _a = killed.acquire(&key("a"), Term::Process).await.unwrap();
    let b = hidden.acquire(&key("b"), Term::Process).await.unwrap();
    let survivor = bench.process("survivor").await;
    assert_eq!(reaper::bury_neighbours(&bench.store).await.unwrap(), 0);
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let gone = Incarnation { pid: child.id(), started: 1, ..incarnation::own().unwrap() };
    // The same pid in another container, of which this one knows nothing.
    let elsewhere = Incarnation { place: format!("{}0", gone.place), ..gone.clone() };
    let mut tx = bench.store.begin().await.unwrap();
    tx.processes().set_incarnation(killed.id(), &gone).await.unwrap();
    tx.processes().set_incarnation(hidden.id(), &elsewhere).await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(reaper::bury_neighbours(&bench.store).await.unwrap(), 1);
    let reaped = reaper::run_once(&bench.store).await.unwrap();

    assert_eq!(reaped, reaper::Reaped { processes: 0, leases: 1, executions: 0 });
    assert!(survivor.acquire(&key("a"), Term::Process).await.is_ok());
    assert!(matches!(killed.heartbeat().await, Err(EngineError::ProcessExpired { .. })));
    hidden.heartbeat().await.unwrap();
    survivor.heartbeat().await.unwrap();
    assert!(b.is_trusted());
    assert_eq!(reaper::bury_neighbours(&bench.store).await.unwrap(), 0);
}
