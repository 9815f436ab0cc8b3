//! How soon an event is out: at once when it was written through us, at the next look when another program wrote it, and
//! at once again where the trigger tells of those.
//!
//! "At once" is not measured: the next look of these relays is an hour away, and each event is written when the relay is at
//! rest, so what comes at all was woken for. That a relay is at rest is seen in what it counts of itself. It and the test
//! share one thread, so the test does not see the count before the relay waits again.

use super::site::{Kept, Running, Site};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::outbox::{NewEvent, Payload};
use tidemill_engine::outbox::RelayOptions;
use tidemill_store::outbox::Notify;
use tidemill_store::scratch::Scratch;
use tidemill_store::url::Dialect;

// The metrics of one thread are counted.
tidemill_store::on_both![
    one_thread: what_is_written_through_us_is_out_at_once,
    what_others_write_is_out_at_the_next_look,
];

const HOUR: Duration = Duration::from_secs(3_600);

/// Single events: the relay has to be woken for each of them.
const ROUNDS: usize = 20;

/// A relay that looks once an hour, unless somebody wakes it.
fn sleepy(options: &mut RelayOptions) {
    options.poll = HOUR;
    options.lease = HOUR * 4;
}

/// How often the relay has read and found nothing.
fn in_vain(counted: &PrometheusHandle) -> u64 {
    let text = counted.render();
    let line =
        text.lines().find_map(|line| line.strip_prefix("tidemill_outbox_polls_total{found=\"nothing\"} "));
    line.map_or(0, |count| count.parse().unwrap())
}

/// Writes single events to a relay at rest, and waits for each. After an event a relay reads until it finds nothing; then it
/// rests.
async fn assert_woken_for_each(counted: &PrometheusHandle, kept: &Kept, write: impl AsyncFn()) {
    let mut before = 0;
    for round in 1..=ROUNDS {
        crate::until("a relay at rest", async || in_vain(counted) > before).await;
        before = in_vain(counted);
        write().await;
        kept.until(1 + round).await;
    }
}

/// A relay that has published its first event.
async fn start(site: &Site, adapt: fn(&mut RelayOptions)) -> (Kept, Running) {
    let kept = Kept::default();
    site.write(&["first"]).await;
    let relay = match site.store.dialect() {
        // On SQLite a wake-up stays in its process, so the relay shares the store.
        Dialect::Sqlite => Running::start(site.store.clone(), &kept, adapt),
        Dialect::Postgres => site.relay(&kept, adapt).await,
    };
    kept.until(1).await;
    (kept, relay)
}

/// Writes an event through us, as Rust programs do.
async fn write_through_us(site: &Site) {
    let event = NewEvent::new("order", "a", "order.paid", "orders", Payload::Tombstone).unwrap();
    let mut tx = site.store.begin().await.unwrap();
    tx.publish(&event).await.unwrap();
    tx.commit().await.unwrap();
}

async fn what_is_written_through_us_is_out_at_once(scratch: Scratch) {
    let site = Site::on(scratch).await;
    let recorder = PrometheusBuilder::new().build_recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let (kept, relay) = start(&site, sleepy).await;

    assert_woken_for_each(&recorder.handle(), &kept, async || write_through_us(&site).await).await;

    relay.stop().await;
}

async fn what_others_write_is_out_at_the_next_look(scratch: Scratch) {
    let site = Site::on(scratch).await;
    // Nobody is woken for these, so all that brings them out is the look of every second.
    let (kept, relay) = start(&site, |_| {}).await;

    for round in 1..=3 {
        site.write(&["a"]).await;
        kept.until(1 + round).await;
    }

    relay.stop().await;
}

/// SQLite has no notifications.
#[tokio::test]
async fn with_the_trigger_what_others_write_is_out_at_once() {
    let Some(site) = Site::postgres().await else { return };
    let mut tx = site.store.begin().await.unwrap();
    assert!(tx.outbox().set_notify(Notify::On, &Actor::system()).await.unwrap());
    tx.commit().await.unwrap();
    let recorder = PrometheusBuilder::new().build_recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let (kept, relay) = start(&site, sleepy).await;

    assert_woken_for_each(&recorder.handle(), &kept, async || site.write(&["a"]).await).await;

    relay.stop().await;
}
