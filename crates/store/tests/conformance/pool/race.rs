//! Several servers on one pool at the same instant: what the locks and the versions are for.

use super::{acquire, adw, ann, ask, audited, create, give_back, pass, release, ticket_id, units};
use crate::Bench;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::pool::command::{Acquire, Answer, Command, Part};
use tidemill_domain::pool::estimate::Pace;
use tidemill_domain::pool::{PoolName, Settings, State, TicketId};
use tidemill_store::pool::{Defined, Lapses, PassRequest, PoolCache};
use uuid::Uuid;

crate::on_both![
    servers_that_race_for_the_last_units_do_not_give_them_out_twice,
    a_heartbeat_before_the_pass_saves_its_holder,
    a_heartbeat_after_the_pass_finds_its_holder_in_doubt,
    who_comes_back_in_the_pass_that_ends_it_is_found_by_others,
    a_pool_that_was_made_again_is_not_taken_for_the_old_one,
    a_request_for_two_pools_starts_in_both_or_waits_in_both,
    a_server_that_dies_before_the_commit_leaves_nothing,
];

async fn servers_that_race_for_the_last_units_do_not_give_them_out_twice(bench: Bench) {
    create(&bench, 10).await;
    let mut servers = tokio::task::JoinSet::new();
    for number in 0..3 {
        let store = bench.scratch.store(Some(bench.clock.clone())).await.unwrap();
        let same = Bench { store, clock: bench.clock.clone(), scratch: bench.scratch.same() };
        servers.spawn(async move {
            let mut cache = PoolCache::default();
            let mut got = 0;
            for turn in 0..10 {
                got += units(&ask(&same, &mut cache, acquire(&format!("{number}-{turn}"), 1)).await)
                    .unwrap_or(0);
            }
            got
        });
    }

    assert_eq!(servers.join_all().await.into_iter().sum::<u64>(), 10);
    assert_eq!(audited(&bench).await, 10);
}

/// Somebody with a lease of a minute, which is just over.
async fn lapsed(bench: &Bench, cache: &mut PoolCache) -> (TicketId, Epoch) {
    create(bench, 10).await;
    let asked = Acquire { lease_for: Some(Duration::from_secs(60)), ..acquire("a", 6) };
    let Answer::Admitted { parts, .. } = ask(bench, cache, asked).await else { panic!() };
    bench.clock.advance(Duration::from_secs(61));
    (parts[0].ticket.id, parts[0].ticket.epoch)
}

async fn state(bench: &Bench, id: TicketId) -> State {
    let mut tx = bench.store.read().await.unwrap();
    tx.pools().ticket(id).await.unwrap().unwrap().ticket.state
}

async fn a_heartbeat_before_the_pass_saves_its_holder(bench: Bench) {
    let mut cache = PoolCache::default();
    let (id, epoch) = lapsed(&bench, &mut cache).await;
    let mut beat = bench.begin().await;
    assert_eq!(beat.pools().renew_tickets(&[(id, epoch)]).await.unwrap(), BTreeSet::from([id]));

    // The pass finds it lapsed, and waits for whoever has it in hand.
    let (store, clock, scratch) = (bench.store.clone(), bench.clock.clone(), bench.scratch.same());
    let passing = tokio::spawn(async move {
        pass(&Bench { store, clock, scratch }, &mut PoolCache::default(), &[]).await;
    });
    bench.until_blocked(&[&passing]).await;
    beat.commit().await.unwrap();
    passing.await.unwrap();

    assert_eq!(state(&bench, id).await, State::Running);
}

async fn a_heartbeat_after_the_pass_finds_its_holder_in_doubt(bench: Bench) {
    let mut cache = PoolCache::default();
    let (id, epoch) = lapsed(&bench, &mut cache).await;
    let (names, mut ledgers) = (BTreeSet::from([adw()]), BTreeMap::new());
    let request = PassRequest { pools: &names, commands: &[], pace: Pace::default(), lapses: Lapses::Sought };
    let mut passing = bench.begin().await;
    passing.pools().pass(&mut ledgers, &request).await.unwrap();

    // While the pass has it in hand a heartbeat does not wait for it: it goes to a pass of its own.
    let store = bench.store.clone();
    let beating = tokio::spawn(async move {
        let mut tx = store.begin().await.unwrap();
        let alive = tx.pools().renew_tickets(&[(id, epoch)]).await.unwrap();
        tx.commit().await.unwrap();
        alive
    });
    if bench.store.dialect() == tidemill_store::url::Dialect::Postgres {
        let alive = tokio::time::timeout(crate::SOON, beating).await.expect("it waits").unwrap();
        assert!(alive.is_empty());
        passing.commit().await.unwrap();
    } else {
        // One transaction writes at a time there.
        passing.commit().await.unwrap();
        assert!(beating.await.unwrap().is_empty());
    }
    assert_eq!(state(&bench, id).await, State::Suspect);

    let answers = pass(&bench, &mut cache, &[Command::Heartbeat { pool: adw(), ticket: id, epoch }]).await;

    assert_eq!(answers, [Answer::Alive]);
    assert_eq!(state(&bench, id).await, State::Running);
}

/// The ids of tickets are no clock: that of the new one is the lower one here, and its row must not come first.
async fn who_comes_back_in_the_pass_that_ends_it_is_found_by_others(bench: Bench) {
    create(&bench, 10).await;
    let (mut first, mut second) = (PoolCache::default(), PoolCache::default());
    ask(&bench, &mut first, acquire("a", 6)).await;
    pass(&bench, &mut second, &[]).await;
    let mut again = acquire("a", 4);
    again.request = TicketId::new(Uuid::from_u128(1));
    again.parts[0].ticket = again.request;

    pass(&bench, &mut first, &[Command::Release(Box::new(release("a"))), Command::Acquire(Box::new(again))])
        .await;

    let answer = ask(&bench, &mut second, acquire("a", 4)).await;
    assert!(
        matches!(&answer, Answer::Admitted { parts, is_duplicate: true } if parts[0].ticket.id == TicketId::new(Uuid::from_u128(1))),
        "{answer:?}"
    );
    assert_eq!(audited(&bench).await, 4);
}

async fn a_pool_that_was_made_again_is_not_taken_for_the_old_one(bench: Bench) {
    create(&bench, 4).await;
    let (mut first, mut second) = (PoolCache::default(), PoolCache::default());
    for _ in 0..3 {
        ask(&bench, &mut second, acquire("old", 4)).await;
        give_back(&bench, &mut second, release("old")).await;
    }
    bench.clock.advance(Duration::from_secs(1));
    let mut tx = bench.begin().await;
    assert_eq!(tx.pools().remove(&adw(), &ann(), None).await.unwrap(), Defined::Done);
    tx.commit().await.unwrap();
    create(&bench, 4).await;

    // As many passes as the old one had, so that the numbers alone would not tell.
    assert_eq!(units(&ask(&bench, &mut first, acquire("a", 4)).await), Some(4));
    for _ in 0..10 {
        ask(&bench, &mut first, acquire("b", 1)).await;
    }

    assert_eq!(units(&ask(&bench, &mut second, acquire("c", 4)).await), None);
    assert_eq!(audited(&bench).await, 4);
}

async fn a_request_for_two_pools_starts_in_both_or_waits_in_both(bench: Bench) {
    let settings = create(&bench, 4).await;
    let erp: PoolName = "ERP".parse().unwrap();
    let mut tx = bench.begin().await;
    let other = Settings { name: erp.clone(), external_id: Some(5), ..settings };
    assert_eq!(tx.pools().create(&other, &ann()).await.unwrap(), Defined::Done);
    tx.commit().await.unwrap();
    let mut cache = PoolCache::default();
    ask(&bench, &mut cache, acquire("a", 3)).await;
    let mut both = acquire("b", 2);
    let ticket = ticket_id();
    both.parts.push(Part { pool: erp.clone(), ticket, ..both.parts[0].clone() });
    let states = |name: PoolName| {
        let store = bench.store.clone();
        async move {
            let mut tx = store.read().await.unwrap();
            let live = [State::Waiting, State::Granted, State::Running];
            let tickets = tx.pools().tickets(&name, &live, 10).await.unwrap();
            tickets
                .into_iter()
                .filter(|known| known.ticket.holder.run_id() == "b")
                .map(|known| known.ticket.state)
                .collect::<Vec<_>>()
        }
    };

    let pools = BTreeSet::from([adw(), erp.clone()]);
    let commands = [Command::Acquire(Box::new(both))];
    let request =
        PassRequest { pools: &pools, commands: &commands, pace: Pace::default(), lapses: Lapses::Left };
    let outcome = bench.store.pool_pass(&mut cache, &request).await.unwrap();
    assert!(matches!(&outcome.answers[0], Answer::Waits(waits) if waits.tickets.len() == 2));
    assert_eq!(
        (states(adw()).await, states(erp.clone()).await),
        (vec![State::Waiting], vec![State::Waiting])
    );

    // The release alone sees one pool, and says that the other is needed.
    let commands = [Command::Release(Box::new(release("a")))];
    let alone = BTreeSet::from([adw()]);
    let request =
        PassRequest { pools: &alone, commands: &commands, pace: Pace::default(), lapses: Lapses::Left };
    let outcome = bench.store.pool_pass(&mut cache, &request).await.unwrap();
    assert!(outcome.wider.contains(&erp), "{outcome:?}");
    let request = PassRequest { pools: &pools, commands: &[], pace: Pace::default(), lapses: Lapses::Left };
    bench.store.pool_pass(&mut cache, &request).await.unwrap();

    assert_eq!((states(adw()).await, states(erp).await), (vec![State::Granted], vec![State::Granted]));
}

/// Names the database to the process that is to die in it.
const CHILD: &str = "TIDEMILL_TEST_POOL_CHILD";

async fn a_server_that_dies_before_the_commit_leaves_nothing(bench: Bench) {
    create(&bench, 10).await;
    let die = |times: &str| {
        std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "pool::race::a_server_in_a_process_of_its_own"])
            .env(CHILD, bench.scratch.url())
            .env("TIDEMILL_CRASH_AT", format!("pool_saved:{times}"))
            .output()
            .unwrap()
    };

    // The second pass dies after it has written all and before it commits.
    let ended = die("2");

    assert!(!ended.status.success(), "{ended:?}");
    let mut tx = bench.store.read().await.unwrap();
    assert_eq!(tx.pools().tickets_of_run("first", 10).await.unwrap().len(), 1);
    assert!(tx.pools().tickets_of_run("second", 10).await.unwrap().is_empty());
    tx.rollback().await.unwrap();
    assert_eq!(audited(&bench).await, 4);
    // Whoever asks again gets what it would have got.
    assert_eq!(units(&ask(&bench, &mut PoolCache::default(), acquire("second", 5)).await), Some(5));
    assert!(die("9").status.success(), "it dies where it is told to, and nowhere else");
}

/// Run by the test above, in a process that dies on the way; without a database there is nothing to do.
#[tokio::test]
async fn a_server_in_a_process_of_its_own() {
    let Ok(url) = std::env::var(CHILD) else { return };
    let store = tidemill_store::Store::connect(&url).await.unwrap();
    let mut cache = PoolCache::default();
    for (run, units) in [("first", 4), ("second", 5)] {
        let commands = [Command::Acquire(Box::new(acquire(run, units)))];
        let pools = BTreeSet::from([adw()]);
        let request =
            PassRequest { pools: &pools, commands: &commands, pace: Pace::default(), lapses: Lapses::Left };
        store.pool_pass(&mut cache, &request).await.unwrap();
    }
    store.close().await;
}
