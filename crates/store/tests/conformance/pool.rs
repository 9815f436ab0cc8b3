//! Pools: passes by several processes on one database, and what is stored of them.

mod audit;
mod breaker;
mod decision;
mod demand;
mod event_summary;
mod history;
mod meter;
mod model;
mod past;
mod plan;
mod race;
mod step_back;
mod view;

use crate::Bench;
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tidemill_domain::audit::{Actor, Role};
use tidemill_domain::pool::command::{Acquire, Answer, Call, Command, Part, Release, ReleaseBy, RequestKey};
use tidemill_domain::pool::estimate::Pace;
use tidemill_domain::pool::event::End;
use tidemill_domain::pool::{Holder, Policy, PoolName, Settings, State, TicketId};
use tidemill_store::idempotency::{Claim, KEEP_ANSWERS};
use tidemill_store::pool::{Defined, Lapses, PassRequest, PoolCache};
use uuid::Uuid;

crate::on_both![
    what_one_process_decides_the_next_one_knows,
    the_same_call_again_is_answered_the_same,
    a_call_that_comes_again_late_gives_back_nothing_that_came_after,
    a_key_belongs_to_one_request_for_a_day,
    a_key_is_free_again_if_nothing_was_done,
    rivals_with_one_key_have_one_effect_in_one_pass_and_in_two,
    who_is_not_heard_of_is_in_doubt_and_counts_until_it_is_held_too_long,
    a_changed_limit_lets_the_queue_go_on,
    settings_are_made_once_changed_and_removed,
    an_operator_releases_who_runs_and_who_waits_and_the_audit_says_why,
];

fn ann() -> Actor {
    Actor { name: "ann".into(), role: Role::Operator, request_id: None }
}

pub(crate) fn adw() -> PoolName {
    "ADW".parse().unwrap()
}

pub(crate) async fn create(bench: &Bench, max_units: u32) -> Settings {
    let mut settings = Settings { policy: Policy::Halving, ..Settings::new(adw(), max_units) };
    settings.external_id = Some(4);
    settings.threshold_percent = 100;
    let mut tx = bench.begin().await;
    assert_eq!(tx.pools().create(&settings, &ann()).await.unwrap(), Defined::Done);
    tx.commit().await.unwrap();
    settings
}

/// An id that no other process of the tests has.
fn ticket_id() -> TicketId {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    TicketId::new(Uuid::from_u64_pair(std::process::id().into(), number))
}

pub(crate) fn acquire(run: &str, units: u32) -> Acquire {
    let request = ticket_id();
    let parallel = NonZeroU32::new(units);
    let part = Part { pool: adw(), ticket: request, parallel, sessions: None, least: parallel };
    let holder = Holder::run("dag", run).unwrap();
    Acquire { table: "SALES".into(), ..Acquire::new(request, holder, vec![part]) }
}

pub(crate) fn release(run: &str) -> Release {
    Release {
        pool: adw(),
        by: ReleaseBy::Run { dag_id: "dag".into(), run_id: run.into() },
        epoch: None,
        end: End::Released { failed: false },
        call: None,
    }
}

fn call(id: &str) -> Option<Call> {
    Some(id.to_owned().into())
}

/// A call of ann with an idempotency key.
fn keyed(key: &str, request: &[u8]) -> Option<Call> {
    let (caller, key, fingerprint) = ("ann".to_owned(), key.to_owned(), request.to_vec());
    Some(Call { id: format!("{caller}/{key}"), key: Some(RequestKey { caller, key, fingerprint }) })
}

async fn pass(bench: &Bench, cache: &mut PoolCache, commands: &[Command]) -> Vec<Answer> {
    let pools = BTreeSet::from([adw()]);
    let request = PassRequest { pools: &pools, commands, pace: Pace::default(), lapses: Lapses::Sought };
    bench.store.pool_pass(cache, &request).await.unwrap().answers
}

pub(crate) async fn ask(bench: &Bench, cache: &mut PoolCache, acquire: Acquire) -> Answer {
    pass(bench, cache, &[Command::Acquire(Box::new(acquire))]).await.remove(0)
}

pub(crate) async fn give_back(bench: &Bench, cache: &mut PoolCache, release: Release) -> Answer {
    pass(bench, cache, &[Command::Release(Box::new(release))]).await.remove(0)
}

fn units(answer: &Answer) -> Option<u64> {
    match answer {
        Answer::Admitted { parts, .. } => Some(parts.iter().map(|part| part.ticket.units()).sum()),
        _ => None,
    }
}

/// What the auditor says, and that he has nothing to say.
async fn audited(bench: &Bench) -> u64 {
    let mut tx = bench.store.read().await.unwrap();
    let audited = tx.pools().verify(&adw()).await.unwrap().unwrap();
    assert_eq!(audited.differences, []);
    audited.usage
}

async fn what_one_process_decides_the_next_one_knows(bench: Bench) {
    create(&bench, 10).await;
    let (mut first, mut second) = (PoolCache::default(), PoolCache::default());

    assert_eq!(units(&ask(&bench, &mut first, acquire("a", 6)).await), Some(6));
    let waits = ask(&bench, &mut second, acquire("b", 6)).await;
    assert!(
        matches!(&waits, Answer::Waits(waits) if waits.position == 1 && waits.level.usage == 6),
        "{waits:?}"
    );
    assert!(
        matches!(give_back(&bench, &mut first, release("a")).await, Answer::Released(released) if released.units == 6)
    );
    // It was granted in the pass of the release, and its holder hears of it elsewhere.
    assert_eq!(units(&ask(&bench, &mut second, acquire("b", 6)).await), Some(6));

    assert_eq!(audited(&bench).await, 6);
    let mut tx = bench.begin().await;
    let record = tx.pools().find_external(4).await.unwrap().unwrap();
    assert_eq!((record.usage, record.active, record.waiting), (6, 1, 0));
    let held = tx.pools().tickets(&adw(), &[State::Running], 10).await.unwrap();
    assert_eq!(held.len(), 1);
    assert_eq!(tx.pools().tickets_of_run("a", 10).await.unwrap()[0].ending.as_deref(), Some("released"));
    assert!(!tx.pools().events(Some(&adw()), 100).await.unwrap().is_empty());
}

async fn the_same_call_again_is_answered_the_same(bench: Bench) {
    create(&bench, 10).await;
    let mut cache = PoolCache::default();
    let asked = Acquire { call: call("1"), ..acquire("a", 6) };
    let given = Release { call: call("2"), ..release("a") };

    let answers =
        [ask(&bench, &mut cache, asked.clone()).await, ask(&bench, &mut PoolCache::default(), asked).await];
    assert_eq!(answers[0], answers[1]);
    let answers = [
        give_back(&bench, &mut cache, given.clone()).await,
        give_back(&bench, &mut PoolCache::default(), given.clone()).await,
    ];
    assert_eq!(answers[0], answers[1]);
    let other = give_back(&bench, &mut cache, Release { call: call("3"), ..given }).await;
    assert!(matches!(other, Answer::Released(released) if !released.released && released.units == 0));
}

async fn who_is_not_heard_of_is_in_doubt_and_counts_until_it_is_held_too_long(bench: Bench) {
    create(&bench, 10).await;
    let mut cache = PoolCache::default();
    let asked = Acquire { lease_for: Some(Duration::from_secs(60)), ..acquire("a", 6) };
    let Answer::Admitted { parts, .. } = ask(&bench, &mut cache, asked).await else { panic!() };
    let (id, epoch) = (parts[0].ticket.id, parts[0].ticket.epoch);
    let state = |bench: &Bench| {
        let store = bench.store.clone();
        async move { store.begin().await.unwrap().pools().ticket(id).await.unwrap().unwrap().ticket.state }
    };

    bench.clock.advance(Duration::from_secs(50));
    let mut tx = bench.begin().await;
    assert_eq!(tx.pools().renew_tickets(&[(id, epoch)]).await.unwrap().len(), 1);
    assert!(tx.pools().renew_tickets(&[(id, epoch.next())]).await.unwrap().is_empty());
    tx.commit().await.unwrap();
    bench.clock.advance(Duration::from_secs(50));
    pass(&bench, &mut cache, &[]).await;
    assert_eq!(state(&bench).await, State::Running, "the heartbeat counts");

    bench.clock.advance(Duration::from_secs(11));
    assert_eq!(bench.begin().await.pools().due().await.unwrap().len(), 1);
    pass(&bench, &mut cache, &[]).await;
    assert_eq!(state(&bench).await, State::Suspect);
    assert_eq!(audited(&bench).await, 6);

    bench.clock.advance(Duration::from_secs(24 * 3600));
    pass(&bench, &mut cache, &[]).await;
    assert_eq!(state(&bench).await, State::Expired);
    assert_eq!(audited(&bench).await, 0);
}

async fn a_changed_limit_lets_the_queue_go_on(bench: Bench) {
    let settings = create(&bench, 4).await;
    let mut cache = PoolCache::default();
    ask(&bench, &mut cache, acquire("a", 4)).await;
    ask(&bench, &mut cache, acquire("b", 3)).await;

    let mut tx = bench.begin().await;
    let wider = Settings { max_units: 8, ..settings };
    assert_eq!(tx.pools().set(&wider, &ann(), Some("more")).await.unwrap(), Defined::Done);
    tx.commit().await.unwrap();

    let mut tx = bench.begin().await;
    let granted = tx.pools().tickets(&adw(), &[State::Granted], 10).await.unwrap();
    assert_eq!(granted[0].ticket.holder.run_id(), "b");
    assert_eq!(tx.pools().find(&adw()).await.unwrap().unwrap().usage, 7);
    drop(tx);
    assert_eq!(audited(&bench).await, 7);
}

async fn settings_are_made_once_changed_and_removed(bench: Bench) {
    let settings = create(&bench, 4).await;
    let mut tx = bench.begin().await;

    assert_eq!(tx.pools().create(&settings, &ann()).await.unwrap(), Defined::NameTaken);
    let other = Settings { name: "ERP".parse().unwrap(), ..settings.clone() };
    assert_eq!(tx.pools().create(&other, &ann()).await.unwrap(), Defined::ExternalIdTaken(adw()));
    assert_eq!(tx.pools().set(&other, &ann(), None).await.unwrap(), Defined::NoSuchPool);
    tx.commit().await.unwrap();
    ask(&bench, &mut PoolCache::default(), acquire("a", 4)).await;
    let mut tx = bench.begin().await;
    assert_eq!(tx.pools().remove(&adw(), &ann(), None).await.unwrap(), Defined::InUse { tickets: 1 });
    tx.commit().await.unwrap();
    give_back(&bench, &mut PoolCache::default(), release("a")).await;
    let mut tx = bench.begin().await;
    assert_eq!(tx.pools().remove(&adw(), &ann(), Some("gone")).await.unwrap(), Defined::Done);
    assert!(tx.pools().list(10).await.unwrap().is_empty());
}

async fn an_operator_releases_who_runs_and_who_waits_and_the_audit_says_why(bench: Bench) {
    create(&bench, 10).await;
    let mut cache = PoolCache::default();
    for run in ["a", "b", "c"] {
        ask(&bench, &mut cache, acquire(run, 6)).await;
    }
    let mut tx = bench.begin().await;
    let of = async |tx: &mut tidemill_store::Tx, run: &str| {
        tx.pools().tickets_of_run(run, 1).await.unwrap().remove(0).ticket
    };

    // The one that waits leaves the queue; the one that runs makes room for the next.
    let waiting = of(&mut tx, "c").await.id;
    let (_, cancelled) = tx.pools().release_ticket(waiting, &ann(), "not today").await.unwrap().unwrap();
    let running = of(&mut tx, "a").await.id;
    let (pool, released) =
        tx.pools().release_ticket(running, &ann(), "its host is gone").await.unwrap().unwrap();

    assert!(cancelled.cancelled_waiting && !cancelled.released);
    assert_eq!((pool, released.units, released.released), (adw(), 6, true));
    assert_eq!(of(&mut tx, "b").await.state, State::Granted);
    assert_eq!(tx.pools().release_ticket(running, &ann(), "again").await.unwrap(), None);
    let entries = tx.audit().entries(&Default::default(), 10).await.unwrap();
    let told: Vec<_> = entries.iter().filter(|found| found.entry.action == "pool.release").collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0].entry.reason.as_deref(), Some("its host is gone"));
    tx.commit().await.unwrap();
    assert_eq!(audited(&bench).await, 6);
}

async fn a_call_that_comes_again_late_gives_back_nothing_that_came_after(bench: Bench) {
    create(&bench, 10).await;
    let mut cache = PoolCache::default();
    ask(&bench, &mut cache, acquire("a", 6)).await;
    let given = Release { call: call("late"), ..release("a") };
    let first = give_back(&bench, &mut cache, given.clone()).await;
    ask(&bench, &mut cache, acquire("a", 4)).await;

    let again = give_back(&bench, &mut cache, given).await;

    assert!(matches!((&first, &again), (Answer::Released(first), Answer::Released(again))
        if first.released && again.released && again.units == 6 && again.level.usage == 4));
    assert_eq!(audited(&bench).await, 4);
}

async fn a_key_belongs_to_one_request_for_a_day(bench: Bench) {
    let settings = create(&bench, 10).await;
    let mut cache = PoolCache::default();
    let asked = Acquire { call: keyed("k", b"a"), ..acquire("a", 6) };
    let first = ask(&bench, &mut cache, asked.clone()).await;
    assert_eq!(units(&first), Some(6));

    let other = Acquire { call: keyed("k", b"b"), ..acquire("b", 1) };
    assert_eq!(ask(&bench, &mut cache, other.clone()).await, Answer::KeyReused);
    let given = Release { call: keyed("k", b"c"), ..release("a") };
    assert_eq!(give_back(&bench, &mut PoolCache::default(), given).await, Answer::KeyReused);
    assert_eq!(ask(&bench, &mut cache, asked).await, first, "the same request is answered the same");
    assert_eq!(audited(&bench).await, 6);

    let given = Release { call: keyed("k2", b"a"), ..release("a") };
    let first = give_back(&bench, &mut cache, given.clone()).await;
    assert!(matches!(&first, Answer::Released(released) if released.units == 6));
    ask(&bench, &mut cache, acquire("b", 4)).await;
    let other = Release { call: keyed("k2", b"b"), ..release("b") };
    assert_eq!(give_back(&bench, &mut cache, other).await, Answer::KeyReused);
    let again = give_back(&bench, &mut cache, given).await;
    assert!(matches!(&again, Answer::Released(released) if released.units == 6 && released.level.usage == 4));
    // A key of another route is taken as well, and one of a request that failed is not.
    let mut tx = bench.begin().await;
    assert_eq!(tx.idempotency().claim("ann", "k3", b"pause").await.unwrap(), Claim::New);
    tx.commit().await.unwrap();
    let taken = Acquire { call: keyed("k3", b"c"), ..acquire("c", 1) };
    assert_eq!(ask(&bench, &mut cache, taken).await, Answer::KeyReused);
    let refused = Acquire { call: keyed("k4", b"c"), ..acquire("c", 11) };
    assert!(matches!(ask(&bench, &mut cache, refused).await, Answer::Refused { .. }));
    let right = Acquire { call: keyed("k4", b"d"), ..acquire("c", 1) };
    assert_eq!(units(&ask(&bench, &mut cache, right).await), Some(1));

    // A repetition that fails does not give up the key of the call that succeeded.
    let asked = Acquire { call: keyed("k5", b"e"), ..acquire("e", 4) };
    assert_eq!(units(&ask(&bench, &mut cache, asked.clone()).await), Some(4));
    give_back(&bench, &mut cache, release("e")).await;
    bench.clock.advance(Duration::from_secs(1));
    let settings = Box::new(Settings { max_units: 3, ..settings });
    pass(&bench, &mut cache, &[Command::Configure { settings, by: None }]).await;
    assert!(matches!(ask(&bench, &mut cache, asked).await, Answer::Refused { .. }));
    let other = Acquire { call: keyed("k5", b"f"), ..acquire("f", 1) };
    assert_eq!(ask(&bench, &mut cache, other).await, Answer::KeyReused);

    bench.clock.advance(KEEP_ANSWERS + Duration::from_secs(1));
    let late = Acquire { call: keyed("k", b"b"), ..acquire("d", 1) };
    assert_ne!(ask(&bench, &mut cache, late).await, Answer::KeyReused);
}

async fn a_key_is_free_again_if_nothing_was_done(bench: Bench) {
    let settings = create(&bench, 10).await;
    let erp: PoolName = "ERP".parse().unwrap();
    let mut tx = bench.begin().await;
    let other = Settings { name: erp.clone(), external_id: None, ..settings };
    assert_eq!(tx.pools().create(&other, &ann()).await.unwrap(), Defined::Done);
    tx.commit().await.unwrap();
    let mut cache = PoolCache::default();

    // The first of two rivals is refused.
    let rivals = [("a", 11), ("b", 1)].map(|(run, units)| {
        Command::Acquire(Box::new(Acquire { call: keyed("k", run.as_bytes()), ..acquire(run, units) }))
    });
    let answers = pass(&bench, &mut cache, &rivals).await;
    assert!(matches!(answers[..], [Answer::Refused { .. }, Answer::KeyReused]), "{answers:?}");
    let third = Acquire { call: keyed("k", b"c"), ..acquire("c", 1) };
    assert_eq!(units(&ask(&bench, &mut cache, third).await), Some(1));

    // A request needs a wider pass.
    let mut both = acquire("both", 10);
    both.parts.push(Part { pool: erp.clone(), ticket: ticket_id(), ..both.parts[0].clone() });
    let (pools, commands) = (BTreeSet::from([adw(), erp]), [Command::Acquire(Box::new(both))]);
    let request =
        PassRequest { pools: &pools, commands: &commands, pace: Pace::default(), lapses: Lapses::Left };
    let outcome = bench.store.pool_pass(&mut cache, &request).await.unwrap();
    assert!(matches!(outcome.answers[..], [Answer::Waits(_)]), "{outcome:?}");
    let given = Release { call: keyed("k2", b"both"), ..release("both") };
    assert!(matches!(give_back(&bench, &mut cache, given).await, Answer::Wider(_)));
    let other = Acquire { call: keyed("k2", b"c"), ..acquire("c", 1) };
    assert_eq!(units(&ask(&bench, &mut cache, other).await), Some(1), "the units that it has");
}

async fn rivals_with_one_key_have_one_effect_in_one_pass_and_in_two(bench: Bench) {
    create(&bench, 100).await;
    let rival = |run: &str| {
        Command::Acquire(Box::new(Acquire { call: keyed("k", run.as_bytes()), ..acquire(run, 6) }))
    };
    let answers = pass(&bench, &mut PoolCache::default(), &[rival("a"), rival("b"), rival("a")]).await;
    assert_eq!((units(&answers[0]), &answers[1], units(&answers[2])), (Some(6), &Answer::KeyReused, Some(6)));

    let other = |run: &str| {
        let (store, run) = (bench.store.clone(), run.to_owned());
        tokio::spawn(async move {
            let asked = Acquire { call: keyed("k2", run.as_bytes()), ..acquire(&run, 6) };
            let (pools, commands) = (BTreeSet::from([adw()]), [Command::Acquire(Box::new(asked))]);
            let lapses = Lapses::Left;
            let request = PassRequest { pools: &pools, commands: &commands, pace: Pace::default(), lapses };
            store.pool_pass(&mut PoolCache::default(), &request).await.unwrap().answers.remove(0)
        })
    };
    let mut granted = 0;
    for rival in ["c", "d", "e", "f"].map(other) {
        granted += usize::from(rival.await.unwrap() != Answer::KeyReused);
    }
    assert_eq!(granted, 1);
    assert_eq!(audited(&bench).await, 12);
}
