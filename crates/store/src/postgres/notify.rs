//! NOTIFY after commit, coalesced, and the one LISTEN connection of this process.

use crate::postgres::begin::Begin;
use crate::postgres::transaction::Transaction;
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

pub(super) struct Notifier {
    pool: PgPool,
    begin: Begin,
    can_listen: bool,
    pending: Arc<Mutex<BTreeSet<String>>>,
    sending: Arc<tokio::sync::Mutex<()>>,
    listener: OnceLock<JoinHandle<()>>,
}

impl Notifier {
    pub(super) fn new(pool: PgPool, begin: Begin, can_listen: bool) -> Self {
        Self {
            pool,
            begin,
            can_listen,
            pending: Arc::default(),
            sending: Arc::default(),
            listener: OnceLock::new(),
        }
    }

    /// Sends soon, in the background. Topics that arrive while a notification is under way go with the next one, so a
    /// thousand commits cost a few notifications.
    pub(super) fn notify(&self, topics: Vec<String>) {
        let was_empty = {
            let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            let was_empty = pending.is_empty();
            pending.extend(topics);
            was_empty
        };
        if was_empty {
            let (pool, pending, sending) = (self.pool.clone(), self.pending.clone(), self.sending.clone());
            let begin = self.begin.clone();
            tokio::spawn(async move { send(&pool, &begin, &pending, &sending).await });
        }
    }

    /// Waits until everything has been sent.
    pub(super) async fn flush(&self) {
        send(&self.pool, &self.begin, &self.pending, &self.sending).await;
        if let Some(listener) = self.listener.get() {
            listener.abort();
        }
    }

    /// Starts to listen, once. Not behind a transaction pooler, where LISTEN does not work, and not with a budget of
    /// one connection, which the listener would use up.
    pub(super) fn listen(&self, hub: &Hub) {
        if !self.can_listen {
            return;
        }
        self.listener.get_or_init(|| tokio::spawn(listen(self.pool.clone(), hub.clone())));
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        if let Some(listener) = self.listener.get() {
            listener.abort();
        }
    }
}

async fn send(
    pool: &PgPool,
    begin: &Begin,
    pending: &Mutex<BTreeSet<String>>,
    sending: &tokio::sync::Mutex<()>,
) {
    let _one_at_a_time = sending.lock().await;
    let topics: Vec<String> = {
        let mut pending = pending.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *pending).into_iter().collect()
    };
    if topics.is_empty() {
        return;
    }
    let sent = async {
        // In a transaction, so that behind a transaction pooler the whole statement uses one server process.
        let mut tx = Transaction::begin(pool.acquire().await?, &begin.write, SENT_WITHIN).await?;
        sqlx::query("select pg_notify($1, topic) from unnest($2::text[]) as topic")
            .bind(CHANNEL)
            .bind(&topics)
            .execute(&mut *tx)
            .await?;
        tx.commit().await
    };
    let sent: Result<(), sqlx::Error> = sent.await;
    if let Err(error) = sent {
        tracing::debug!(%error, "a wake-up was not sent; polling will find the work");
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
