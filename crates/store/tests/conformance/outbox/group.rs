//! Groups: relays that publish in transactions share them whole, and agree about them.

use super::reader::{LEASE, Reader};
use crate::{Bench, identity, process_id};
use tidemill_domain::outbox::relay::transactional_sink;
use tidemill_domain::outbox::{Effort, Group, JoinRefusal, RelayId, Slot, Snapshot, Unit};
use tidemill_store::outbox::relay::{Joining, Looking, RelayFence};
use uuid::Uuid;

crate::on_both![
    a_relay_in_transactions_does_not_join_others_without_them,
    a_group_is_taken_whole_or_not_at_all,
];

fn some(slots: std::ops::Range<u8>) -> Vec<Slot> {
    slots.map(Slot::new).collect()
}

async fn a_relay_in_transactions_does_not_join_others_without_them(bench: Bench) {
    let of = |number: u128, sink| Joining {
        id: RelayId::new(Uuid::from_u128(number)),
        process: process_id(number),
        identity: Box::leak(Box::new(identity(number))),
        sink,
        instance: None,
        lease: LEASE,
    };
    let (shop, store) = (transactional_sink("shop", "a:1"), transactional_sink("store", "a:1"));
    let mut tx = bench.begin().await;
    tx.outbox().join(&of(1, &shop)).await.unwrap().unwrap();

    let plain = tx.outbox().join(&of(2, "kafka:a:1")).await.unwrap().unwrap_err();
    let other = tx.outbox().join(&of(3, &store)).await.unwrap().unwrap_err();
    let same = tx.outbox().join(&of(4, &shop)).await.unwrap();
    tx.commit().await.unwrap();

    assert!(matches!(plain, JoinRefusal::TransactionsDiffer { mine: None, .. }), "{plain:?}");
    assert!(matches!(other, JoinRefusal::TransactionsDiffer { mine: Some(_), .. }), "{other:?}");
    assert_eq!(same, Ok(()));
    let fence = RelayFence {
        id: RelayId::new(Uuid::from_u128(4)),
        acks: 0,
        lease: LEASE,
        timeline: None,
        effort: Effort::default(),
    };
    let looking = Looking { fence, from: &Snapshot::up_to(0), slots: &[], cursors: None };
    let view = bench.begin().await.outbox().look_around(&looking).await.unwrap().unwrap();
    assert!(view.live.iter().all(|relay| relay.transactional_id.as_deref() == Some("shop")), "{view:?}");
    assert_eq!(view.live.len(), 2);
}

async fn a_group_is_taken_whole_or_not_at_all(bench: Bench) {
    let mut one = Reader::join(&bench.store, 1, 10).await;
    let two = Reader::join(&bench.store, 2, 10).await;
    one.take(&some(16..17)).await.unwrap();

    let mut tx = bench.begin().await;
    let wanted = some(0..48);
    let taken = tx.outbox().take_slots(two.fence, Vec::new(), &wanted, Unit::Group).await.unwrap().unwrap();
    tx.commit().await.unwrap();

    let groups: Vec<Group> = taken.epochs.iter().map(|(slot, _)| Group::of(*slot)).collect();
    assert_eq!(taken.epochs.len(), 32);
    assert!(!groups.contains(&Group::of(Slot::new(16))));
    let slots: usize = taken.cursors.iter().map(|cursor| cursor.slots.len()).sum();
    assert_eq!(slots, 32);
    let mut tx = bench.store.read().await.unwrap();
    let position = tx.outbox().relay_position(two.fence.id).await.unwrap().unwrap();
    assert_eq!(position.2.len(), 32);
}
