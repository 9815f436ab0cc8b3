//! Where a decision is one guarded statement, it is compared with the pure rule: on every state, for every event.

use crate::{Bench, TTL, identity, key, process_id};
use std::time::Duration;
use tidemill_domain::lease::{self, Epoch, Fence, Lease, LeaseEvent, Life, Term};
use tidemill_domain::process::{self, ProcessEvent, ProcessState};
use tidemill_domain::time::Timestamp;
use tidemill_store::Tx;

crate::on_both![the_process_statements_are_the_rule, the_lease_statements_are_the_rule];

#[derive(Clone, Copy, PartialEq, Debug)]
enum Life0 {
    Live,
    Lapsed,
    Stopped,
    Dead,
}

/// Makes process `number` be in `life` at the instant that is returned to by the caller's clock.
async fn make(bench: &Bench, number: u128, life: Life0) {
    let id = process_id(number);
    let long = TTL * 100;
    let mut tx = bench.begin().await;
    let ttl = if matches!(life, Life0::Lapsed | Life0::Dead) { Duration::from_secs(1) } else { long };
    tx.processes().register(id, &identity(number), ttl).await.unwrap();
    if life == Life0::Stopped {
        tx.processes().stop(id, None).await.unwrap().unwrap();
    }
    tx.commit().await.unwrap();
    if life == Life0::Dead {
        bench.advance(Duration::from_secs(1));
        let mut tx = bench.begin().await;
        tx.processes().expire(100).await.unwrap();
        tx.commit().await.unwrap();
    }
}

async fn state_of(tx: &mut Tx, number: u128) -> ProcessState {
    let all = tx.processes().list(1000).await.unwrap();
    all.into_iter().find(|record| record.id == process_id(number)).unwrap().state
}

async fn the_process_statements_are_the_rule(bench: Bench) {
    // The dead first: declaring death walks over all who have lapsed.
    for (number, life) in [(4, Life0::Dead), (1, Life0::Live), (2, Life0::Lapsed), (3, Life0::Stopped)] {
        make(&bench, number, life).await;
    }
    bench.advance(Duration::from_secs(1));
    let now = bench.now();
    for number in 1..=4 {
        let heartbeat = ProcessEvent::Heartbeat { ttl: TTL };
        for event in [heartbeat, ProcessEvent::Stop, ProcessEvent::Expire, ProcessEvent::Die] {
            let mut tx = bench.begin().await;
            let before = state_of(&mut tx, number).await;
            let rule = process::next(before, event, now);
            let accepted = match event {
                ProcessEvent::Heartbeat { ttl } => {
                    tx.processes().heartbeat(process_id(number), ttl).await.unwrap()
                }
                ProcessEvent::Stop => tx.processes().stop(process_id(number), None).await.unwrap(),
                ProcessEvent::Expire => {
                    tx.processes().expire(100).await.unwrap();
                    rule.map(|_| ())
                }
                ProcessEvent::Die => {
                    let has_died = tx.processes().bury(process_id(number)).await.unwrap();
                    assert_eq!(has_died, matches!(before, ProcessState::Live { .. }), "process {number}");
                    rule.map(|_| ())
                }
            };
            assert_eq!(accepted, rule.map(|_| ()), "process {number}, {event:?}");
            assert_eq!(
                state_of(&mut tx, number).await,
                rule.unwrap_or(before),
                "process {number}, {event:?}"
            );
            tx.rollback().await.unwrap();
        }
    }
}

/// Every life of an owner × every kind of term. Numbers: 1 is declared dead, 2 is silent and nobody has said so
/// yet, 3 lives.
async fn the_lease_statements_are_the_rule(bench: Bench) {
    let terms = [
        ("process", Term::Process),
        ("short", Term::For(Duration::from_secs(3))),
        ("long", Term::For(TTL * 50)),
    ];
    let mut names = Vec::new();
    for (number, ttl) in [(1, 1), (2, 3), (3, 9999)] {
        let mut tx = bench.begin().await;
        tx.processes()
            .register(process_id(number), &identity(number), Duration::from_secs(ttl))
            .await
            .unwrap();
        for (name, term) in terms {
            let name = format!("{number}-{name}");
            tx.leases().acquire(&key(&name), process_id(number), term).await.unwrap().unwrap();
            names.push(name);
        }
        tx.commit().await.unwrap();
    }
    bench.advance(Duration::from_secs(1));
    let mut tx = bench.begin().await;
    assert_eq!(tx.processes().expire(100).await.unwrap().len(), 1);
    tx.commit().await.unwrap();
    bench.advance(Duration::from_secs(2));

    for name in &names {
        for event in ["renew", "renew as a ghost", "release", "release as a ghost", "expire"] {
            check(&bench, name, event).await;
        }
    }
}

async fn check(bench: &Bench, name: &str, event: &str) {
    let now = bench.now();
    let mut tx = bench.begin().await;
    let (before, owner) = lease_of(&mut tx, name, now).await;
    let Lease::Held { fence, until } = before else { panic!("{name} is not held") };
    let fence = if event.ends_with("ghost") { Fence { epoch: Epoch::new(7), ..fence } } else { fence };
    let ttl = TTL * 60;
    let (mut rule, accepted) = if event.starts_with("renew") {
        // A lease without a term of its own has nothing to renew.
        if until.is_none() {
            return;
        }
        let renewed = tx.leases().renew(&[(key(name), fence, ttl)]).await.unwrap().renewed;
        let event = LeaseEvent::Renew { fence, term: Term::For(ttl) };
        (lease::next(before, owner, event, now), !renewed.is_empty())
    } else if event.starts_with("release") {
        let released = tx.leases().release(&key(name), fence).await.unwrap();
        (lease::next(before, owner, LeaseEvent::Release { fence }, now), released)
    } else {
        let lapsed = tx.leases().expire(100).await.unwrap();
        let freed = lapsed.iter().any(|lapsed| lapsed.key.name() == name);
        (lease::next(before, owner, LeaseEvent::Expire, now), freed)
    };
    // The one intended difference: a silent owner counts as gone for the reaper only once it was declared dead.
    if event == "expire" && ["2-process", "2-long"].contains(&name) {
        assert!(rule.is_ok());
        rule = Err(lease::LeaseRefusal::Held { fence, until });
    }
    assert_eq!(accepted, rule.is_ok(), "{name}: {event}");
    assert_eq!(lease_of(&mut tx, name, now).await.0, rule.unwrap_or(before), "{name}: {event}");
    tx.rollback().await.unwrap();
}

async fn lease_of(tx: &mut Tx, name: &str, now: Timestamp) -> (Lease, Life) {
    let all = tx.leases().list(1000).await.unwrap();
    let lease = all.into_iter().find(|record| record.key.name() == name).unwrap().lease;
    let Lease::Held { fence, .. } = lease else { return (lease, Life::Gone) };
    let owner = tx.processes().list(1000).await.unwrap().into_iter().find(|record| record.id == fence.owner);
    let alive = owner.is_some_and(|record| record.state.is_live(now));
    (lease, if alive { Life::Alive } else { Life::Gone })
}
