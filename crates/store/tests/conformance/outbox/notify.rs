//! The trigger that wakes relays.

use super::write;
use crate::Bench;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_store::audit::AuditFilter;
use tidemill_store::outbox::{Notify, NotifyError};
use tidemill_store::wakeup::{Wakeup, Woken};

const SOON: Duration = Duration::from_secs(120);

/// Whether those who wait for events have been called by now. Notifications come in the order of their commits, so
/// with the arrival of a later one all earlier ones have arrived.
async fn is_called(bench: &Bench, wakeup: &mut Wakeup) -> bool {
    let mut later = bench.store.wakeup("later");
    let mut tx = bench.begin().await;
    let connection = tx.postgres().unwrap();
    sqlx::query("select pg_notify('tidemill', 'later')").execute(connection).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(later.wait(SOON).await, Woken::Called);
    wakeup.wait(Duration::ZERO).await == Woken::Called
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_trigger_what_others_write_wakes_relays() {
    let Some(bench) = Bench::postgres().await else { return };
    let mut wakeup = bench.store.wakeup("outbox");
    // Whoever begins to listen is woken once.
    assert_eq!(wakeup.wait(SOON).await, Woken::Called);
    write(&bench.store, "a", bench.now()).await;
    assert!(!is_called(&bench, &mut wakeup).await);

    let mut tx = bench.begin().await;
    assert_eq!(tx.outbox().notify().await.unwrap(), Some(false));
    assert!(tx.outbox().set_notify(Notify::On, &Actor::system()).await.unwrap());
    assert!(!tx.outbox().set_notify(Notify::On, &Actor::system()).await.unwrap());
    tx.commit().await.unwrap();
    write(&bench.store, "a", bench.now()).await;
    assert!(is_called(&bench, &mut wakeup).await);

    let mut tx = bench.begin().await;
    assert_eq!(tx.outbox().notify().await.unwrap(), Some(true));
    assert!(tx.outbox().set_notify(Notify::Off, &Actor::system()).await.unwrap());
    tx.commit().await.unwrap();
    write(&bench.store, "a", bench.now()).await;
    assert!(!is_called(&bench, &mut wakeup).await);

    let filter = AuditFilter { action: Some("outbox.notify".into()), ..AuditFilter::default() };
    let entries = bench.begin().await.audit().entries(&filter, 10).await.unwrap();
    let told: Vec<_> = entries.iter().map(|record| record.entry.to.as_deref().unwrap()).collect();
    assert_eq!(told, ["off", "on"]);
}

#[tokio::test]
async fn without_notifications_the_trigger_is_refused() {
    let bench = Bench::sqlite().await;
    let mut tx = bench.begin().await;

    let refused = tx.outbox().set_notify(Notify::On, &Actor::system()).await;

    assert!(matches!(refused, Err(NotifyError::Unsupported)));
    assert_eq!(tx.outbox().notify().await.unwrap(), None);
}
