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

const LIVES: [Life0; 4] = [Life0::Live, Life0::Lapsed, Life0::Stopped, Life0::Dead];

/// Makes process `number` be in `life` at the instant that is returned to by the caller's clock.
async fn make(bench: &Bench, number: u128, life: Life0) {
    let id = process_id(number);
    let long = TTL * 100;
    let mut tx = bench.begin().await;
    let ttl = if matches!(life, Life0::Lapsed | Life0::Dead) { Duration::from_secs(1) } else { long };
    tx.register_process(id, &identity(number), ttl).await.unwrap();
    if life == Life0::Stopped {
        tx.stop_process(id).await.unwrap().unwrap();
    }
    tx.commit().await.unwrap();
    if life == Life0::Dead {
        bench.advance(Duration::from_secs(1));
        let mut tx = bench.begin().await;
        tx.expire_processes().await.unwrap();
        tx.commit().await.unwrap();
    }
}

async fn state_of(tx: &mut Tx, number: u128) -> ProcessState {
    let all = tx.processes(1000).await.unwrap();
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
        for event in [ProcessEvent::Heartbeat { ttl: TTL }, ProcessEvent::Stop, ProcessEvent::Expire] {
            let mut tx = bench.begin().await;
            let before = state_of(&mut tx, number).await;
            let rule = process::next(before, event, now);
            let accepted = match event {
                ProcessEvent::Heartbeat { ttl } => tx.heartbeat(process_id(number), ttl).await.unwrap(),
                ProcessEvent::Stop => tx.stop_process(process_id(number)).await.unwrap(),
                ProcessEvent::Expire => {
                    tx.expire_processes().await.unwrap();
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

/// All leases of the product: owner's life × its own term.
async fn the_lease_statements_are_the_rule(bench: Bench) {
    let mut cases = Vec::new();
    for (number, life) in (1..).zip(LIVES.iter().rev()) {
        for (name, term) in [
            ("process", Term::Process),
            ("short", Term::For(Duration::from_secs(3))),
            ("long", Term::For(TTL * 50)),
        ] {
            cases.push((number, *life, format!("{number}-{name}"), term));
        }
    }
    // Leases are given while everybody still lives; then each process meets its end.
    for number in 1..=4 {
        let mut tx = bench.begin().await;
        let ttl = if LIVES[4 - number] == Life0::Live { TTL * 100 } else { Duration::from_secs(2) };
        tx.register_process(process_id(number as u128), &identity(number as u128), ttl).await.unwrap();
        tx.commit().await.unwrap();
    }
    let mut tx = bench.begin().await;
    for (number, _, name, term) in &cases {
        tx.acquire_lease(&key(name), process_id(*number), *term).await.unwrap().unwrap();
    }
    tx.commit().await.unwrap();
    end_lives(&bench).await;
    for (_, _, name, _) in &cases {
        for (event, wrong_epoch) in
            [("renew", false), ("renew", true), ("release", false), ("release", true), ("expire", false)]
        {
            check(&bench, name, event, wrong_epoch).await;
        }
    }
}

/// Numbers run against `LIVES`: 1 dead, 2 stopped (its leases stay, as if the row were pruned), 3 lapsed, 4 live.
async fn end_lives(bench: &Bench) {
    bench.advance(Duration::from_secs(2));
    let mut tx = bench.begin().await;
    let dead = tx.expire_processes().await.unwrap();
    assert_eq!(dead.len(), 3, "numbers 1 to 3 had two seconds to live");
    tx.commit().await.unwrap();
    bench.advance(Duration::from_secs(1));
}

async fn check(bench: &Bench, name: &str, event: &str, wrong_epoch: bool) {
    let now = bench.now();
    let mut tx = bench.begin().await;
    let (before, owner) = lease_of(&mut tx, name, now).await;
    let Lease::Held { fence, until } = before else { panic!("{name} is not held") };
    let fence = if wrong_epoch { Fence { epoch: Epoch::new(7), ..fence } } else { fence };
    let ttl = TTL * 60;
    let (rule, accepted) = match event {
        "renew" => {
            // A lease without a term of its own has nothing to renew.
            if until.is_none() {
                return;
            }
            let renewed = tx.renew_leases(&[(key(name), fence, ttl)]).await.unwrap();
            (
                lease::next(before, owner, LeaseEvent::Renew { fence, term: Term::For(ttl) }, now),
                !renewed.is_empty(),
            )
        }
        "release" => {
            let released = tx.release_lease(&key(name), fence).await.unwrap();
            (lease::next(before, owner, LeaseEvent::Release { fence }, now), released)
        }
        _ => {
            let lapsed = tx.expire_leases(100).await.unwrap();
            let freed = lapsed.iter().any(|lapsed| lapsed.key.name() == name);
            (lease::next(before, owner, LeaseEvent::Expire, now), freed)
        }
    };
    assert_eq!(accepted, rule.is_ok(), "{name}: {event}, wrong epoch {wrong_epoch}");
    assert_eq!(lease_of(&mut tx, name, now).await.0, rule.unwrap_or(before), "{name}: {event}");
    tx.rollback().await.unwrap();
}

async fn lease_of(tx: &mut Tx, name: &str, now: Timestamp) -> (Lease, Life) {
    let all = tx.leases(1000).await.unwrap();
    let lease = all.into_iter().find(|record| record.key.name() == name).unwrap().lease;
    let Lease::Held { fence, .. } = lease else { return (lease, Life::Gone) };
    let owner = tx.processes(1000).await.unwrap().into_iter().find(|record| record.id == fence.owner);
    let alive = owner.is_some_and(|record| record.state.is_live(now));
    (lease, if alive { Life::Alive } else { Life::Gone })
}
