//! Connecting to PostgreSQL: what is checked, what a pooler changes, how transactions begin.

use crate::error::StoreError;
use crate::options::{Pooler, StoreOptions};
use crate::postgres::notify::Notifier;
use crate::tx::Connection;
use crate::wakeup::Hub;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection as _, PgConnection, PgPool, Row};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Oldest major version that we support.
pub(crate) const OLDEST_MAJOR: i32 = 14;

/// How often to look whether backends are shared, before the answer is "no".
const LOOKS: u32 = 8;

#[derive(Clone)]
pub(crate) struct Postgres {
    pool: PgPool,
    place: Arc<str>,
    pooled_by_transaction: bool,
    /// Whether the newest connection was to a standby: the pool itself only says that it got none.
    is_in_recovery: Arc<AtomicBool>,
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
        let is_in_recovery = Arc::new(AtomicBool::new(false));
        let seen = is_in_recovery.clone();
        let pool = PgPoolOptions::new()
            .max_connections(options.max_connections)
            .acquire_timeout(options.connect_timeout)
            // A ping before each use halves the throughput; `begin` copes with a dead connection instead.
            .test_before_acquire(false)
            .after_connect(move |connection, _| {
                let seen = seen.clone();
                Box::pin(async move {
                    let checked = check_primary(connection).await;
                    seen.store(checked.as_ref().is_err_and(is_recovery), Ordering::Relaxed);
                    checked
                })
            })
            .connect_lazy_with(connect);
        let notifier = Arc::new(Notifier::new(pool.clone(), pooled_by_transaction));
        Ok(Self { pool, place: place.into(), pooled_by_transaction, is_in_recovery, notifier })
    }

    /// Begins a transaction. Connections that died in the pool are found here, where nothing has been done
    /// yet, and replaced.
    pub(crate) async fn begin(&self) -> Result<Connection, StoreError> {
        let attempts = self.pool.options().get_max_connections().saturating_add(1);
        let mut last = sqlx::Error::PoolClosed;
        for _ in 0..attempts {
            // Asked before: the dead connection that is found below may have been the last one.
            let may_be_stale = self.pool.size() > 0;
            match self.pool.begin_with(begin_statement(self.pooled_by_transaction)).await {
                Ok(tx) => return Ok(Connection::Postgres(tx)),
                Err(error) if may_be_stale && is_broken(&error) => last = error,
                Err(sqlx::Error::PoolTimedOut) if self.is_in_recovery.load(Ordering::Relaxed) => {
                    return Err(StoreError::ServerInRecovery);
                }
                // There was room for one more connection, so it is the server that did not answer.
                Err(source @ sqlx::Error::PoolTimedOut) if self.pool.size() < attempts - 1 => {
                    return Err(StoreError::Unreachable { place: self.place.to_string(), source });
                }
                Err(error) => return Err(answer(error, &self.place)),
            }
        }
        Err(answer(last, &self.place))
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

/// A transaction pooler hands us a server connection that may hold statements of other clients under the names
/// that our driver is about to use.
pub(super) fn begin_statement(pooled_by_transaction: bool) -> &'static str {
    if pooled_by_transaction { "begin; deallocate all" } else { "begin" }
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

fn is_recovery(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Configuration(inner) if inner.is::<InRecovery>())
}

/// Whether two clients are given the same server process: the mark of a pooler that works by transaction. A
/// "yes" is certain; a pooler that answers "no" here is treated like none.
async fn shares_backends(first: &mut PgConnection, connect: &PgConnectOptions, limit: Duration) -> bool {
    let look = async {
        let mut second = connect.connect().await?;
        let before = backend(first).await?;
        let mut is_shared = false;
        // A busy pooler may by chance lend the first client the same backend twice, so one look is not enough.
        for _ in 0..LOOKS {
            let other = backend_in_new_transaction(&mut second).await?;
            is_shared = other == before || backend(first).await? != before;
            if is_shared {
                break;
            }
        }
        second.close().await?;
        Ok::<bool, sqlx::Error>(is_shared)
    };
    // A session pooler with a single server connection lets the second client wait: then it is no "yes".
    matches!(tokio::time::timeout(limit.min(Duration::from_secs(1)), look).await, Ok(Ok(true)))
}

async fn backend(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql("select pg_backend_pid()").fetch_one(connection).await?.try_get(0)
}

/// Keeps its server process busy until the next call, so that the pooler has to find another for everybody else.
async fn backend_in_new_transaction(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql("rollback; begin; select pg_backend_pid()").fetch_one(connection).await?.try_get(0)
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
        error if is_recovery(error) => StoreError::ServerInRecovery,
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
