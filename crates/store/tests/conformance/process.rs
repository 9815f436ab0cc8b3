//! The registry of processes.

use crate::{Bench, TTL, identity, key, process_id};
use std::time::Duration;
use tidemill_domain::lease::Term;
use tidemill_domain::process::{Incarnation, ProcessRefusal, ProcessState};
use tidemill_store::audit::AuditFilter;

crate::on_both![
    a_registered_process_is_alive_for_its_ttl,
    a_heartbeat_counts_from_now_for_its_ttl,
    a_late_heartbeat_is_refused_even_if_nobody_noticed,
    a_process_that_stops_gives_back_what_it_holds,
    a_dead_process_cannot_stop_in_order,
    only_the_silent_are_declared_dead,
    start_stop_and_death_leave_audit_rows,
    ended_processes_are_pruned_after_their_age_unless_a_lease_names_them,
    a_process_cannot_register_twice,
    a_process_that_has_ended_is_buried_once_and_its_neighbours_are_listed,
];

async fn a_registered_process_is_alive_for_its_ttl(bench: Bench) {
    let id = bench.process(1).await;

    let listed = bench.begin().await.processes().list(10).await.unwrap();

    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].id, id);
    assert_eq!(listed[0].identity, identity(1));
    assert_eq!(listed[0].started_at, bench.now());
    assert_eq!(listed[0].state, ProcessState::Live { until: bench.now().plus(TTL) });
}

async fn a_heartbeat_counts_from_now_for_its_ttl(bench: Bench) {
    let id = bench.process(1).await;
    bench.advance(Duration::from_secs(10));

    let mut tx = bench.begin().await;
    tx.processes().heartbeat(id, TTL).await.unwrap().unwrap();
    tx.commit().await.unwrap();

    let listed = bench.begin().await.processes().list(10).await.unwrap();
    assert_eq!(listed[0].state, ProcessState::Live { until: bench.now().plus(TTL) });
    assert_eq!(listed[0].heartbeat_at, bench.now());
}

async fn a_late_heartbeat_is_refused_even_if_nobody_noticed(bench: Bench) {
    let id = bench.process(1).await;
    bench.advance(TTL);

    let mut tx = bench.begin().await;

    assert_eq!(tx.processes().heartbeat(id, TTL).await.unwrap(), Err(ProcessRefusal::Lapsed));
    assert_eq!(tx.processes().heartbeat(process_id(99), TTL).await.unwrap(), Err(ProcessRefusal::Ended));
    tx.processes().expire(100).await.unwrap();
    assert_eq!(tx.processes().heartbeat(id, TTL).await.unwrap(), Err(ProcessRefusal::Ended));
}

async fn a_process_that_stops_gives_back_what_it_holds(bench: Bench) {
    let (one, two) = (bench.process(1).await, bench.process(2).await);
    let mut tx = bench.begin().await;
    tx.leases().acquire(&key("a"), one, Term::Process).await.unwrap().unwrap();
    tx.leases().acquire(&key("b"), one, Term::For(TTL)).await.unwrap().unwrap();
    tx.commit().await.unwrap();

    let mut tx = bench.begin().await;
    tx.processes().stop(one, None).await.unwrap().unwrap();
    tx.processes().stop(one, None).await.unwrap().unwrap();
    tx.commit().await.unwrap();

    let mut tx = bench.begin().await;
    for name in ["a", "b"] {
        let granted = tx.leases().acquire(&key(name), two, Term::Process).await.unwrap().unwrap();
        assert_eq!((granted.fence.epoch.get(), granted.taken_over_from), (2, None));
    }
    assert_eq!(tx.processes().heartbeat(one, TTL).await.unwrap(), Err(ProcessRefusal::Ended));
}

async fn a_dead_process_cannot_stop_in_order(bench: Bench) {
    let id = bench.process(1).await;
    bench.advance(TTL);

    let mut tx = bench.begin().await;
    tx.processes().expire(100).await.unwrap();

    assert_eq!(tx.processes().stop(id, None).await.unwrap(), Err(ProcessRefusal::Ended));
    assert_eq!(tx.processes().stop(process_id(99), None).await.unwrap(), Err(ProcessRefusal::Ended));
}

async fn only_the_silent_are_declared_dead(bench: Bench) {
    let (one, two) = (bench.process(1).await, bench.process(2).await);
    bench.advance(TTL / 2);
    let mut tx = bench.begin().await;
    tx.processes().heartbeat(two, TTL).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    bench.advance(TTL / 2);

    let mut tx = bench.begin().await;
    let dead = tx.processes().expire(100).await.unwrap();
    let again = tx.processes().expire(100).await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(dead.iter().map(|record| record.id).collect::<Vec<_>>(), [one]);
    assert_eq!(dead[0].state, ProcessState::Dead { at: bench.now() });
    assert!(again.is_empty());
}

async fn start_stop_and_death_leave_audit_rows(bench: Bench) {
    let (one, two) = (bench.process(1).await, bench.process(2).await);
    let mut tx = bench.begin().await;
    tx.processes().stop(one, None).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    bench.advance(TTL);
    let mut tx = bench.begin().await;
    tx.processes().expire(100).await.unwrap();
    tx.commit().await.unwrap();

    let log = bench.begin().await.audit().entries(&AuditFilter::default(), 4).await.unwrap();

    let told: Vec<(String, String)> = log.into_iter().map(|r| (r.entry.action, r.entry.object)).collect();
    let line = |action: &str, id| (action.to_owned(), format!("process/{id}"));
    assert_eq!(
        told,
        [
            line("process.dead", two),
            line("process.stop", one),
            line("process.start", two),
            line("process.start", one)
        ]
    );
}

async fn ended_processes_are_pruned_after_their_age_unless_a_lease_names_them(bench: Bench) {
    let (one, two) = (bench.process(1).await, bench.process(2).await);
    let mut tx = bench.begin().await;
    tx.leases().acquire(&key("a"), two, Term::Process).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    bench.advance(TTL);
    let mut tx = bench.begin().await;
    tx.processes().expire(100).await.unwrap();
    tx.commit().await.unwrap();
    let three = bench.process(3).await;
    let week = Duration::from_secs(7 * 86400);

    let mut tx = bench.begin().await;
    assert_eq!(tx.processes().prune(week, 100).await.unwrap(), 0);
    bench.advance(week + Duration::from_secs(1));
    assert_eq!(tx.processes().prune(week, 100).await.unwrap(), 1);

    let left: Vec<_> = tx.processes().list(10).await.unwrap().into_iter().map(|record| record.id).collect();
    assert!(!left.contains(&one) && left.contains(&two) && left.contains(&three));
}

async fn a_process_cannot_register_twice(bench: Bench) {
    let id = bench.process(1).await;

    let mut tx = bench.begin().await;

    assert!(tx.processes().register(id, &identity(1), TTL).await.is_err());
}

async fn a_process_that_has_ended_is_buried_once_and_its_neighbours_are_listed(bench: Bench) {
    let (one, two, three) = (bench.process(1).await, bench.process(2).await, bench.process(3).await);
    let at = |place: &str, pid| Incarnation { place: place.to_owned(), pid, started: 5 };
    let mut tx = bench.begin().await;
    tx.processes().set_incarnation(one, &at("here", 1)).await.unwrap();
    tx.processes().set_incarnation(two, &at("here", 2)).await.unwrap();
    tx.processes().set_incarnation(three, &at("here2", 1)).await.unwrap();

    assert_eq!(
        tx.processes().neighbours("here").await.unwrap(),
        [(one, at("here", 1)), (two, at("here", 2))]
    );
    assert!(tx.processes().bury(one).await.unwrap());

    assert!(!tx.processes().bury(one).await.unwrap());
    assert!(!tx.processes().bury(process_id(99)).await.unwrap());
    assert_eq!(tx.processes().neighbours("here").await.unwrap(), [(two, at("here", 2))]);
    assert_eq!(tx.processes().heartbeat(one, TTL).await.unwrap(), Err(ProcessRefusal::Ended));
    assert_eq!(tx.processes().stop(two, None).await.unwrap(), Ok(()));
    assert!(!tx.processes().bury(two).await.unwrap());
    let entries = tx.audit().entries(&AuditFilter::default(), 10).await.unwrap();
    let deaths = entries.iter().filter(|entry| entry.entry.action == "process.dead").count();
    assert_eq!(deaths, 1);
}
