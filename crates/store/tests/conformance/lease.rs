//! Leases: giving, keeping, losing, and the fence.

use crate::{Bench, TTL, key, process_id};
use std::time::Duration;
use tidemill_domain::lease::{Epoch, Fence, Lease, LeaseRefusal, Term};
use tidemill_domain::process::ProcessRefusal;
use tidemill_store::lease::{Lapsed, Renewed};

crate::on_both![
    a_lease_is_given_once,
    a_lapsed_term_is_taken_over_with_the_next_epoch,
    a_lease_that_rests_on_its_process_lapses_with_it,
    a_term_does_not_outlive_its_process,
    a_process_that_is_gone_gets_nothing,
    only_owner_and_epoch_together_open_the_fence,
    a_released_lease_keeps_counting_epochs,
    a_bulk_renewal_tells_which_were_lost,
    the_lapsed_are_freed_and_named,
    rivals_get_each_lease_once,
    a_take_over_waits_for_the_settling_transaction,
    a_settling_transaction_does_not_hold_up_renewals,
    a_lease_in_other_hands_is_neither_renewed_nor_lost,
    a_process_knows_what_the_database_thinks_it_holds,
    a_heartbeat_under_way_saves_its_process,
    a_heartbeat_that_waited_behind_its_own_funeral_is_refused,
    the_list_tells_who_may_act,
];

async fn a_lease_is_given_once(bench: Bench) {
    let (one, two) = (bench.process(1).await, bench.process(2).await);
    let mut tx = bench.begin().await;

    let granted = tx.leases().acquire(&key("a"), one, Term::For(TTL)).await.unwrap().unwrap();
    let refused = tx.leases().acquire(&key("a"), two, Term::For(TTL)).await.unwrap();
    let again = tx.leases().acquire(&key("a"), one, Term::For(TTL)).await.unwrap();

    let until = Some(bench.now().plus(TTL));
    assert_eq!(granted.fence, Fence { owner: one, epoch: Epoch::new(1) });
    assert_eq!((granted.until, granted.taken_over_from), (until, None));
    assert_eq!(refused, Err(LeaseRefusal::Held { fence: granted.fence, until }));
    assert_eq!(again, refused);
}

async fn a_lapsed_term_is_taken_over_with_the_next_epoch(bench: Bench) {
    let (one, two) = (bench.process(1).await, bench.process(2).await);
    let mut tx = bench.begin().await;
    tx.leases().acquire(&key("a"), one, Term::For(Duration::from_secs(5))).await.unwrap().unwrap();
    bench.advance(Duration::from_secs(5));

    let granted = tx.leases().acquire(&key("a"), two, Term::Process).await.unwrap().unwrap();

    assert_eq!(granted.fence, Fence { owner: two, epoch: Epoch::new(2) });
    assert_eq!(granted.taken_over_from, Some(one));
}

async fn a_lease_that_rests_on_its_process_lapses_with_it(bench: Bench) {
    let one = bench.process(1).await;
    let mut tx = bench.begin().await;
    tx.leases().acquire(&key("a"), one, Term::Process).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    bench.advance(TTL - Duration::from_micros(1));
    let two = bench.process(2).await;

    let mut tx = bench.begin().await;
    assert!(tx.leases().acquire(&key("a"), two, Term::Process).await.unwrap().is_err());
    bench.advance(Duration::from_micros(1));
    let granted = tx.leases().acquire(&key("a"), two, Term::Process).await.unwrap().unwrap();

    assert_eq!(granted.taken_over_from, Some(one));
}

async fn a_term_does_not_outlive_its_process(bench: Bench) {
    let one = bench.process(1).await;
    let mut tx = bench.begin().await;
    let granted = tx.leases().acquire(&key("a"), one, Term::For(TTL * 10)).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    bench.advance(TTL);
    let two = bench.process(2).await;

    let mut tx = bench.begin().await;

    assert!(tx.leases().renew(&[(key("a"), granted.fence, TTL)]).await.unwrap().renewed.is_empty());
    assert!(tx.leases().acquire(&key("a"), two, Term::Process).await.unwrap().is_ok());
}

async fn a_process_that_is_gone_gets_nothing(bench: Bench) {
    let one = bench.process(1).await;
    bench.advance(TTL);
    let mut tx = bench.begin().await;

    assert_eq!(
        tx.leases().acquire(&key("a"), one, Term::Process).await.unwrap(),
        Err(LeaseRefusal::AskerGone)
    );
    assert_eq!(
        tx.leases().acquire(&key("a"), process_id(99), Term::Process).await.unwrap(),
        Err(LeaseRefusal::AskerGone)
    );
}

async fn only_owner_and_epoch_together_open_the_fence(bench: Bench) {
    let (one, two) = (bench.process(1).await, bench.process(2).await);
    let mut tx = bench.begin().await;
    let fence = tx.leases().acquire(&key("a"), one, Term::Process).await.unwrap().unwrap().fence;

    for wrong in [
        Fence { owner: two, ..fence },
        Fence { epoch: fence.epoch.next(), ..fence },
        Fence { epoch: Epoch::ZERO, ..fence },
    ] {
        assert!(!tx.leases().confirm(&key("a"), wrong).await.unwrap());
        assert!(!tx.leases().release(&key("a"), wrong).await.unwrap());
        assert!(tx.leases().renew(&[(key("a"), wrong, TTL)]).await.unwrap().renewed.is_empty());
    }
    assert!(!tx.leases().confirm(&key("b"), fence).await.unwrap());
    assert!(tx.leases().confirm(&key("a"), fence).await.unwrap());
    // Time plays no part: a lapsed owner whom nobody has replaced may still settle.
    bench.advance(TTL * 2);
    assert!(tx.leases().confirm(&key("a"), fence).await.unwrap());
}

async fn a_released_lease_keeps_counting_epochs(bench: Bench) {
    let one = bench.process(1).await;
    let mut tx = bench.begin().await;
    for epoch in 1..=3 {
        let fence = tx.leases().acquire(&key("a"), one, Term::Process).await.unwrap().unwrap().fence;
        assert_eq!(fence.epoch, Epoch::new(epoch));
        assert!(tx.leases().release(&key("a"), fence).await.unwrap());
        assert!(!tx.leases().release(&key("a"), fence).await.unwrap());
        assert!(!tx.leases().confirm(&key("a"), fence).await.unwrap());
    }
    assert_eq!(tx.leases().list(1).await.unwrap()[0].lease, Lease::Free { epoch: Epoch::new(3) });
}

async fn a_bulk_renewal_tells_which_were_lost(bench: Bench) {
    let (one, two) = (bench.process(1).await, bench.process(2).await);
    let short = Term::For(Duration::from_secs(2));
    let mut tx = bench.begin().await;
    let a = tx.leases().acquire(&key("a"), one, Term::For(TTL)).await.unwrap().unwrap().fence;
    let b = tx.leases().acquire(&key("b"), one, short).await.unwrap().unwrap().fence;
    let c = tx.leases().acquire(&key("c"), one, short).await.unwrap().unwrap().fence;
    bench.advance(Duration::from_secs(2));
    tx.leases().acquire(&key("b"), two, Term::For(TTL)).await.unwrap().unwrap();

    let renewed =
        tx.leases().renew(&[(key("a"), a, TTL), (key("b"), b, TTL), (key("c"), c, TTL)]).await.unwrap();

    assert_eq!((renewed.renewed, renewed.lost), (vec![key("a")], vec![key("b"), key("c")]));
    assert_eq!(tx.leases().renew(&[]).await.unwrap(), Renewed::default());
    let listed = tx.leases().list(10).await.unwrap();
    let until = bench.now().plus(TTL);
    assert_eq!(listed[0].lease, Lease::Held { fence: a, until: Some(until) });
}

async fn the_lapsed_are_freed_and_named(bench: Bench) {
    let (one, two) = (bench.process(1).await, bench.process(2).await);
    let mut tx = bench.begin().await;
    let a =
        tx.leases().acquire(&key("a"), one, Term::For(Duration::from_secs(1))).await.unwrap().unwrap().fence;
    tx.leases().acquire(&key("b"), one, Term::For(TTL)).await.unwrap().unwrap();
    let c = tx.leases().acquire(&key("c"), two, Term::Process).await.unwrap().unwrap().fence;
    tx.processes().stop(process_id(99), None).await.unwrap().unwrap_err();
    tx.commit().await.unwrap();
    bench.advance(Duration::from_secs(1));

    let mut tx = bench.begin().await;
    assert_eq!(tx.leases().expire(10).await.unwrap(), [Lapsed { key: key("a"), fence: a }]);
    tx.processes().heartbeat(one, TTL).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    bench.advance(TTL - Duration::from_secs(1));
    let mut tx = bench.begin().await;
    tx.processes().expire(100).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = bench.begin().await;

    let lapsed = tx.leases().expire(10).await.unwrap();
    assert_eq!(lapsed.iter().map(|l| l.key.name()).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(lapsed[1].fence, c);
    assert!(tx.leases().expire(10).await.unwrap().is_empty());
}

async fn rivals_get_each_lease_once(bench: Bench) {
    let mut rivals = Vec::new();
    for number in 1..=8_u128 {
        let (store, id) = (bench.store.clone(), bench.process(number).await);
        rivals.push(tokio::spawn(async move {
            let mut mine = 0;
            for name in 0..20_u128 {
                let mut tx = store.begin().await.unwrap();
                let name = (name + number * 7) % 20;
                let answer = tx.leases().acquire(&key(&name.to_string()), id, Term::Process).await.unwrap();
                tx.commit().await.unwrap();
                mine += u32::from(answer.is_ok());
            }
            mine
        }));
    }

    let mut given = 0;
    for rival in rivals {
        given += rival.await.unwrap();
    }

    assert_eq!(given, 20);
    let listed = bench.begin().await.leases().list(100).await.unwrap();
    assert!(listed.iter().all(|record| record.lease.epoch() == Epoch::new(1)));
}

async fn a_take_over_waits_for_the_settling_transaction(bench: Bench) {
    let (one, two) = (bench.process(1).await, bench.process(2).await);
    let mut tx = bench.begin().await;
    let fence =
        tx.leases().acquire(&key("a"), one, Term::For(Duration::from_secs(1))).await.unwrap().unwrap().fence;
    tx.commit().await.unwrap();
    bench.advance(Duration::from_secs(2));
    let mut settling = bench.begin().await;
    assert!(settling.leases().confirm(&key("a"), fence).await.unwrap());

    let store = bench.store.clone();
    let take_over = tokio::spawn(async move {
        let mut tx = store.begin().await.unwrap();
        let granted = tx.leases().acquire(&key("a"), two, Term::Process).await.unwrap();
        tx.commit().await.unwrap();
        granted
    });
    bench.until_blocked(&[&take_over]).await;
    settling.commit().await.unwrap();

    assert_eq!(take_over.await.unwrap().unwrap().fence.epoch, fence.epoch.next());
    assert!(!bench.begin().await.leases().confirm(&key("a"), fence).await.unwrap());
}

async fn a_settling_transaction_does_not_hold_up_renewals(bench: Bench) {
    if bench.scratch.url().starts_with("sqlite") {
        return; // One writer at a time: everybody waits for everybody, and settling is kept short instead.
    }
    let one = bench.process(1).await;
    let mut tx = bench.begin().await;
    let a = tx.leases().acquire(&key("a"), one, Term::For(TTL)).await.unwrap().unwrap().fence;
    let b = tx.leases().acquire(&key("b"), one, Term::For(TTL)).await.unwrap().unwrap().fence;
    tx.commit().await.unwrap();
    let mut settling = bench.begin().await;
    assert!(settling.leases().confirm(&key("a"), a).await.unwrap());

    let mut tx = bench.begin().await;
    let renewed = tx.leases().renew(&[(key("a"), a, TTL), (key("b"), b, TTL)]).await.unwrap();

    assert_eq!(renewed.renewed.len(), 2);
    tx.commit().await.unwrap();
    settling.commit().await.unwrap();
}

async fn a_lease_in_other_hands_is_neither_renewed_nor_lost(bench: Bench) {
    if bench.scratch.url().starts_with("sqlite") {
        return; // There are no other hands while this transaction writes.
    }
    let (one, two) = (bench.process(1).await, bench.process(2).await);
    let mut tx = bench.begin().await;
    let a = tx.leases().acquire(&key("a"), one, Term::For(TTL)).await.unwrap().unwrap().fence;
    let b = tx.leases().acquire(&key("b"), one, Term::For(TTL)).await.unwrap().unwrap().fence;
    tx.commit().await.unwrap();
    let mut asking = bench.begin().await;
    assert!(asking.leases().acquire(&key("a"), two, Term::Process).await.unwrap().is_err());

    let mut tx = bench.begin().await;
    let renewed = tx.leases().renew(&[(key("a"), a, TTL), (key("b"), b, TTL)]).await.unwrap();

    assert_eq!(renewed, Renewed { renewed: vec![key("b")], lost: vec![] });
}

async fn a_process_knows_what_the_database_thinks_it_holds(bench: Bench) {
    let (one, two) = (bench.process(1).await, bench.process(2).await);
    let mut tx = bench.begin().await;
    let a = tx.leases().acquire(&key("a"), one, Term::Process).await.unwrap().unwrap().fence;
    let b = tx.leases().acquire(&key("b"), one, Term::For(TTL)).await.unwrap().unwrap().fence;
    tx.leases().acquire(&key("c"), two, Term::Process).await.unwrap().unwrap();

    let mut held = tx.leases().of_process(one).await.unwrap();
    held.sort_by(|x, y| x.0.cmp(&y.0));
    assert_eq!(held, [(key("a"), a), (key("b"), b)]);
}

async fn a_heartbeat_under_way_saves_its_process(bench: Bench) {
    let (one, two) = (bench.process(1).await, bench.process(2).await);
    let mut tx = bench.begin().await;
    tx.leases().acquire(&key("a"), one, Term::Process).await.unwrap().unwrap();
    tx.processes().heartbeat(two, TTL * 3).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    bench.advance(TTL - Duration::from_secs(1));
    let mut heartbeat = bench.begin().await;
    heartbeat.processes().heartbeat(one, TTL).await.unwrap().unwrap();
    bench.advance(Duration::from_secs(2));

    let store = bench.store.clone();
    let grab = tokio::spawn(async move {
        let mut tx = store.begin().await.unwrap();
        let dead = tx.processes().expire(100).await.unwrap();
        let answer = tx.leases().acquire(&key("a"), two, Term::Process).await.unwrap();
        tx.commit().await.unwrap();
        (dead.len(), answer.is_ok())
    });
    bench.until_blocked(&[&grab]).await;
    heartbeat.commit().await.unwrap();

    assert_eq!(grab.await.unwrap(), (0, false));
}

async fn a_heartbeat_that_waited_behind_its_own_funeral_is_refused(bench: Bench) {
    let (one, two) = (bench.process(1).await, bench.process(2).await);
    let mut tx = bench.begin().await;
    tx.leases().acquire(&key("a"), one, Term::Process).await.unwrap().unwrap();
    tx.processes().heartbeat(two, TTL * 3).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    bench.advance(TTL - Duration::from_micros(1));
    let mut funeral = bench.begin().await;
    let refused = funeral.leases().acquire(&key("a"), two, Term::Process).await.unwrap();
    assert!(refused.is_err(), "the process has a microsecond left, and its row is locked from here on");

    // The heartbeat is sent in time, but its turn comes too late.
    let store = bench.store.clone();
    let heartbeat = tokio::spawn(async move {
        let mut tx = store.begin().await.unwrap();
        let answer = tx.processes().heartbeat(one, TTL).await.unwrap();
        tx.commit().await.unwrap();
        answer
    });
    bench.until_blocked(&[&heartbeat]).await;
    bench.advance(Duration::from_micros(1));
    assert!(funeral.leases().acquire(&key("a"), two, Term::Process).await.unwrap().is_ok());
    funeral.commit().await.unwrap();

    assert_eq!(heartbeat.await.unwrap(), Err(ProcessRefusal::Lapsed));
}

async fn the_list_tells_who_may_act(bench: Bench) {
    let (one, two) = (bench.process(1).await, bench.process(2).await);
    let mut tx = bench.begin().await;
    tx.leases().acquire(&key("held"), one, Term::Process).await.unwrap().unwrap();
    tx.leases().acquire(&key("lapsed"), two, Term::For(Duration::from_secs(1))).await.unwrap().unwrap();
    let free = tx.leases().acquire(&key("free"), two, Term::Process).await.unwrap().unwrap();
    tx.leases().release(&key("free"), free.fence).await.unwrap();
    bench.advance(Duration::from_secs(1));

    let listed = tx.leases().list(10).await.unwrap();

    let told: Vec<(&str, bool)> = listed.iter().map(|record| (record.key.name(), record.is_live)).collect();
    assert_eq!(told, [("held", true), ("lapsed", false), ("free", false)]);
}
