//! The database's clock goes back: the slots of a dead relay go to others after one lease, and a living one keeps its own.

use super::failed_event::{due, new, waiting};
use super::reader::{LEASE, Reader, retire};
use crate::{Bench, identity, process_id};
use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::outbox::{Instance, JoinRefusal, RelayId};
use tidemill_store::outbox::relay::Joining;
use uuid::Uuid;

crate::on_both![
    the_slots_of_a_dead_relay_are_free_one_lease_after_the_step,
    a_living_relay_keeps_its_slots_across_the_step,
    the_only_relay_joins_again_one_lease_after_the_step,
    a_relay_of_an_older_program_keeps_its_lease_for_an_hour_at_most,
    an_event_is_tried_again_when_its_wait_has_passed_after_the_step,
];

const HOUR: Duration = Duration::from_secs(3_600);
const LITTLE: Duration = Duration::from_micros(1);

/// A round of the reaper, and what a relay does that finds a silent one.
async fn reap(bench: &Bench) -> Vec<RelayId> {
    bench.shorten_leases().await;
    retire(&bench.store).await
}

async fn the_slots_of_a_dead_relay_are_free_one_lease_after_the_step(bench: Bench) {
    let one = Reader::of_all(&bench.store, 1, 10).await;
    bench.set_back(HOUR);
    let two = Reader::join(&bench.store, 2, 10).await;

    assert_eq!(reap(&bench).await, []);
    bench.advance(LEASE - LITTLE);
    assert_eq!(reap(&bench).await, []);
    assert!(!two.look().await.unwrap().has_lapsed, "it is not taken before one lease has passed");
    bench.advance(LITTLE);

    assert!(two.look().await.unwrap().has_lapsed);
    assert_eq!(reap(&bench).await, [one.fence.id]);
    let three = Reader::of_all(&bench.store, 3, 10).await;
    assert!(three.epochs.values().all(|epoch| *epoch == Epoch::new(2)));
}

async fn a_living_relay_keeps_its_slots_across_the_step(bench: Bench) {
    let mut one = Reader::of_all(&bench.store, 1, 10).await;
    for round in 0..24 {
        if round % 8 == 4 {
            bench.set_back(HOUR);
        }
        assert_eq!(reap(&bench).await, []);
        bench.advance(LEASE - LITTLE);
        // Both ways in which a relay renews.
        if round % 2 == 0 {
            assert!(one.look().await.is_some());
        } else {
            let mut tx = bench.begin().await;
            assert!(tx.outbox().acknowledge(one.fence, &one.cursors, 0).await.unwrap());
            tx.commit().await.unwrap();
            one.fence.acks += 1;
        }
        let listed = bench.begin().await.outbox().relays().await.unwrap();
        assert_eq!(listed[0].until, bench.now().plus(LEASE), "the old end is not kept");
    }
    bench.advance(LEASE);

    assert_eq!(reap(&bench).await, [one.fence.id], "and no longer than its lease when it is silent");
}

async fn the_only_relay_joins_again_one_lease_after_the_step(bench: Bench) {
    let joining = |number: u128| Joining {
        id: RelayId::new(Uuid::from_u128(number)),
        process: process_id(number),
        identity: Box::leak(Box::new(identity(number))),
        sink: "none",
        instance: Some(Instance::new(0, 1).unwrap()),
        lease: LEASE,
    };
    let join = async |number: u128| {
        let mut tx = bench.begin().await;
        let joined = tx.outbox().join(&joining(number)).await.unwrap();
        tx.commit().await.unwrap();
        joined
    };
    join(1).await.unwrap();
    bench.set_back(HOUR);

    assert!(matches!(join(2).await, Err(JoinRefusal::IdTaken { .. })));
    bench.advance(LEASE - LITTLE);
    assert!(matches!(join(2).await, Err(JoinRefusal::IdTaken { .. })));
    bench.advance(LITTLE);

    assert_eq!(join(2).await, Ok(()));
}

async fn a_relay_of_an_older_program_keeps_its_lease_for_an_hour_at_most(bench: Bench) {
    let one = Reader::of_all(&bench.store, 1, 10).await;
    bench.execute("update tidemill_outbox_relay set renewed_at = null").await;
    assert_eq!(bench.shorten_leases().await, 0, "an honest clock changes nothing");
    bench.set_back(HOUR * 5);

    assert_eq!(reap(&bench).await, []);
    bench.advance(HOUR);

    assert_eq!(reap(&bench).await, [one.fence.id]);
}

async fn an_event_is_tried_again_when_its_wait_has_passed_after_the_step(bench: Bench) {
    super::reader::write(&bench.store, &["a"]).await;
    let wait = Duration::from_secs(600);
    let mut tx = bench.begin().await;
    tx.outbox()
        .add_failed_events(&[new(1, "a", waiting(bench.now().plus(wait)))], bench.now())
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(bench.shorten_waits().await, 0, "an honest clock changes nothing");
    bench.set_back(HOUR);

    assert_eq!(bench.shorten_waits().await, 1);
    assert_eq!(bench.shorten_waits().await, 0, "once");
    bench.advance(wait - LITTLE);
    assert!(due(&bench, 10, 10).await.events.is_empty());
    bench.advance(LITTLE);

    assert_eq!(due(&bench, 10, 10).await.events.len(), 1);
}
