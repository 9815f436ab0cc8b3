//! All about one event, and the relays as people see them.

use super::{except, paid, publish, relay, rest_all, snapshot};
use crate::Bench;
use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::outbox::failed_event::StateWord;
use tidemill_domain::outbox::{EventId, EventOutcome, Instance, RelayId, Slot, Tally, Window};
use tidemill_store::outbox::EventDetail;
use uuid::Uuid;

crate::on_both![
    what_became_of_an_event_is_told,
    an_event_that_is_not_there_is_not_told_of,
    relays_are_listed_until_their_lease_has_passed,
];

async fn detail(bench: &Bench, id: EventId) -> Option<EventDetail> {
    bench.store.read().await.unwrap().outbox().event_detail(id).await.unwrap()
}

async fn what_became_of_an_event_is_told(bench: Bench) {
    publish(&bench, &[paid("a"), paid("b")]).await;
    let [first, second] = super::events(&bench).await.try_into().unwrap();
    let before = detail(&bench, first.id).await.unwrap();
    assert_eq!((before.outcome, before.owner, before.epoch), (EventOutcome::Pending, None, Epoch::ZERO));
    assert_eq!((before.event, before.failed_event), (first.clone(), None));

    let read = Window::at(snapshot(&bench.store).await);
    relay(&bench, 1, &read, &[(first.slot, 1)], None).await;
    publish(&bench, &[paid("a")]).await;

    let published = detail(&bench, first.id).await.unwrap();
    assert_eq!((published.outcome, published.epoch), (EventOutcome::Published, Epoch::new(1)));
    assert_eq!(published.owner, Some(RelayId::new(Uuid::from_u128(1))));
    // Nobody has read this slot, and not what came later.
    assert_eq!(detail(&bench, second.id).await.unwrap().outcome, EventOutcome::Pending);
    let later = super::events(&bench).await.pop().unwrap();
    assert_eq!(detail(&bench, later.id).await.unwrap().outcome, EventOutcome::Pending);

    rest_all(&bench.store, &read).await;
    except(&bench, second.id, "b", "parked").await;
    let parked = detail(&bench, second.id).await.unwrap();
    assert_eq!(parked.outcome, EventOutcome::Failed(StateWord::Parked));
    assert_eq!(parked.failed_event.unwrap().record.id, second.id);
}

async fn an_event_that_is_not_there_is_not_told_of(bench: Bench) {
    assert_eq!(detail(&bench, EventId::new(4711)).await, None);
}

async fn relays_are_listed_until_their_lease_has_passed(bench: Bench) {
    let read = Window::at(snapshot(&bench.store).await);
    relay(&bench, 1, &read, &[(Slot::new(0), 0), (Slot::new(3), 0)], Some((0, 3))).await;
    bench.advance(Duration::from_secs(2));
    relay(&bench, 2, &read, &[], Some((1, 3))).await;

    let relays = bench.begin().await.outbox().relays().await.unwrap();

    let [first, second] = relays.as_slice() else { panic!("{relays:?}") };
    assert_eq!((first.relay.slots, second.relay.slots), (2, 0));
    assert_eq!(first.relay.instance, Some(Instance::new(0, 3).unwrap()));
    assert_eq!((first.sink.as_str(), first.tally), ("null", Tally::default()));
    assert_eq!(first.process.get(), Uuid::from_u128(1));
    assert_eq!(first.until, bench.now().plus(Duration::from_secs(3)));
    bench.advance(Duration::from_secs(3));
    assert_eq!(bench.begin().await.outbox().relays().await.unwrap().len(), 1);
    bench.advance(Duration::from_secs(2));
    assert_eq!(bench.begin().await.outbox().relays().await.unwrap(), []);
}
