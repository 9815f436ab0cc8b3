//! How soon an event is out: at once when it was written through us, at the next look when another program wrote it, and
//! at once again where the trigger tells of those.

use super::site::{Kept, Running, SOON, Site};
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::outbox::{NewEvent, Payload};
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;
use tidemill_store::outbox::Notice;
use tidemill_store::url::Dialect;

/// What is promised for the event in the middle; a single one may be unlucky on a busy machine.
const AT_ONCE: Duration = Duration::from_millis(50);
const NEXT_LOOK: Duration = Duration::from_secs(1);

/// Who writes an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Us,
    Others,
}

/// A site with a relay that has published its first event.
async fn start(site: &Site) -> (Kept, Running) {
    let kept = Kept::default();
    let relay = match site.store.dialect() {
        // On SQLite a wake-up stays in its process, so the relay shares the store.
        Dialect::Sqlite => Running::start(site.store.clone(), &kept, |_| {}),
        Dialect::Postgres => site.relay(&kept, |_| {}).await,
    };
    site.write(&["first"]).await;
    kept.until(1).await;
    (kept, relay)
}

/// How long the event in the middle takes from its commit to the sink, of so many.
async fn middle(site: &Site, kept: &Kept, by: By, rounds: u64) -> Duration {
    let (clock, spread) = (SystemClock::new(), if by == By::Us { 100 } else { 1_000 });
    let mut taken = Vec::new();
    for round in 0..rounds {
        // At different times between two looks, and after what the last event has left to do.
        tokio::time::sleep(Duration::from_millis(60 + round * 337 % spread)).await;
        let before = kept.records().len();
        match by {
            By::Us => {
                let event = NewEvent::new("order", "a", "order.paid", "orders", Payload::Tombstone).unwrap();
                let mut tx = site.store.begin().await.unwrap();
                tx.publish(&event).await.unwrap();
                tx.commit().await.unwrap();
            }
            By::Others => site.write(&["a"]).await,
        }
        let start = clock.monotonic();
        let published = async {
            while kept.records().len() == before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(SOON, published).await.expect("it comes");
        taken.push(clock.monotonic().since(start));
    }
    taken.sort();
    taken[taken.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_through_us_is_out_at_once() {
    for site in Site::both().await {
        let (kept, relay) = start(&site).await;

        let middle = middle(&site, &kept, By::Us, 20).await;
        relay.stop().await;

        assert!(middle <= AT_ONCE, "{middle:?} on {:?}", site.store.dialect());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_write_is_out_at_the_next_look() {
    for site in Site::both().await {
        let (kept, relay) = start(&site).await;

        let middle = middle(&site, &kept, By::Others, 9).await;
        relay.stop().await;

        assert!(middle <= NEXT_LOOK, "{middle:?} on {:?}", site.store.dialect());
    }
}

/// SQLite has no notifications.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_trigger_what_others_write_is_out_at_once() {
    for site in Site::both().await.into_iter().filter(|site| site.store.dialect() == Dialect::Postgres) {
        let (kept, relay) = start(&site).await;
        let mut tx = site.store.begin().await.unwrap();
        assert!(tx.set_outbox_notice(Notice::On, &Actor::system()).await.unwrap());
        tx.commit().await.unwrap();

        let middle = middle(&site, &kept, By::Others, 9).await;
        relay.stop().await;

        assert!(middle <= AT_ONCE, "{middle:?}");
    }
}
