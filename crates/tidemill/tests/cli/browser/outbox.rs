//! The outbox in a real browser: what it has to publish is seen as it comes, and what was not taken is replayed.

use super::has_row;
use super::scene::{SOON, Scene, instant};
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::outbox::failed_event::FailedEventState;
use tidemill_domain::outbox::{Aggregate, EventId, NewEvent, Payload, Slot};
use tidemill_domain::time::{Clock, FakeClock};
use tidemill_engine::SystemClock;
use tidemill_store::Store;
use tidemill_store::outbox::failed_event::NewFailedEvent;
use tokio::runtime::Runtime;

fn open(scene: &Scene) -> (Runtime, Store) {
    let runtime = Runtime::new().unwrap();
    let clock = Arc::new(FakeClock::at(SystemClock::new().now().minus(Duration::from_secs(90))));
    let store = runtime.block_on(scene.store(clock));
    (runtime, store)
}

/// Writes an event, as a program does.
async fn write(store: &Store, aggregate: &str, topic: &str) -> EventId {
    let payload =
        Payload::Json("{\"amount\": 12345678901234567890.10, \"note\": \"<b>bold</b>\"}".to_owned());
    let event = NewEvent::new("order", aggregate, "order.paid", topic, payload).unwrap();
    let mut tx = store.begin().await.unwrap();
    let id = tx.publish(&event).await.unwrap();
    tx.commit().await.unwrap();
    id
}

/// Makes an event that nobody tries any more, as a relay does after its last attempt.
async fn park(store: &Store, aggregate: &str, topic: &str) -> EventId {
    let id = write(store, aggregate, topic).await;
    let mut tx = store.begin().await.unwrap();
    let new = NewFailedEvent {
        event_id: id,
        slot: Slot::of(aggregate),
        seq: tidemill_domain::outbox::Seq::new(id.get()),
        aggregate: Aggregate { kind: "order".into(), id: aggregate.into() },
        event_type: "order.paid".into(),
        attempts: 12,
        state: FailedEventState::Parked,
        error: Some(format!(
            "the broker says no to {id}: message of 2097152 bytes is larger than 1048576\nsecond line"
        )),
    };
    let now = tx.now().await.unwrap();
    tx.outbox().add_failed_events(&[new], now).await.unwrap();
    tx.execute_for_test(&format!("update tidemill_outbox set floor_id = {id}")).await.unwrap();
    tx.commit().await.unwrap();
    id
}

/// Events that nobody tries any more, one behind another of its aggregate, and one that is new; and those who publish.
/// Returns the last that was parked.
pub(super) async fn furnish(store: &Store) -> EventId {
    let mut last = EventId::ZERO;
    for aggregate in ["4711", "4711", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "12"] {
        last = park(store, aggregate, "orders.of.the.north").await;
    }
    write(store, "fresh", "orders.of.the.north").await;
    relays(store).await;
    last
}

/// Three relays with their slots, one of which is gone.
async fn relays(store: &Store) {
    let mut tx = store.begin().await.unwrap();
    let now = SystemClock::new().now().as_micros();
    for (number, name, slots, until) in [(1, "keeper", 96, 600), (2, "digger", 64, 600), (3, "lost", 32, -5)]
    {
        let id = format!("00000000-0000-0000-0000-00000000000{number}");
        let (joined, until) = (instant(store, now - 7_200_000_000), instant(store, now + until * 1_000_000));
        tx.execute_for_test(&format!(
            "insert into tidemill_outbox_relay (id, process, name, host, pid, sink, joined_at, until, published)
             values ('{id}', '{id}', '{name}', 'mill-{number}.example', 4711, 'kafka://broker-1:9092,broker-2:9092',
                     {joined}, {until}, 120000 * {number});
             update tidemill_outbox_slot
             set owner = '{id}', epoch = {number}
             where slot in (select slot from tidemill_outbox_slot where owner is null order by slot limit {slots})"
        ))
        .await
        .unwrap();
    }
    tx.commit().await.unwrap();
}

#[test]
fn what_has_to_be_published_is_seen_as_it_comes() {
    let Some(scene) = Scene::usual() else { return };
    let page = scene.visit("/outbox");
    assert!(page.text("#status").unwrap().contains("0 events"));
    page.wait_until(SOON, |page| Ok(page.text("#link")?.contains("Live"))).unwrap();
    page.execute("window.isTheSamePage = true").unwrap();
    let (runtime, store) = open(&scene);

    runtime.block_on(write(&store, "a", "orders"));

    page.wait_until(SOON, |page| Ok(page.text("#status")?.contains("1 event"))).unwrap();
    page.wait_until(SOON, |page| has_row(page, "#slots tbody tr", &["no owner", "256", "0–255", "1", "min"]))
        .unwrap();
    assert_eq!(page.execute("return window.isTheSamePage === true").unwrap(), true);
    assert_eq!(page.console_errors().unwrap(), Vec::<String>::new());
    runtime.block_on(store.close());
}

#[test]
fn a_parked_event_is_replayed_in_a_dialog_and_the_numbers_change() {
    let Some(scene) = Scene::usual() else { return };
    let (runtime, store) = open(&scene);
    let id = runtime.block_on(park(&store, "a", "orders"));
    let page = scene.visit("/outbox/failed");
    page.wait_until(SOON, |page| Ok(page.text("#link")?.contains("Live"))).unwrap();
    assert!(
        has_row(
            page,
            "#events tbody tr",
            &["parked", "order.paid", "order a", "orders", "larger than", "12 attempts"]
        )
        .unwrap()
    );
    let other = runtime.block_on(park(&store, "b", "orders"));
    page.wait_until(SOON, |page| Ok(page.text("[data-live='failed:parked']")? == "2")).unwrap();

    page.click(&format!("a[aria-label='Replay event {id}…']")).unwrap();
    page.wait_until(SOON, |page| page.exists("dialog[open] [name=reason]")).unwrap();
    page.fill("dialog[open] [name=reason]", "the limit was raised").unwrap();
    page.click("dialog[open] button.do").unwrap();
    page.wait_until(SOON, |page| Ok(!page.exists("dialog[open]")? && page.exists("#events")?)).unwrap();
    page.wait_until(SOON, |page| Ok(page.text("[data-live='failed:waiting']")? == "1")).unwrap();
    assert!(!has_row(page, "#events tbody tr", &["order a"]).unwrap());
    assert!(has_row(page, "#events tbody tr", &["order b"]).unwrap());

    scene.visit(&format!("/outbox/failed/{other}"));
    assert!(page.text("#content pre").unwrap().contains("12345678901234567890.10"), "no number is rounded");
    assert!(page.text("#content pre").unwrap().contains("<b>bold</b>"));
    assert_eq!(page.console_errors().unwrap(), Vec::<String>::new());
    scene.visit("/settings/audit");
    assert!(
        has_row(page, "#entries tbody tr", &["event.replay", "the limit was raised", "parked → waiting"])
            .unwrap()
    );
    runtime.block_on(store.close());
}

#[test]
fn those_that_were_picked_are_skipped_without_javascript() {
    let Some(scene) = Scene::without_javascript() else { return };
    let (runtime, store) = open(&scene);
    for aggregate in ["a", "b", "c"] {
        runtime.block_on(park(&store, aggregate, "orders"));
    }

    let page = scene.visit("/outbox/failed");
    page.click("#events tbody tr:nth-child(1) [name=id]").unwrap();
    page.click("#events tbody tr:nth-child(3) [name=id]").unwrap();
    page.click("button[formaction$='/skip']").unwrap();
    page.wait_until(SOON, |page| Ok(page.text("h2")?.contains("Skip 2 events?"))).unwrap();
    page.fill("[name=number]", "3").unwrap();
    page.fill("[name=reason]", "they were a test").unwrap();
    page.click("button.end").unwrap();
    page.wait_until(SOON, |page| {
        Ok(page.text("main")?.contains("you typed “3”, and there are 2 events now"))
    })
    .unwrap();
    page.fill("[name=number]", "2").unwrap();
    page.fill("[name=reason]", "they were a test").unwrap();
    page.click("button.end").unwrap();
    page.wait_until(SOON, |page| Ok(page.text("main")?.contains("2 events are skipped"))).unwrap();
    assert!(has_row(page, "#events tbody tr", &["order b"]).unwrap());
    assert!(!has_row(page, "#events tbody tr", &["order a"]).unwrap());
    runtime.block_on(store.close());
}
