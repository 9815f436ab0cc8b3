//! Where slots stand.

use super::{relay, rest, rest_all, snapshot};
use crate::Bench;
use tidemill_domain::code::Code;
use tidemill_domain::lease::Epoch;
use tidemill_domain::outbox::{EventId, RelayId, Seq, Slot, Snapshot, Window};
use uuid::Uuid;

crate::on_both![
    a_new_outbox_has_256_free_slots_at_the_beginning,
    owned_slots_stand_where_their_relay_says_and_free_ones_where_they_were_left,
    a_place_that_is_not_understood_is_told,
];

async fn a_new_outbox_has_256_free_slots_at_the_beginning(bench: Bench) {
    let places = bench.begin().await.outbox().places().await.unwrap();

    assert_eq!(places.iter().map(|place| place.slot).collect::<Vec<_>>(), Slot::all().collect::<Vec<_>>());
    assert!(places.iter().all(|place| place.owner.is_none() && place.seq == Seq::ZERO));
    assert!(places.iter().all(|place| place.window.to.is_none() && place.window.high == EventId::ZERO));
}

async fn owned_slots_stand_where_their_relay_says_and_free_ones_where_they_were_left(bench: Bench) {
    let left = Window::at(Snapshot::up_to(10));
    let read = Window::at(snapshot(&bench.store).await).opened(Snapshot::up_to(90)).after(EventId::new(40));
    rest_all(&bench.store, &left).await;
    relay(&bench, 1, &read, &[(Slot::new(3), 7), (Slot::new(255), 9)], None).await;

    let places = bench.begin().await.outbox().places().await.unwrap();

    let owned: Vec<_> = places.iter().filter(|place| place.owner.is_some()).collect();
    assert_eq!(owned.len(), 2);
    assert_eq!(owned[1].owner, Some(RelayId::new(Uuid::from_u128(1))));
    assert_eq!((owned[0].slot, owned[0].seq), (Slot::new(3), Seq::new(7)));
    assert!(owned.iter().all(|place| place.window == read && place.epoch == Epoch::new(1)));
    assert!(places.iter().filter(|place| place.owner.is_none()).all(|place| place.window == left));
}

async fn a_place_that_is_not_understood_is_told(bench: Bench) {
    rest(&bench.store, Slot::new(3), &Window::at(Snapshot::up_to(1))).await;
    super::run(&bench.store, "update tidemill_outbox_slot set place = '{}' where slot = 3").await;

    let error = bench.begin().await.outbox().places().await.unwrap_err();

    assert_eq!(error.code(), Code::DamagedRow);
}
