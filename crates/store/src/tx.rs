//! A transaction. Its statements are in `statements/`, one file per noun; the public methods are with their nouns.

use crate::crash_point;
use crate::error::StoreError;
use crate::render::Keys;
use crate::statement::Database;
use crate::store::Store;
use sqlx::SqlSafeStr;
use std::ops::{Deref, DerefMut};
use tidemill_domain::outbox::LifecycleEvents;
use tidemill_domain::time::Timestamp;

pub(crate) use crate::statements::job::{ContextColumns, ExitColumns, StatusChange};
pub(crate) use crate::statements::lease::Renewal;
pub(crate) use crate::statements::outbox::failed_event::{EditColumns, FailedEventChange, NewFailedEventRow};
pub(crate) use crate::statements::outbox::reading::{Most, Size, Span};
pub(crate) use crate::statements::render::{AttemptNote, NewLeftover, NewRenderRow, Takeover};

/// A transaction on either database. Dropped without a commit, it rolls back.
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

/// What a transaction can do, by noun. Each type is the transaction as one noun sees it, and dereferences to it.
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
    /// Leases: who may act for what.
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
    /// Answers that are kept for repeated requests.
    idempotency: Idempotency,
    demo: Demo,
}

impl Tx {
    pub(crate) fn new(store: Store, connection: Connection) -> Self {
        Self { store, connection, wakes: Vec::new() }
    }

    /// The instant, by the authority on time: the database's clock, or the fake one of a test. Read it after
    /// the rows that the decision rests on are locked.
    pub async fn now(&mut self) -> Result<Timestamp, StoreError> {
        if let Some(clock) = self.store.clock() {
            return Ok(clock.now());
        }
        Ok(self.clock_now().await?.into())
    }

    /// The instant of the fake clock, in a test; otherwise the statement asks the database, which saves a round
    /// trip where nothing is decided by it.
    pub(crate) fn fake_now(&self) -> Option<Timestamp> {
        self.store.clock().map(|clock| clock.now())
    }

    /// What of our own doings becomes events.
    pub(crate) fn lifecycle_events(&self) -> &LifecycleEvents {
        self.store.lifecycle_events()
    }

    /// The keys under which the data of renders is stored. Cheap to clone.
    pub(crate) fn render_keys(&self) -> Keys {
        self.store.render_keys().clone()
    }

    /// Wakes those who wait for `topic` once this transaction has committed.
    pub fn wake(&mut self, topic: &str) {
        if !self.wakes.iter().any(|known| known == topic) {
            self.wakes.push(topic.to_owned());
        }
    }

    /// Where the statements of this transaction run.
    pub(crate) fn database(&mut self) -> Database<'_> {
        match &mut self.connection {
            Connection::Postgres(tx) => Database::Postgres(tx),
            Connection::Alone(alone) => Database::Postgres(alone),
            Connection::Sqlite(tx) => Database::Sqlite(tx),
        }
    }

    /// Commits, then wakes whom it concerns.
    #[crate::boxed]
    pub async fn commit(self) -> Result<(), StoreError> {
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

    /// The connection, for statements of the author's own that commit with this transaction; none on SQLite. Do not
    /// end the transaction through it.
    pub fn postgres(&mut self) -> Option<&mut sqlx::PgConnection> {
        match self.database() {
            Database::Postgres(connection) => Some(connection),
            Database::Sqlite(_) => None,
        }
    }

    /// The connection, for statements of the author's own that commit with this transaction; none on PostgreSQL. Do
    /// not end the transaction through it.
    pub fn sqlite(&mut self) -> Option<&mut sqlx::SqliteConnection> {
        match self.database() {
            Database::Postgres(_) => None,
            Database::Sqlite(connection) => Some(connection),
        }
    }

    /// Marks a point that [`rollback_to_savepoint`](Self::rollback_to_savepoint) goes back to; a later mark replaces
    /// it.
    pub async fn savepoint(&mut self) -> Result<(), StoreError> {
        self.plain("savepoint tidemill").await
    }

    /// Undoes what was done since [`savepoint`](Self::savepoint), also after a statement failed.
    pub async fn rollback_to_savepoint(&mut self) -> Result<(), StoreError> {
        self.plain("rollback to savepoint tidemill").await
    }

    /// Forgets [`savepoint`](Self::savepoint); an error when it is gone, because somebody has ended the transaction that
    /// it was in.
    pub(crate) async fn release_savepoint(&mut self) -> Result<(), StoreError> {
        self.plain("release savepoint tidemill").await
    }

    /// Runs statements without values, as many as there are in the text.
    pub(crate) async fn plain(&mut self, statement: impl SqlSafeStr) -> Result<(), StoreError> {
        match self.database() {
            Database::Postgres(connection) => sqlx::raw_sql(statement).execute(connection).await.map(drop)?,
            Database::Sqlite(connection) => sqlx::raw_sql(statement).execute(connection).await.map(drop)?,
        }
        Ok(())
    }

    /// Rolls back. Dropping does the same a little later, which is enough for a transaction that only reads.
    #[crate::boxed]
    pub async fn rollback(self) -> Result<(), StoreError> {
        match self.connection {
            Connection::Postgres(tx) => tx.rollback().await?,
            Connection::Alone(_) => {}
            Connection::Sqlite(tx) => tx.rollback().await?,
        }
        Ok(())
    }
}
