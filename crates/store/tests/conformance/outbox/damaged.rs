//! A relay whose row nobody can read: it stops no other, and nothing of its slots is lost.

use super::reader::{LEASE, Reader, retire, write};
use super::run;
use crate::Bench;
use std::collections::BTreeSet;
use tidemill_domain::code::Code;
use tidemill_domain::outbox::{Count, EventId, Slot};
use tidemill_store::outbox::Backlog;

crate::on_both![
    a_damaged_relay_stops_no_other_and_keeps_its_slots,
    the_remedy_lets_its_slots_be_read_from_where_they_were_before_it,
];

/// Aggregates of many slots.
const MANY: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

/// The slots of the relay that is damaged: those of some of the aggregates.
fn theirs() -> Vec<Slot> {
    MANY.iter().take(4).map(|aggregate| Slot::of(aggregate)).collect()
}

/// Two relays that have published an event of each aggregate and fell silent, the first of them damaged.
async fn two_silent(bench: &Bench) -> (Reader, Reader) {
    let mut one = Reader::join(&bench.store, 1, 100).await;
    let mut two = Reader::join(&bench.store, 2, 100).await;
    let all: Vec<Slot> = Slot::all().collect();
    one.take(&theirs()).await.unwrap();
    two.take(&all).await.unwrap();
    write(&bench.store, &MANY).await;
    one.drain().await;
    two.drain().await;
    let id = one.fence.id;
    run(&bench.store, &format!("update tidemill_outbox_relay set cursors = '[{{' where id = '{id}'")).await;
    bench.advance(LEASE);
    (one, two)
}

async fn a_damaged_relay_stops_no_other_and_keeps_its_slots(bench: Bench) {
    let (one, two) = two_silent(&bench).await;
    write(&bench.store, &MANY).await;

    bench.store.check_outbox().await.unwrap();
    let mut tx = bench.begin().await;
    let retired = tx.outbox().retire_relays().await.unwrap();
    tx.commit().await.unwrap();
    let mut three = Reader::join(&bench.store, 3, 100).await;
    let taken = three.take(&Slot::all().collect::<Vec<_>>()).await.unwrap();
    three.drain().await;

    assert_eq!(retired.relays, [two.fence.id]);
    let [(id, error)] = retired.damaged.as_slice() else { panic!("{:?}", retired.damaged) };
    assert_eq!((*id, error.code()), (one.fence.id, Code::DamagedRelay));
    assert!(error.to_string().contains(&id.to_string()), "{error}");
    assert_eq!(taken.len(), Slot::COUNT - theirs().len());
    assert_eq!(three.settled.len(), 6, "of all aggregates but theirs");
    let mut tx = bench.store.read().await.unwrap();
    let told: Vec<Code> =
        tx.outbox().damaged_relays().await.unwrap().iter().map(|error| error.code()).collect();
    assert_eq!(told, [Code::DamagedRelay]);
    assert_eq!(tx.outbox().unowned_slots().await.unwrap(), theirs().len() as u64);
    // Where they were is not known, so all of it counts as not read.
    let lag = tx.outbox().lag(100).await.unwrap().unwrap();
    assert_eq!(Backlog::of(&lag).rows, Count::Exactly(8));
}

async fn the_remedy_lets_its_slots_be_read_from_where_they_were_before_it(bench: Bench) {
    let (one, two) = two_silent(&bench).await;
    write(&bench.store, &MANY).await;
    let fix = bench.begin().await.outbox().damaged_relays().await.unwrap()[0].fix();
    assert_eq!(retire(&bench.store).await, [two.fence.id]);

    let statement = fix.split("run the statement: ").nth(1).unwrap().split(';').next().unwrap();
    run(&bench.store, statement).await;
    let retired = retire(&bench.store).await;
    let mut three = Reader::of_all(&bench.store, 3, 100).await;
    three.drain().await;

    assert_eq!(retired, [one.fence.id]);
    let again: BTreeSet<EventId> = one.settled.iter().map(|settled| settled.event.id).collect();
    let after: BTreeSet<EventId> = three.settled.iter().map(|settled| settled.event.id).collect();
    assert!(again.is_subset(&after), "what it had published comes again");
    assert_eq!(after.len(), 14, "and nothing is missing");
    // In the places that they had, so that who compares sees that they came twice.
    let places = |reader: &Reader| -> BTreeSet<(EventId, i64)> {
        reader.settled.iter().map(|settled| (settled.event.id, settled.seq.get())).collect()
    };
    assert!(places(&one).is_subset(&places(&three)));
}
