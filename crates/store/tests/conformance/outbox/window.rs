//! Windows that are read page by page, left in the middle, taken up by others, and read together again.

use super::reader::{Reader, assert_each_once, assert_no_gap, retire, write};
use super::stage::{TABLES, Writer};
use crate::Bench;
use tidemill_domain::outbox::{EventId, Slot};
use tidemill_store::outbox::reading::Reading;

crate::on_both![
    a_window_that_was_left_in_the_middle_is_read_on_by_another,
    of_a_window_in_the_middle_some_slots_can_be_left,
    a_window_goes_on_after_the_last_acknowledgement_of_a_relay_that_fell_silent,
    slots_that_are_behind_catch_up_and_are_read_together_again,
    nothing_beyond_a_stop_is_read,
    nothing_up_to_the_floor_is_read,
    what_was_not_settled_is_read_again,
];

/// Aggregates of many slots.
const MANY: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

fn all() -> Vec<Slot> {
    Slot::all().collect()
}

/// Every slot whose number divided by two leaves this.
fn halves(rest: u8) -> Vec<Slot> {
    Slot::all().filter(|slot| slot.get() % 2 == rest).collect()
}

async fn a_window_that_was_left_in_the_middle_is_read_on_by_another(bench: Bench) {
    let mut one = Reader::of_all(&bench.store, 1, 3).await;
    write(&bench.store, &MANY).await;
    one.step().await;
    write(&bench.store, &MANY).await;
    let before = one.cursors.clone();
    assert!(before[0].window.to.is_some(), "it is in the middle");

    assert!(one.leave(&all()).await);
    let mut two = Reader::of_all(&bench.store, 2, 4).await;
    let taken = two.cursors.clone();
    two.drain().await;

    assert_eq!(taken, before);
    assert_eq!(two.ids(), (4..=20).collect::<Vec<_>>());
    assert_each_once(one.settled.iter().chain(&two.settled), 20);
}

async fn of_a_window_in_the_middle_some_slots_can_be_left(bench: Bench) {
    let mut one = Reader::of_all(&bench.store, 1, 3).await;
    let mut two = Reader::join(&bench.store, 2, 1).await;
    write(&bench.store, &MANY).await;
    one.step().await;
    write(&bench.store, &MANY).await;

    assert!(one.leave(&halves(1)).await);
    one.drain().await;
    assert_eq!(two.take(&all()).await, Some(halves(1)));
    two.drain().await;

    assert!(one.settled.iter().skip(3).all(|settled| settled.event.slot.get() % 2 == 0));
    assert!(two.settled.iter().all(|settled| settled.event.slot.get() % 2 == 1));
    assert_each_once(one.settled.iter().chain(&two.settled), 20);
}

async fn a_window_goes_on_after_the_last_acknowledgement_of_a_relay_that_fell_silent(bench: Bench) {
    let mut one = Reader::of_all(&bench.store, 1, 3).await;
    write(&bench.store, &MANY).await;
    one.step().await;
    let unsettled = one.read().await.unwrap();
    bench.advance(super::reader::LEASE);

    assert_eq!(retire(&bench.store).await, [one.fence.id]);
    let mut two = Reader::of_all(&bench.store, 2, 100).await;
    two.drain().await;

    assert!(!one.settle(unsettled, 3).await, "it has been replaced");
    assert_eq!(two.ids(), (4..=10).collect::<Vec<_>>());
    assert_each_once(one.settled.iter().chain(&two.settled), 10);
}

async fn slots_that_are_behind_catch_up_and_are_read_together_again(bench: Bench) {
    let mut one = Reader::join(&bench.store, 1, 2).await;
    let mut two = Reader::join(&bench.store, 2, 2).await;
    one.take(&halves(0)).await.unwrap();
    two.take(&halves(1)).await.unwrap();
    write(&bench.store, &MANY).await;
    one.drain().await;
    write(&bench.store, &MANY).await;
    // The other one is a page into its window, so it is neither at the beginning nor where the first one is.
    two.step().await;
    write(&bench.store, &MANY).await;

    assert!(two.leave(&halves(1)).await);
    assert_eq!(one.take(&all()).await, Some(halves(1)));
    assert_eq!(one.cursors.len(), 2);
    one.drain().await;

    assert_eq!(one.cursors.len(), 1);
    assert_eq!(one.cursors[0].slots.len(), Slot::COUNT);
    assert_each_once(one.settled.iter().chain(&two.settled), 30);
}

async fn nothing_beyond_a_stop_is_read(bench: Bench) {
    let mut one = Reader::of_all(&bench.store, 1, 100).await;
    let start = one.cursors.clone();
    write(&bench.store, &MANY).await;
    one.drain().await;
    let stop = one.cursors[0].window.from.clone();
    write(&bench.store, &MANY).await;

    for limit in [1, 5, 10, 11, 100] {
        let mut cursor = start[0].clone();
        let (mut ids, mut low) = (Vec::new(), None);
        loop {
            let reading =
                Reading { cursor: &cursor, stop: Some(&stop), floor: EventId::ZERO, low: low.clone(), limit };
            let page = bench.store.read().await.unwrap().outbox().read(&reading).await.unwrap().unwrap();
            ids.extend(page.events.iter().map(|event| event.id.get()));
            (cursor.window, low) = (page.window, page.low);
            if cursor.window.to.is_none() {
                break;
            }
        }

        assert_eq!(ids, (1..=10).collect::<Vec<_>>(), "with pages of {limit}");
        assert_eq!(cursor.window.from, stop);
    }
}

async fn nothing_up_to_the_floor_is_read(bench: Bench) {
    for limit in [1, 3, 100] {
        let mut one = Reader::of_all(&bench.store, u128::from(limit), limit).await;
        one.floor = EventId::new(if limit == 1 { 4 } else { 14 });
        write(&bench.store, &MANY).await;

        one.drain().await;

        let expected = match limit {
            1 => 5..=10,
            3 => 15..=20,
            _ => 21..=30,
        };
        assert_eq!(one.ids(), expected.collect::<Vec<_>>(), "with pages of {limit}");
        one.end().await;
    }
}

async fn what_was_not_settled_is_read_again(bench: Bench) {
    let mut one = Reader::of_all(&bench.store, 1, 4).await;
    write(&bench.store, &MANY).await;
    write(&bench.store, &["a", "b"]).await;

    for (count, settled) in [(3, 3), (0, 3), (1, 4), (4, 8), (2, 10), (1, 11)] {
        let batch = one.read().await.unwrap();
        assert!(one.settle(batch, count).await);
        assert_eq!(one.settled.len(), settled);
    }
    one.drain().await;
    // A window that was read at once is a larger one from then on.
    write(&bench.store, &["a", "b", "c"]).await;
    let batch = one.read().await.unwrap();
    assert_eq!(batch.page.queries, 1);
    assert!(one.settle(batch, 1).await);
    one.drain().await;

    assert_eq!(one.ids(), (1..=15).collect::<Vec<_>>());
    assert_each_once(&one.settled, 15);
}

/// Only PostgreSQL has writers that overlap; so too for the tests below.
#[tokio::test]
async fn what_comes_late_with_a_low_id_is_in_its_place_on_every_page() {
    let Some(bench) = Bench::postgres().await else { return };
    let url = bench.scratch.url();
    let (mut long, mut longer, mut quick) =
        (Writer::new(url).await, Writer::new(url).await, Writer::new(url).await);
    quick.run(TABLES).await;
    let mut relay = Reader::of_all(&bench.store, 1, 5).await;

    let mut events = 0;
    for limit in 1..=6 {
        relay.limit = limit;
        long.begin().await;
        longer.begin().await;
        for n in 0..4 {
            long.event(&format!("long{n}")).await;
            longer.event(&format!("longer{n}")).await;
        }
        for n in 0..7 {
            quick.commit_event(&format!("quick{n}")).await;
        }
        relay.drain().await;
        assert_eq!(relay.settled.len(), events + 7);
        quick.commit_event("quick").await;
        long.event("long").await;
        long.commit().await;
        quick.commit_event("quick").await;

        // In the middle of the window the longest one commits: it belongs to the next one.
        relay.step().await;
        longer.commit().await;
        relay.drain().await;

        let ids = relay.ids();
        let (window, next) = ids[events + 7..].split_at(7);
        assert!(window.is_sorted() && next.is_sorted(), "with pages of {limit}: {window:?}, {next:?}");
        assert!(next[0] < window[1], "what came last began first");
        events += 18;
        assert_each_once(&relay.settled, events);
    }
}

#[tokio::test]
async fn a_page_is_found_wherever_its_events_lie() {
    let Some(bench) = Bench::postgres().await else { return };
    let url = bench.scratch.url();
    let (mut long, mut quick) = (Writer::new(url).await, Writer::new(url).await);
    quick.run(TABLES).await;
    let ours = [Slot::of("ours"), Slot::of("long")];
    let mut relay = Reader::join(&bench.store, 1, 2).await;
    assert_eq!(relay.take(&ours).await.map(|slots| slots.len()), Some(2));
    // One is running at the first mark, and writes before, between and behind the events of the window.
    long.begin().await;
    long.event("long").await;
    quick.commit_event("ours").await;
    relay.drain().await;
    let theirs = "insert into outbox_event (aggregate_type, aggregate_id, event_type, topic, payload)
                  select 'thing', 'theirs', 'thing.changed', 'things', '1' from generate_series(1, 2000)";
    for _ in 0..3 {
        quick.run(theirs).await;
        quick.commit_event("ours").await;
        long.event("long").await;
    }
    quick.run(theirs).await;
    long.event("long").await;
    long.commit().await;

    relay.drain().await;

    assert_no_gap(&relay.settled);
    let ids = relay.ids();
    assert_eq!(ids.len(), 9);
    assert!(ids[1..].windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
}

#[tokio::test]
async fn the_lowest_id_of_one_window_is_not_taken_for_that_of_another() {
    let Some(bench) = Bench::postgres().await else { return };
    let url = bench.scratch.url();
    let (mut slow, mut quick) = (Writer::new(url).await, Writer::new(url).await);
    quick.run(TABLES).await;
    let theirs = [Slot::of("b")];
    let mut one = Reader::of_all(&bench.store, 1, 1).await;
    one.leave(&theirs).await;
    // Two events of b have lower ids than those of a, but their transaction began later and ends later.
    quick.begin().await;
    quick.write_elsewhere().await;
    slow.begin().await;
    slow.event("b").await;
    slow.event("b").await;
    for _ in 0..3 {
        quick.event("a").await;
    }
    quick.commit().await;
    one.step().await;
    slow.commit().await;
    quick.commit_event("b").await;
    // Both begin at one mark and end at different ones, and both were left in the middle.
    let mut two = Reader::join(&bench.store, 2, 1).await;
    two.take(&theirs).await.unwrap();
    two.step().await;
    two.leave(&theirs).await;

    one.take(&theirs).await.unwrap();
    assert_eq!(one.cursors.len(), 2);
    assert_eq!(one.cursors[0].window.from, one.cursors[1].window.from);
    one.drain().await;

    assert_each_once(one.settled.iter().chain(&two.settled), 6);
}
