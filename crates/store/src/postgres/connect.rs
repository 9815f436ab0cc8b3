//! Connecting to PostgreSQL: what is checked, what a pooler changes, how transactions begin.

use crate::error::StoreError;
use crate::options::{Pooler, StoreOptions};
use crate::postgres::notify::Notifier;
use crate::tx::Connection;
use crate::wakeup::Hub;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection as _, PgConnection, PgPool, Row};
use std::sync::Arc;
use std::time::Duration;

/// Oldest major version that we support.
pub(crate) const OLDEST_MAJOR: i32 = 14;

#[derive(Clone)]
pub(crate) struct Postgres {
    pool: PgPool,
    place: Arc<str>,
    pooled_by_transaction: bool,
    notifier: Arc<Notifier>,
}

impl Postgres {
    pub(crate) async fn open(
        connect: &PgConnectOptions,
        place: &str,
        options: &StoreOptions,
    ) -> Result<Self, StoreError> {
        // The default asks for a setting that poolers refuse, and that no longer changes anything.
        let mut connect = connect.clone().extra_float_digits(None).disable_statement_logging();
        if let Some(password) = &options.password {
            connect = connect.password(password);
        }
        let mut first = single(&connect, place, options.connect_timeout).await?;
        check_version(&mut first, place).await?;
        check_primary(&mut first).await.map_err(|error| answer(error, place))?;
        let pooled_by_transaction = match options.pooler {
            Pooler::Session => false,
            Pooler::Transaction => true,
            // Finding out takes a second connection, which a budget of one does not allow.
            Pooler::Auto if options.max_connections < 2 => false,
            Pooler::Auto => shares_backends(&mut first, &connect, options.connect_timeout).await,
        };
        if first.close().await.is_err() {
            tracing::debug!("the first connection to {place} did not close in order");
        }
        if pooled_by_transaction {
            tracing::warn!(
                "{place} is behind a transaction pooler: wake-ups fall back to polling and statements are not cached; \
                 connect directly or through a session pooler for lower latency"
            );
            connect = connect.statement_cache_capacity(0);
        }
        let pool = PgPoolOptions::new()
            .max_connections(options.max_connections)
            .acquire_timeout(options.connect_timeout)
            // A ping before each use halves the throughput; `begin` copes with a dead connection instead.
            .test_before_acquire(false)
            .after_connect(|connection, _| Box::pin(check_primary(connection)))
            .connect_lazy_with(connect);
        let notifier = Arc::new(Notifier::new(pool.clone(), pooled_by_transaction));
        Ok(Self { pool, place: place.into(), pooled_by_transaction, notifier })
    }

    /// Begins a transaction. Connections that died in the pool are found here, where nothing has been done
    /// yet, and replaced.
    pub(crate) async fn begin(&self) -> Result<Connection, StoreError> {
        let attempts = self.pool.options().get_max_connections().saturating_add(1);
        let mut last = sqlx::Error::PoolClosed;
        for _ in 0..attempts {
            match self.pool.begin_with(self.begin_statement()).await {
                Ok(tx) => return Ok(Connection::Postgres(tx)),
                Err(error) if is_broken(&error) && self.pool.size() > 0 => last = error,
                // There was room for one more connection, so it is the server that did not answer.
                Err(source @ sqlx::Error::PoolTimedOut) if self.pool.size() < attempts - 1 => {
                    return Err(StoreError::Unreachable { place: self.place.to_string(), source });
                }
                Err(error) => return Err(answer(error, &self.place)),
            }
        }
        Err(answer(last, &self.place))
    }

    /// A transaction pooler hands us a server connection that may hold statements of other clients under the
    /// names that our driver is about to use.
    fn begin_statement(&self) -> &'static str {
        if self.pooled_by_transaction { "begin; deallocate all" } else { "begin" }
    }

    pub(crate) fn is_behind_transaction_pooler(&self) -> bool {
        self.pooled_by_transaction
    }

    pub(crate) fn listen(&self, hub: &Hub) {
        self.notifier.listen(hub);
    }

    pub(crate) fn notify(&self, topics: Vec<String>) {
        self.notifier.notify(topics);
    }

    pub(crate) async fn close(&self) {
        self.notifier.flush().await;
        self.pool.close().await;
    }
}

async fn single(
    connect: &PgConnectOptions,
    place: &str,
    limit: Duration,
) -> Result<PgConnection, StoreError> {
    match tokio::time::timeout(limit, connect.connect()).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => Err(answer(error, place)),
        Err(_) => Err(StoreError::Unreachable { place: place.to_owned(), source: sqlx::Error::PoolTimedOut }),
    }
}

async fn check_version(connection: &mut PgConnection, place: &str) -> Result<(), StoreError> {
    let row =
        sqlx::raw_sql("select current_setting('server_version_num')::int, current_setting('server_version')")
            .fetch_one(connection)
            .await
            .map_err(|error| answer(error, place))?;
    let number: i32 = row.try_get(0)?;
    if !is_supported(number) {
        return Err(StoreError::ServerTooOld { found: row.try_get(1)? });
    }
    Ok(())
}

/// The server tells its version as major × 10,000 + minor.
fn is_supported(version_number: i32) -> bool {
    version_number / 10_000 >= OLDEST_MAJOR
}

/// Refuses a standby; also for each new connection of the pool, because a fail-over may move the address.
async fn check_primary(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let row = sqlx::raw_sql("select pg_is_in_recovery()").fetch_one(connection).await?;
    if row.try_get::<bool, _>(0)? {
        return Err(sqlx::Error::Configuration(Box::new(InRecovery)));
    }
    Ok(())
}

#[derive(Debug, thiserror::Error)]
#[error("the server is in recovery")]
struct InRecovery;

/// Whether two clients are given the same server process: the mark of a pooler that works by transaction. A
/// "yes" is certain; a pooler that answers "no" here is treated like none.
async fn shares_backends(first: &mut PgConnection, connect: &PgConnectOptions, limit: Duration) -> bool {
    let look = async {
        let before = backend(first).await?;
        let mut second = connect.connect().await?;
        sqlx::raw_sql("begin").execute(&mut second).await?;
        let other = backend(&mut second).await?;
        let after = backend(first).await?;
        sqlx::raw_sql("rollback").execute(&mut second).await?;
        second.close().await?;
        Ok::<bool, sqlx::Error>(before == other || before != after)
    };
    // A session pooler with a single server connection lets the second client wait: then it is no "yes".
    matches!(tokio::time::timeout(limit.min(Duration::from_secs(1)), look).await, Ok(Ok(true)))
}

async fn backend(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql("select pg_backend_pid()").fetch_one(connection).await?.try_get(0)
}

/// Whether the connection, rather than the statement, is at fault.
fn is_broken(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) => true,
        sqlx::Error::Database(answer) => {
            answer.code().is_some_and(|code| matches!(&*code, "57P01" | "57P02") || code.starts_with("08"))
        }
        _ => false,
    }
}

/// Names an error of connecting.
fn answer(error: sqlx::Error, place: &str) -> StoreError {
    let place = place.to_owned();
    match &error {
        sqlx::Error::Configuration(inner) if inner.is::<InRecovery>() => StoreError::ServerInRecovery,
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) => {
            StoreError::Unreachable { place, source: error }
        }
        sqlx::Error::Database(reply) => match reply.code().as_deref() {
            Some("28P01" | "28000") => StoreError::LoginRefused { place, source: error },
            // The database does not exist, or the server is starting up or shutting down.
            Some("3D000" | "57P01" | "57P02" | "57P03") => StoreError::Unreachable { place, source: error },
            _ => error.into(),
        },
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_supported_version_is_fourteen() {
        assert!(!is_supported(90_624) && !is_supported(130_020));
        assert!(is_supported(140_000) && is_supported(150_018) && is_supported(180_001));
    }
}
