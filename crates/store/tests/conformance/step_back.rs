//! The database's clock goes back: the dead lose what they held after one lease, and the living keep it.

use crate::{Bench, TTL, identity, key, process_id};
use std::time::Duration;
use tidemill_domain::lease::{Epoch, Lease, LeaseKey, Term};
use tidemill_domain::process::{ProcessId, ProcessRefusal, ProcessState, heartbeat_interval};
use tidemill_domain::step_back::{LEASE_MAX, Span, shortened};
use tidemill_domain::time::Timestamp;

crate::on_both![
    a_dead_process_ends_one_lease_after_the_step,
    a_living_process_keeps_its_lease_across_the_step,
    a_term_that_nobody_renews_ends_one_term_after_the_step,
    a_term_that_is_renewed_is_kept_across_the_step,
    a_lease_that_an_older_program_wrote_is_an_hour_long_at_most,
    the_statement_is_the_rule,
    a_clock_that_goes_forward_changes_nothing,
    who_died_by_a_step_forward_stays_dead_when_the_clock_is_put_right,
    the_clock_of_the_database_itself_is_asked,
];

const HOUR: Duration = Duration::from_secs(3_600);
const LITTLE: Duration = Duration::from_micros(1);

/// A round of the reaper; who was declared dead, and what was freed.
async fn reap(bench: &Bench) -> (Vec<ProcessId>, Vec<LeaseKey>) {
    bench.shorten_leases().await;
    let mut tx = bench.begin().await;
    let dead = tx.processes().expire(100).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = bench.begin().await;
    let freed = tx.leases().expire(100).await.unwrap();
    tx.commit().await.unwrap();
    (dead.into_iter().map(|one| one.id).collect(), freed.into_iter().map(|one| one.key).collect())
}

async fn beat(bench: &Bench, id: ProcessId) {
    let mut tx = bench.begin().await;
    tx.processes().heartbeat(id, TTL).await.unwrap().unwrap();
    tx.commit().await.unwrap();
}

async fn acquire(bench: &Bench, name: &str, by: ProcessId, term: Term) -> tidemill_store::lease::Granted {
    let mut tx = bench.begin().await;
    let granted = tx.leases().acquire(&key(name), by, term).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    granted
}

async fn a_dead_process_ends_one_lease_after_the_step(bench: Bench) {
    let one = bench.process(1).await;
    acquire(&bench, "a", one, Term::Process).await;
    bench.set_back(HOUR);
    let two = bench.process(2).await;

    // Looking again and again does not put its end off.
    for _ in 0..3 {
        assert_eq!(reap(&bench).await, (vec![], vec![]));
        bench.advance(TTL / 3 - LITTLE);
        beat(&bench, two).await;
    }
    assert_eq!(reap(&bench).await, (vec![], vec![]), "it is not taken before one lease has passed");
    bench.advance(LITTLE * 3);

    assert_eq!(reap(&bench).await, (vec![one], vec![key("a")]));
    assert_eq!(acquire(&bench, "a", two, Term::Process).await.fence.epoch, Epoch::new(2));
}

async fn a_living_process_keeps_its_lease_across_the_step(bench: Bench) {
    let (one, two) = (bench.process(1).await, bench.process(2).await);
    let granted = acquire(&bench, "a", one, Term::Process).await;

    for round in 0..40 {
        if round % 10 == 5 {
            bench.set_back(HOUR);
        }
        assert_eq!(reap(&bench).await, (vec![], vec![]));
        bench.advance(heartbeat_interval(TTL));
        beat(&bench, one).await;
        beat(&bench, two).await;
        let listed = bench.begin().await.processes().list(1).await.unwrap();
        assert_eq!(listed[0].state, ProcessState::Live { until: bench.now().plus(TTL) });
    }

    let mut tx = bench.begin().await;
    assert!(tx.leases().acquire(&key("a"), two, Term::Process).await.unwrap().is_err());
    assert!(tx.leases().confirm(&key("a"), granted.fence).await.unwrap());
}

async fn a_term_that_nobody_renews_ends_one_term_after_the_step(bench: Bench) {
    let one = bench.process(1).await;
    let term = Duration::from_secs(5);
    acquire(&bench, "a", one, Term::For(term)).await;
    bench.set_back(HOUR);
    beat(&bench, one).await;

    assert_eq!(reap(&bench).await, (vec![], vec![]));
    bench.advance(term - LITTLE);
    assert_eq!(reap(&bench).await, (vec![], vec![]));
    bench.advance(LITTLE);

    assert_eq!(reap(&bench).await, (vec![], vec![key("a")]));
}

async fn a_term_that_is_renewed_is_kept_across_the_step(bench: Bench) {
    let one = bench.process(1).await;
    let term = Duration::from_secs(5);
    let fence = acquire(&bench, "a", one, Term::For(term)).await.fence;

    for round in 0..8 {
        if round == 4 {
            bench.set_back(HOUR);
        }
        assert_eq!(reap(&bench).await, (vec![], vec![]));
        bench.advance(term - LITTLE);
        let mut tx = bench.begin().await;
        tx.processes().heartbeat(one, TTL).await.unwrap().unwrap();
        tx.commit().await.unwrap();
        let mut tx = bench.begin().await;
        assert_eq!(tx.leases().renew(&[(key("a"), fence, term)]).await.unwrap().renewed, [key("a")]);
        tx.commit().await.unwrap();
        assert_eq!(term_of(&bench, "a").await, bench.now().plus(term), "the old end is not kept");
    }
}

async fn a_lease_that_an_older_program_wrote_is_an_hour_long_at_most(bench: Bench) {
    let one = bench.process(1).await;
    for (name, term) in [("short", TTL), ("long", LEASE_MAX)] {
        acquire(&bench, name, one, Term::For(term)).await;
    }
    bench.execute("update tidemill_lease set renewed_at = null").await;
    assert_eq!(bench.shorten_leases().await, 0, "an honest clock changes nothing");
    bench.set_back(HOUR * 3);

    assert_eq!(bench.shorten_leases().await, 3, "the process and both leases");

    for name in ["short", "long"] {
        assert_eq!(term_of(&bench, name).await, bench.now().plus(LEASE_MAX));
    }
}

async fn term_of(bench: &Bench, name: &str) -> Timestamp {
    let record = bench.begin().await.leases().find(&key(name)).await.unwrap().unwrap();
    match record.lease {
        Lease::Held { until: Some(until), .. } => until,
        other => panic!("{other:?}"),
    }
}

/// Processes that registered at different instants and for different times, before and after where the clock goes.
async fn the_statement_is_the_rule(bench: Bench) {
    let start = bench.now();
    for number in 1..=12_u32 {
        let mut tx = bench.begin().await;
        let ttl = Duration::from_secs(u64::from(7 * number % 40 + 1));
        tx.processes().register(process_id(number.into()), &identity(number.into()), ttl).await.unwrap();
        tx.commit().await.unwrap();
        bench.advance(Duration::from_millis(1_700));
    }
    for micros in [13_600_000, 8_500_000, 8_499_999, 3_400_001, 0, -3_600_000_000_i64] {
        bench.clock.jump_to(Timestamp::from_micros(start.as_micros() + micros));
        let mut tx = bench.begin().await;
        let before = tx.processes().list(100).await.unwrap();
        tx.leases().shorten_leases().await.unwrap();
        for was in before {
            let is =
                tx.processes().list(100).await.unwrap().into_iter().find(|one| one.id == was.id).unwrap();
            let ProcessState::Live { until } = was.state else { panic!("{was:?}") };
            let rule = shortened(Span { since: was.heartbeat_at, until }, bench.now());
            assert_eq!((is.heartbeat_at, is.state), (rule.since, ProcessState::Live { until: rule.until }));
        }
        tx.rollback().await.unwrap();
    }
}

async fn a_clock_that_goes_forward_changes_nothing(bench: Bench) {
    let one = bench.process(1).await;
    acquire(&bench, "a", one, Term::For(TTL)).await;
    let before = bench.begin().await.processes().list(10).await.unwrap();

    for step in [Duration::ZERO, LITTLE, TTL, HOUR] {
        bench.advance(step);
        assert_eq!(bench.shorten_leases().await, 0);
    }

    assert_eq!(bench.begin().await.processes().list(10).await.unwrap(), before);
}

async fn who_died_by_a_step_forward_stays_dead_when_the_clock_is_put_right(bench: Bench) {
    let one = bench.process(1).await;
    let ghost = acquire(&bench, "a", one, Term::Process).await;
    bench.clock.jump_to(bench.now().plus(HOUR));
    assert_eq!(reap(&bench).await, (vec![one], vec![key("a")]));
    let two = bench.process(2).await;
    let granted = acquire(&bench, "a", two, Term::Process).await;
    bench.set_back(HOUR);

    beat(&bench, two).await;
    assert_eq!(reap(&bench).await, (vec![], vec![]));

    let mut tx = bench.begin().await;
    assert_eq!(tx.processes().heartbeat(one, TTL).await.unwrap(), Err(ProcessRefusal::Ended));
    assert!(!tx.leases().confirm(&key("a"), ghost.fence).await.unwrap());
    assert!(tx.leases().confirm(&key("a"), granted.fence).await.unwrap());
}

/// Nobody can set the clock of a server here. To rows it is the same whether the clock goes back, or they were written an
/// hour ahead of it.
async fn the_clock_of_the_database_itself_is_asked(bench: Bench) {
    let store = bench.scratch.store(None).await.unwrap();
    let real = Bench { store, clock: bench.clock.clone(), scratch: bench.scratch.same() };
    let one = real.process(1).await;
    acquire(&real, "a", one, Term::For(TTL)).await;
    assert_eq!(real.shorten_leases().await, 0);
    for (table, since) in [("tidemill_process", "heartbeat_at"), ("tidemill_lease", "renewed_at")] {
        let hour = match real.store.dialect() {
            tidemill_store::url::Dialect::Postgres => "interval '1 hour'",
            tidemill_store::url::Dialect::Sqlite => "3600000000",
        };
        real.execute(&format!("update {table} set until = until + {hour}, {since} = {since} + {hour}")).await;
    }

    assert_eq!(real.shorten_leases().await, 2);

    let mut tx = real.begin().await;
    let (now, listed) = (tx.now().await.unwrap(), tx.processes().list(10).await.unwrap());
    let ProcessState::Live { until } = listed[0].state else { panic!("{listed:?}") };
    assert!(listed[0].heartbeat_at <= now && until <= now.plus(TTL), "{listed:?}");
    assert!(until > now.minus(HOUR), "{listed:?}");
    drop(tx);
    assert!(term_of(&real, "a").await <= now.plus(TTL));
    assert_eq!(real.shorten_leases().await, 0, "once");
}
