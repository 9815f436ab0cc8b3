//! The store: opens a database and begins transactions.

use crate::error::Result;
use crate::options::{Init, StoreOptions};
use crate::render::Keys;
use crate::tx::Tx;
use crate::url::{DatabaseUrl, Dialect, Place};
use crate::wakeup::{Hub, Wakeup};
use crate::{migration, postgres, sqlite};
use sqlx::postgres::PgConnectOptions;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::alert::notify::Notify;
use tidemill_domain::audit::Actor;
use tidemill_domain::outbox::LifecycleEvents;
use tidemill_domain::time::Clock;

/// One database, and this process's connections to it. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    backend: Backend,
    pub(crate) url: DatabaseUrl,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) lifecycle_events: LifecycleEvents,
    pub(crate) render_notify: Vec<Notify>,
    pub(crate) render_keys: Keys,
    hub: Hub,
}

enum Backend {
    Postgres(postgres::Postgres),
    Sqlite(sqlite::Sqlite),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    Write,
    /// May be idle for this long.
    Idling(Duration),
    Vital,
    Read,
    /// Statement timeout.
    ReadWithin(Duration),
    /// One statement, without a transaction around it.
    Alone,
}

impl Store {
    /// Opens the database at `url` with the defaults, and initialises an SQLite one.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let store = tidemill_store::Store::connect("sqlite::memory:").await.unwrap();
    /// let mut tx = store.begin().await.unwrap();
    /// let now = tx.now().await.unwrap();
    /// tx.commit().await.unwrap();
    /// assert!(now.as_micros() > 0);
    /// # })
    /// ```
    pub async fn connect(url: &str) -> Result<Self> {
        let store = Self::open(url.parse()?, &StoreOptions::default()).await?;
        store.initialise(Init::default()).await?;
        Ok(store)
    }

    /// Does not read the schema.
    #[crate::boxed]
    pub async fn open(url: DatabaseUrl, options: &StoreOptions) -> Result<Self> {
        let backend = match &url.place {
            Place::Postgres(connect) => {
                Backend::Postgres(postgres::Postgres::open(connect, &url.to_string(), options).await?)
            }
            Place::SqliteFile(path) => Backend::Sqlite(sqlite::Sqlite::open_file(path, options).await?),
            Place::SqliteMemory => Backend::Sqlite(sqlite::Sqlite::open_memory(options).await?),
        };
        Ok(Self {
            inner: Arc::new(Inner {
                backend,
                url,
                clock: options.clock.clone(),
                lifecycle_events: options.lifecycle_events.clone(),
                render_notify: options.render_notify.clone(),
                render_keys: options.render_keys.clone(),
                hub: Hub::default(),
            }),
        })
    }

    /// Upgrades the schema where `init` says so, and refuses one that this program cannot use.
    #[crate::boxed]
    pub async fn initialise(&self, init: Init) -> Result<()> {
        let automatic = match init {
            Init::Always => true,
            Init::Embedded => self.dialect() == Dialect::Sqlite,
            Init::Never => false,
        };
        if automatic {
            self.migrate(&Actor::system(), |_| {}).await?;
        }
        let status = self.migration_status().await?;
        migration::usable(&status)
    }

    /// Begins a transaction that writes. On SQLite it holds the one write lock, so do no file or network I/O in it.
    pub async fn begin(&self) -> Result<Tx> {
        self.tx(Mode::Write).await
    }

    /// [`begin`](Self::begin) for work that may be idle for up to `limit`, where PostgreSQL would end the transaction.
    pub async fn begin_idling(&self, limit: Duration) -> Result<Tx> {
        self.tx(Mode::Idling(limit)).await
    }

    /// [`begin`](Self::begin) for heartbeats: if the budget allows it, on a connection that other work cannot use up.
    pub async fn begin_vital(&self) -> Result<Tx> {
        self.tx(Mode::Vital).await
    }

    /// Begins a transaction that only reads, from one snapshot; it never blocks a writer. (A database in memory has a
    /// single connection: there, end it before the next one begins.)
    pub async fn read(&self) -> Result<Tx> {
        self.tx(Mode::Read).await
    }

    /// [`read`](Self::read) with a statement timeout on PostgreSQL: an abandoned query does not keep its connection.
    pub async fn read_within(&self, limit: Duration) -> Result<Tx> {
        self.tx(Mode::ReadWithin(limit)).await
    }

    /// For one statement without a transaction, which on PostgreSQL saves two round trips. There it takes effect as
    /// soon as it is answered: neither [`rollback`](Tx::rollback) nor dropping undoes it, and if it is dropped before
    /// its answer, it may or may not have happened. On SQLite, and behind a transaction pooler, it is
    /// [`begin`](Self::begin): so always commit.
    pub async fn alone(&self) -> Result<Tx> {
        self.tx(Mode::Alone).await
    }

    /// [`alone`](Self::alone) for a statement that only reads; on SQLite it never blocks a writer.
    pub async fn alone_reading(&self) -> Result<Tx> {
        match &self.inner.backend {
            Backend::Postgres(_) => self.alone().await,
            Backend::Sqlite(_) => self.read().await,
        }
    }

    #[crate::boxed]
    async fn tx(&self, mode: Mode) -> Result<Tx> {
        let connection = match (&self.inner.backend, mode) {
            (Backend::Postgres(postgres), mode) => postgres.begin(mode).await?,
            (Backend::Sqlite(sqlite), Mode::Read | Mode::ReadWithin(_)) => sqlite.read().await?,
            (Backend::Sqlite(sqlite), _) => sqlite.begin().await?,
        };
        Ok(Tx::new(self.clone(), connection))
    }

    /// Registers interest in `topic`. Register before you look for work, so that no wake-up in between is lost.
    pub fn wakeup(&self, topic: &str) -> Wakeup {
        // First, so that the start of listening wakes this one too.
        let wakeup = self.inner.hub.subscribe(topic);
        if let Backend::Postgres(postgres) = &self.inner.backend {
            postgres.notifier.listen(&self.inner.hub);
        }
        wakeup
    }

    pub fn dialect(&self) -> Dialect {
        self.inner.url.dialect()
    }

    /// Whether several transactions can write at once. On SQLite, one that begins too early blocks all others.
    pub fn has_concurrent_writers(&self) -> bool {
        self.dialect() == Dialect::Postgres
    }

    /// Without secrets.
    pub fn place(&self) -> String {
        self.inner.url.to_string()
    }

    pub fn is_behind_transaction_pooler(&self) -> bool {
        matches!(&self.inner.backend, Backend::Postgres(postgres) if postgres.is_behind_transaction_pooler())
    }

    /// Sends pending wake-ups.
    #[crate::boxed]
    pub async fn flush(&self) {
        if let Backend::Postgres(postgres) = &self.inner.backend {
            postgres.notifier.send_pending().await;
        }
    }

    /// Sends pending wake-ups and closes all connections.
    pub async fn close(&self) {
        match &self.inner.backend {
            Backend::Postgres(postgres) => postgres.close().await,
            Backend::Sqlite(sqlite) => sqlite.close().await,
        }
    }

    /// For connections beside the pool, password included; `None` on SQLite.
    pub(crate) fn postgres_options(&self) -> Option<PgConnectOptions> {
        match &self.inner.backend {
            Backend::Postgres(postgres) => Some(postgres.connect_options()),
            Backend::Sqlite(_) => None,
        }
    }

    /// Wakes waiters: here at once, in other processes by notification.
    pub(crate) fn wake(&self, topics: Vec<String>) {
        for topic in &topics {
            self.inner.hub.wake(topic);
        }
        if let Backend::Postgres(postgres) = &self.inner.backend {
            postgres.notifier.notify(topics);
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.inner.url)
    }
}
