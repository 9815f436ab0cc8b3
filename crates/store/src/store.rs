//! The store: opens a database and hands out transactions.

use crate::error::StoreError;
use crate::item::Reading;
use crate::migration;
use crate::options::{Init, StoreOptions};
use crate::render::Keys;
use crate::tx::Tx;
use crate::url::{DatabaseUrl, Dialect, Place};
use crate::wakeup::{Hub, Wakeup};
use crate::{postgres, sqlite};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::outbox::LifecycleEvents;
use tidemill_domain::time::Clock;

/// One database, and this process's connections to it. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    backend: Backend,
    url: DatabaseUrl,
    clock: Option<Arc<dyn Clock>>,
    lifecycle_events: LifecycleEvents,
    render_keys: Keys,
    hub: Hub,
}

enum Backend {
    Postgres(postgres::Postgres),
    Sqlite(sqlite::Sqlite),
}

/// What a transaction is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    Write,
    /// It may stand still for so long.
    Idling(Duration),
    Vital,
    Read,
    /// Each statement may take so long.
    ReadWithin(Duration),
    /// One statement, without a transaction around it.
    Alone,
}

impl Store {
    /// Opens the database at `url` with the defaults, and initialises an embedded one.
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
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let store = Self::open(url.parse()?, &StoreOptions::default()).await?;
        store.initialise(Init::default()).await?;
        Ok(store)
    }

    /// Opens the database without a look at its schema.
    #[crate::boxed]
    pub async fn open(url: DatabaseUrl, options: &StoreOptions) -> Result<Self, StoreError> {
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
                render_keys: options.render_keys.clone(),
                hub: Hub::default(),
            }),
        })
    }

    /// Brings the schema up to date where `init` says so, and refuses one that this program cannot work with.
    #[crate::boxed]
    pub async fn initialise(&self, init: Init) -> Result<(), StoreError> {
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

    /// Begins a transaction that writes. On SQLite it holds the one write lock from here on, so keep files and
    /// networks out of it.
    pub async fn begin(&self) -> Result<Tx, StoreError> {
        self.tx(Mode::Write).await
    }

    /// [`begin`](Self::begin) for work that may stand still for as long as `limit` in the middle, where PostgreSQL would
    /// otherwise take it for frozen and end it.
    pub async fn begin_idling(&self, limit: Duration) -> Result<Tx, StoreError> {
        self.tx(Mode::Idling(limit)).await
    }

    /// [`begin`](Self::begin) for what keeps this process alive: where the database allows it, on a connection
    /// that other work cannot use up.
    pub async fn begin_vital(&self) -> Result<Tx, StoreError> {
        self.tx(Mode::Vital).await
    }

    /// Begins a transaction that only reads, from one snapshot; it stands in no writer's way. (A database in
    /// memory has a single connection: there, end it before the next one begins.)
    pub async fn read(&self) -> Result<Tx, StoreError> {
        self.tx(Mode::Read).await
    }

    /// [`read`](Self::read) for somebody who waits no longer than `limit` for the answer to one statement. PostgreSQL ends it
    /// then; otherwise it would go on for nobody, on a connection that others need.
    pub async fn read_within(&self, limit: Duration) -> Result<Tx, StoreError> {
        self.tx(Mode::ReadWithin(limit)).await
    }

    /// For one statement that is a transaction of its own, which on PostgreSQL saves the two round trips around it. There
    /// the statement has happened as soon as it is answered: neither [`rollback`](Tx::rollback) nor dropping takes it
    /// back, and dropped before its answer, it may or may not have happened. On SQLite, and behind a pooler that works by
    /// transaction, it is [`begin`](Self::begin), and what was not committed is rolled back: so commit it in any case.
    pub async fn alone(&self) -> Result<Tx, StoreError> {
        self.tx(Mode::Alone).await
    }

    /// [`alone`](Self::alone) for a statement that only reads; on SQLite it stands in no writer's way.
    pub async fn alone_reading(&self) -> Result<Tx, StoreError> {
        match &self.inner.backend {
            Backend::Postgres(_) => self.alone().await,
            Backend::Sqlite(_) => self.read().await,
        }
    }

    #[crate::boxed]
    async fn tx(&self, mode: Mode) -> Result<Tx, StoreError> {
        let connection = match (&self.inner.backend, mode) {
            (Backend::Postgres(postgres), mode) => postgres.begin(mode).await?,
            (Backend::Sqlite(sqlite), Mode::Read | Mode::ReadWithin(_)) => sqlite.read().await?,
            (Backend::Sqlite(sqlite), _) => sqlite.begin().await?,
        };
        Ok(Tx::new(self.clone(), connection))
    }

    /// Registers interest in `topic`. Register before looking for work, so that a wake-up which arrives during
    /// the look is not lost.
    pub fn wakeup(&self, topic: &str) -> Wakeup {
        // First, so that whoever makes us listen is woken when that has begun.
        let wakeup = self.inner.hub.subscribe(topic);
        if let Backend::Postgres(postgres) = &self.inner.backend {
            postgres.listen(&self.inner.hub);
        }
        wakeup
    }

    pub fn dialect(&self) -> Dialect {
        self.inner.url.dialect()
    }

    /// Whether several transactions can write at the same time. SQLite has one writer: a transaction that is begun before
    /// it is needed keeps everybody else waiting.
    pub fn has_concurrent_writers(&self) -> bool {
        self.dialect() == Dialect::Postgres
    }

    /// Where it is, without secrets.
    pub fn place(&self) -> String {
        self.inner.url.to_string()
    }

    /// Whether a pooler that works by transaction was found or configured.
    pub fn is_behind_transaction_pooler(&self) -> bool {
        matches!(&self.inner.backend, Backend::Postgres(postgres) if postgres.is_behind_transaction_pooler())
    }

    /// Sends wake-ups that are still on their way and closes all connections.
    pub async fn close(&self) {
        match &self.inner.backend {
            Backend::Postgres(postgres) => postgres.close().await,
            Backend::Sqlite(sqlite) => sqlite.close().await,
        }
    }

    /// What a reader needs for a connection of its own.
    pub(crate) fn reading(&self) -> Reading {
        match (&self.inner.backend, self.inner.url.file()) {
            (Backend::Postgres(postgres), _) => Reading::Postgres(Box::new(postgres.connect_options())),
            (Backend::Sqlite(_), Some(path)) => Reading::SqliteFile(path.to_owned()),
            (Backend::Sqlite(_), None) => Reading::SqliteMemory,
        }
    }

    pub(crate) fn lifecycle_events(&self) -> &LifecycleEvents {
        &self.inner.lifecycle_events
    }

    pub(crate) fn render_keys(&self) -> &Keys {
        &self.inner.render_keys
    }

    pub(crate) fn clock(&self) -> Option<&Arc<dyn Clock>> {
        self.inner.clock.as_ref()
    }

    /// Wakes those who wait for `topics`: here at once, elsewhere by notification.
    pub(crate) fn wake(&self, topics: Vec<String>) {
        for topic in &topics {
            self.inner.hub.wake(topic);
        }
        if let Backend::Postgres(postgres) = &self.inner.backend {
            postgres.notify(topics);
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.inner.url)
    }
}
