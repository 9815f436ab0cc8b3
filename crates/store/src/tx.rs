//! A transaction. Its statements are in `statements/`, one file per noun; the public methods are with their nouns.

use crate::codec::DbTime;
use crate::crash_point;
use crate::error::{Result, StoreError};
use crate::render::Keys;
use crate::statement::dialect::in_dialect;
use crate::statement::{Database, One, statements};
use crate::store::Store;
use sqlx::{SqlSafeStr, SqliteConnection};
use std::ops::{Deref, DerefMut};
use tidemill_domain::alert::notify::Notify;
use tidemill_domain::outbox::LifecycleEvents;
use tidemill_domain::time::Timestamp;

/// Rolls back when dropped without a commit.
#[derive(Debug)]
pub struct Tx {
    store: Store,
    connection: Connection,
    wakes: Vec<String>,
}

#[derive(Debug)]
pub(crate) enum Connection {
    Postgres(crate::postgres::Transaction),
    /// Without a transaction: every statement commits by itself.
    Alone(sqlx::pool::PoolConnection<sqlx::Postgres>),
    Sqlite(sqlx::Transaction<'static, sqlx::Sqlite>),
}

/// The nouns: each is a view of the transaction with its own methods, and dereferences to it.
macro_rules! nouns {
    ($($(#[$doc:meta])* $method:ident: $noun:ident,)+) => {
        impl Tx { $(
            $(#[$doc])*
            pub fn $method(&mut self) -> $noun<'_> {
                $noun(self)
            }
        )+ }

        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $noun<'t>(&'t mut Tx);

            impl Deref for $noun<'_> {
                type Target = Tx;

                fn deref(&self) -> &Tx {
                    self.0
                }
            }

            impl DerefMut for $noun<'_> {
                fn deref_mut(&mut self) -> &mut Tx {
                    self.0
                }
            }
        )+
    };
}

nouns! {
    processes: Processes,
    leases: Leases,
    /// Pools, their tickets and their log.
    pools: Pools,
    /// Jobs, their executions, steps and partitions.
    jobs: Jobs,
    schedules: Schedules,
    /// Events, relays and failed events.
    outbox: Outbox,
    /// The render queue, its workers, profiles and mappings.
    renders: Renders,
    alerts: Alerts,
    audit: Audit,
    /// API tokens and browser sessions.
    tokens: Tokens,
    /// Saved answers of repeated requests.
    idempotency: Idempotency,
    demo: Demo,
}

impl Tx {
    pub(crate) fn new(store: Store, connection: Connection) -> Self {
        Self { store, connection, wakes: Vec::new() }
    }

    /// The time of the database's clock, or of a test's. Read it after the rows that the decision needs are locked.
    pub async fn now(&mut self) -> Result<Timestamp> {
        match self.fake_now() {
            Some(now) => Ok(now),
            None => Ok(self.clock_now().await?.into()),
        }
    }

    /// The time of a test's clock; `None` lets the statement use the database's, which saves a round trip.
    pub(crate) fn fake_now(&self) -> Option<Timestamp> {
        self.store.inner.clock.as_ref().map(|clock| clock.now())
    }

    pub(crate) fn lifecycle_events(&self) -> &LifecycleEvents {
        &self.store.inner.lifecycle_events
    }

    pub(crate) fn render_notify(&self) -> &[Notify] {
        &self.store.inner.render_notify
    }

    pub(crate) fn render_keys(&self) -> Keys {
        self.store.inner.render_keys.clone()
    }

    /// Wakes waiters for `topic` once this transaction has committed.
    pub fn wake(&mut self, topic: &str) {
        if !self.wakes.iter().any(|known| known == topic) {
            self.wakes.push(topic.to_owned());
        }
    }

    pub(crate) fn database(&mut self) -> Database<'_> {
        match &mut self.connection {
            Connection::Postgres(tx) => Database::Postgres(tx),
            Connection::Alone(alone) => Database::Postgres(alone),
            Connection::Sqlite(tx) => Database::Sqlite(tx),
        }
    }

    /// Then sends the wake-ups.
    #[crate::boxed]
    pub async fn commit(self) -> Result<()> {
        crash_point!("before_commit");
        let committed = match self.connection {
            Connection::Postgres(tx) => tx.commit().await,
            Connection::Alone(_) => Ok(()),
            Connection::Sqlite(tx) => tx.commit().await,
        };
        committed.map_err(|error| match StoreError::from(error) {
            StoreError::Unreachable { source, .. } => StoreError::OutcomeUnknown(source),
            other => other,
        })?;
        crash_point!("after_commit");
        if !self.wakes.is_empty() {
            self.store.wake(self.wakes);
        }
        Ok(())
    }

    /// The connection, for your own statements that commit with this transaction; `None` on SQLite. Do not end the
    /// transaction through it.
    pub fn postgres(&mut self) -> Option<&mut sqlx::PgConnection> {
        match self.database() {
            Database::Postgres(connection) => Some(connection),
            Database::Sqlite(_) => None,
        }
    }

    /// The connection, for your own statements that commit with this transaction; `None` on PostgreSQL. Do not end the
    /// transaction through it.
    pub fn sqlite(&mut self) -> Option<&mut sqlx::SqliteConnection> {
        match self.database() {
            Database::Postgres(_) => None,
            Database::Sqlite(connection) => Some(connection),
        }
    }

    /// Marks a point for [`rollback_to_savepoint`](Self::rollback_to_savepoint); a later mark replaces it.
    pub async fn savepoint(&mut self) -> Result<()> {
        self.plain("savepoint tidemill").await
    }

    /// Undoes everything since [`savepoint`](Self::savepoint), also after a failed statement.
    pub async fn rollback_to_savepoint(&mut self) -> Result<()> {
        self.plain("rollback to savepoint tidemill").await
    }

    /// Releases [`savepoint`](Self::savepoint); fails if its transaction has been ended.
    pub(crate) async fn release_savepoint(&mut self) -> Result<()> {
        self.plain("release savepoint tidemill").await
    }

    /// The same for the items of one write. It has another name, because writers set savepoints of their own.
    pub async fn item_savepoint(&mut self) -> Result<()> {
        self.plain("savepoint tidemill_item").await
    }

    /// Keeps everything since [`item_savepoint`](Self::item_savepoint), and marks this point instead, in one round trip.
    pub async fn move_item_savepoint(&mut self) -> Result<()> {
        self.plain("release savepoint tidemill_item; savepoint tidemill_item").await
    }

    pub async fn rollback_to_item_savepoint(&mut self) -> Result<()> {
        self.plain("rollback to savepoint tidemill_item").await
    }

    /// Runs one or more statements without values.
    pub(crate) async fn plain(&mut self, statement: impl SqlSafeStr) -> Result<()> {
        match self.database() {
            Database::Postgres(connection) => sqlx::raw_sql(statement).execute(connection).await.map(drop)?,
            Database::Sqlite(connection) => sqlx::raw_sql(statement).execute(connection).await.map(drop)?,
        }
        Ok(())
    }

    /// Dropping does the same a little later, which is enough for a transaction that only reads.
    #[crate::boxed]
    pub async fn rollback(self) -> Result<()> {
        match self.connection {
            Connection::Postgres(tx) => tx.rollback().await?,
            Connection::Alone(_) => {}
            Connection::Sqlite(tx) => tx.rollback().await?,
        }
        Ok(())
    }
}

statements! {
    /// On PostgreSQL not `now()`, which does not advance within a transaction: the instant must be after the locks were
    /// taken. On SQLite the host's clock, which all processes on this file share, in milliseconds.
    fn clock_now() -> One<DbTime> {
        "select {now}"
    }
}

/// For Rust code inside a statement.
pub(crate) async fn sqlite_now(connection: &mut SqliteConnection) -> Result<DbTime, sqlx::Error> {
    sqlx::query_scalar(in_dialect!(false, "select {now}")).fetch_one(connection).await
}
