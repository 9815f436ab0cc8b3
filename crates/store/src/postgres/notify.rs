//! NOTIFY after commit, coalesced, and the one LISTEN connection of this process.

use crate::postgres::begin::Begin;
use crate::postgres::transaction::{OnCancel, Transaction};
use crate::wakeup::Hub;
use sqlx::PgPool;
use sqlx::postgres::PgListener;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tidemill_domain::backoff::Backoff;
use tokio::task::JoinHandle;

/// All topics share one channel; the payload is the topic.
const CHANNEL: &str = "tidemill";

/// Timeout of one notification.
const SENT_WITHIN: Duration = Duration::from_secs(10);

pub(crate) struct Notifier {
    queue: Arc<Queue>,
    can_listen: bool,
    listener: OnceLock<JoinHandle<()>>,
}

struct Queue {
    pool: PgPool,
    begin: Begin,
    pending: Mutex<BTreeSet<String>>,
    /// One notification at a time.
    sending: tokio::sync::Mutex<()>,
}

impl Notifier {
    pub(super) fn new(pool: PgPool, begin: Begin, can_listen: bool) -> Self {
        let queue = Queue { pool, begin, pending: Mutex::default(), sending: tokio::sync::Mutex::default() };
        Self { queue: Arc::new(queue), can_listen, listener: OnceLock::new() }
    }

    /// Sends soon, in the background. Topics that arrive meanwhile share the next notification.
    pub(crate) fn notify(&self, topics: Vec<String>) {
        let mut pending = self.queue.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = pending.is_empty();
        pending.extend(topics);
        drop(pending);
        if was_empty {
            let queue = self.queue.clone();
            tokio::spawn(async move { queue.send().await });
        }
    }

    pub(crate) async fn send_pending(&self) {
        self.queue.send().await;
    }

    /// Waits until everything has been sent, and stops listening.
    pub(super) async fn flush(&self) {
        self.send_pending().await;
        if let Some(listener) = self.listener.get() {
            listener.abort();
        }
    }

    /// Starts to listen, once. Not behind a transaction pooler, and not with one connection, which this would use up.
    pub(crate) fn listen(&self, hub: &Hub) {
        if self.can_listen {
            self.listener.get_or_init(|| tokio::spawn(listen(self.queue.pool.clone(), hub.clone())));
        }
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        if let Some(listener) = self.listener.get() {
            listener.abort();
        }
    }
}

impl Queue {
    async fn send(&self) {
        let _one_at_a_time = self.sending.lock().await;
        let topics = std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        if topics.is_empty() {
            return;
        }
        if let Err(error) = self.notify(topics.into_iter().collect()).await {
            tracing::debug!(%error, "a wake-up was not sent; polling will find the work");
        }
    }

    /// In a transaction, so that behind a transaction pooler the whole statement uses one server process.
    async fn notify(&self, topics: Vec<String>) -> Result<(), sqlx::Error> {
        let connection = self.pool.acquire().await?;
        let on_cancel = OnCancel::RollBack;
        let mut tx = Transaction::begin(connection, &self.begin.write, SENT_WITHIN, on_cancel).await?;
        sqlx::query("select pg_notify($1, topic) from unnest($2::text[]) as topic")
            .bind(CHANNEL)
            .bind(topics)
            .execute(&mut *tx)
            .await?;
        tx.commit().await
    }
}

async fn listen(pool: PgPool, hub: Hub) {
    let Ok(backoff) = Backoff::new(Duration::from_millis(200), 2.0, Duration::from_secs(10), 0.0) else {
        return;
    };
    let mut failures = 0;
    loop {
        match listen_once(&pool, &hub).await {
            ListenEnd::PoolClosed => return,
            ListenEnd::Lost => failures = 1,
            ListenEnd::NotConnected(error) => {
                failures += 1;
                tracing::warn!(%error, "cannot listen for wake-ups; polling goes on");
            }
        }
        tokio::time::sleep(backoff.delay(failures, 0.0)).await;
    }
}

enum ListenEnd {
    PoolClosed,
    Lost,
    NotConnected(sqlx::Error),
}

/// Until the connection is lost.
async fn listen_once(pool: &PgPool, hub: &Hub) -> ListenEnd {
    let mut listener = match PgListener::connect_with(pool).await {
        Ok(listener) => listener,
        Err(sqlx::Error::PoolClosed) => return ListenEnd::PoolClosed,
        Err(error) => return ListenEnd::NotConnected(error),
    };
    if let Err(error) = listener.listen(CHANNEL).await {
        return ListenEnd::NotConnected(error);
    }
    // Notifications sent before we listened are lost, so wake everything once.
    hub.wake_all();
    loop {
        match listener.try_recv().await {
            Ok(Some(notification)) => hub.wake(notification.payload()),
            Ok(None) | Err(_) => return ListenEnd::Lost,
        }
    }
}
