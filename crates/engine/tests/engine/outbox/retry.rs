//! An event that is refused holds back its aggregate, and nothing else.

use super::site::{Kept, SOON, Site};
use std::num::NonZeroU32;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tidemill_domain::audit::{Actor, Role};
use tidemill_domain::backoff::Backoff;
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::failed_event::{RetryPolicy, StateWord, Verb};
use tidemill_engine::outbox::RelayOptions;
use tidemill_store::outbox::failed_event::{FailedEventFilter, Operation, Selection};
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![
    a_poison_event_is_parked_others_flow_and_a_replay_keeps_the_order,
    a_sink_that_takes_nothing_costs_no_event_an_attempt,
    what_waits_is_taken_over_with_its_slot,
];

/// So often the sink may refuse an event before it is given up.
const ATTEMPTS_MAX: u32 = 3;

fn quick(options: &mut RelayOptions) {
    options.poll = Duration::from_millis(50);
    options.batch = NonZeroU32::new(10).unwrap();
    let backoff = Backoff::new(Duration::from_millis(20), 2.0, Duration::from_millis(40), 0.0).unwrap();
    options.retry = RetryPolicy { backoff, attempts_max: ATTEMPTS_MAX };
}

async fn states(site: &Site) -> Vec<StateWord> {
    let mut tx = site.store.read().await.unwrap();
    let found = tx.outbox().failed_events(&FailedEventFilter::default(), EventId::ZERO, 100).await.unwrap();
    found.iter().map(|record| record.failed_event.state.word()).collect()
}

async fn until_states(site: &Site, expected: &[StateWord]) {
    let reached = async {
        while states(site).await != expected {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let in_time = tokio::time::timeout(SOON, reached).await;
    assert!(in_time.is_ok(), "{:?} instead of {expected:?}", states(site).await);
}

async fn a_poison_event_is_parked_others_flow_and_a_replay_keeps_the_order(scratch: Scratch) {
    let site = Site::on(scratch).await;
    let kept = Kept::default();
    kept.refuse("bad", false);
    site.write(&["good", "bad", "good", "bad"]).await;
    let relay = site.relay(&kept, quick).await;
    until_states(&site, &[StateWord::Parked, StateWord::Held]).await;
    site.write(&["bad", "good"]).await;
    until_states(&site, &[StateWord::Parked, StateWord::Held, StateWord::Held]).await;
    kept.until(3).await;
    assert_eq!(kept.of("good").len(), 3);

    kept.accept_all();
    let parked = FailedEventFilter { states: vec![StateWord::Parked], ..Default::default() };
    let operation = Operation {
        verb: &Verb::Replay,
        actor: &Actor { name: "ann".into(), role: Role::Operator, request_id: None },
        reason: "the sink takes it now",
        limit: 10,
    };
    let mut tx = site.store.begin().await.unwrap();
    let operated = tx
        .outbox()
        .operate(&Selection::Matching { filter: parked, after: EventId::ZERO }, &operation)
        .await
        .unwrap();
    assert_eq!(operated.changed.len(), 1);
    tx.commit().await.unwrap();
    until_states(&site, &[]).await;
    site.write(&["bad"]).await;
    kept.until(7).await;
    relay.stop().await;

    let came = kept.of("bad");
    assert_eq!(came.len(), 4);
    assert!(came.is_sorted(), "{came:?}");
}

async fn a_sink_that_takes_nothing_costs_no_event_an_attempt(scratch: Scratch) {
    let site = Site::on(scratch).await;
    let kept = Kept::default();
    kept.is_down.store(true, Ordering::Relaxed);
    site.write(&["one", "two", "one"]).await;
    let relay = site.relay(&kept, quick).await;
    // Once more than it would be asked if these were attempts.
    kept.until_asked(ATTEMPTS_MAX as usize + 1).await;
    assert_eq!(states(&site).await, []);

    kept.is_down.store(false, Ordering::Relaxed);
    let records = kept.until(3).await;
    relay.stop().await;

    assert_eq!(records.len(), 3);
    assert!(kept.of("one").is_sorted());
}

async fn what_waits_is_taken_over_with_its_slot(scratch: Scratch) {
    let site = Site::on(scratch).await;
    let kept = Kept::default();
    kept.refuse("bad", true);
    site.write(&["bad", "bad"]).await;
    let first = site.relay(&kept, quick).await;
    until_states(&site, &[StateWord::Parked, StateWord::Held]).await;
    first.stop().await;
    let second = site.relay(&kept, quick).await;

    site.write(&["bad", "good"]).await;
    kept.until(1).await;
    until_states(&site, &[StateWord::Parked, StateWord::Held, StateWord::Held]).await;
    second.stop().await;

    assert_eq!(kept.of("bad"), []);
}
