//! Connecting to PostgreSQL: checks, pooler detection, and how transactions begin.

use crate::error::{Result, StoreError};
use crate::options::{Pooler, StoreOptions};
use crate::postgres::begin::Begin;
use crate::postgres::nodelay::send_small_packets_at_once;
use crate::postgres::notify::Notifier;
use crate::postgres::transaction::{OnCancel, Transaction};
use crate::store::Mode;
use crate::tx::Connection;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection as _, PgConnection, PgPool, Row};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const OLDEST_MAJOR: i32 = 14;

/// How often to check whether backends are shared before the answer is "no".
const LOOKS: u32 = 8;

#[derive(Clone)]
pub(crate) struct Postgres {
    pool: PgPool,
    /// For heartbeats: a connection that other work cannot use up.
    vital: PgPool,
    place: Arc<str>,
    begin: Begin,
    connect_timeout: Duration,
    pub(crate) notifier: Arc<Notifier>,
}

impl Postgres {
    pub(crate) async fn open(
        connect: &PgConnectOptions,
        place: &str,
        options: &StoreOptions,
    ) -> Result<Self> {
        // The default sets a parameter that poolers refuse and that has no effect any more.
        let mut connect = connect.clone().extra_float_digits(None).disable_statement_logging();
        if let Some(password) = &options.password {
            connect = connect.password(password);
        }
        let mut first = single(&connect, place, options.connect_timeout).await?;
        check_server(&mut first, place).await?;
        let pooled_by_transaction = match options.pooler {
            Pooler::Session => false,
            Pooler::Transaction => true,
            // Detection takes a second connection, which a budget of one does not allow.
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
        let begin = Begin::new(pooled_by_transaction, options);
        // A separate connection for heartbeats, where the budget allows it.
        let is_split = options.max_connections >= 3;
        let pool = pool(options.max_connections - u32::from(is_split), &begin, options, connect.clone());
        let vital = if is_split { self::pool(1, &begin, options, connect) } else { pool.clone() };
        let can_listen = !pooled_by_transaction && options.max_connections >= 2;
        let notifier = Arc::new(Notifier::new(pool.clone(), begin.clone(), can_listen));
        let connect_timeout = options.connect_timeout;
        Ok(Self { pool, vital, place: place.into(), begin, connect_timeout, notifier })
    }

    pub(crate) async fn begin(&self, mode: Mode) -> Result<Connection> {
        let begin = &self.begin;
        match mode {
            Mode::Alone if begin.is_pooled_by_transaction => self.begin_on(&self.pool, &begin.write).await,
            // The statement finds out if it died in the pool.
            Mode::Alone => self.acquire(&self.pool).await.map(Connection::Alone),
            Mode::Write => self.begin_on(&self.pool, &begin.write).await,
            Mode::Idling(limit) => self.begin_on(&self.pool, &begin.idling(limit)).await,
            Mode::Vital => self.begin_on(&self.vital, &begin.write).await,
            Mode::Read => self.begin_on(&self.pool, &begin.read).await,
            Mode::ReadWithin(limit) => self.begin_on(&self.pool, &begin.reading_within(limit)).await,
        }
    }

    /// Begins a transaction. Replaces connections that died in the pool, which is safe because nothing was done yet.
    /// Cancelling leaves neither a place in the pool's queue nor an open transaction.
    async fn begin_on(&self, pool: &PgPool, statement: &Arc<str>) -> Result<Connection> {
        let limit = self.connect_timeout * 2;
        let is_vital = std::ptr::eq(pool, &self.vital);
        let on_cancel = if is_vital { OnCancel::Close } else { OnCancel::RollBack };
        let mut last = sqlx::Error::PoolClosed;
        for _ in 0..=pool.options().get_max_connections() {
            // Ask before: the dead connection found below may be the last one.
            let may_be_stale = pool.size() > 0;
            let connection = self.acquire(pool).await?;
            match Transaction::begin(connection, statement, limit, on_cancel).await {
                Ok(tx) => return Ok(Connection::Postgres(tx)),
                // A vanished host does not answer the next connection either.
                Err(error) if is_timed_out(&error) => return Err(answer(error, &self.place)),
                Err(error) if may_be_stale && is_broken(&error) => last = error,
                Err(error) => return Err(answer(error, &self.place)),
            }
        }
        Err(answer(last, &self.place))
    }

    /// The pool limits the wait for a free connection, but not for one being opened.
    async fn acquire(&self, pool: &PgPool) -> Result<PoolConnection<sqlx::Postgres>> {
        match tokio::time::timeout(self.connect_timeout * 2, pool.acquire()).await {
            Ok(Ok(connection)) => Ok(connection),
            // There was room for one more connection, so the server did not answer.
            Ok(Err(source @ sqlx::Error::PoolTimedOut))
                if pool.size() < pool.options().get_max_connections() =>
            {
                Err(StoreError::Unreachable { place: self.place.to_string(), source })
            }
            Ok(Err(error)) => Err(answer(error, &self.place)),
            Err(_) => Err(answer(sqlx::Error::Io(ErrorKind::TimedOut.into()), &self.place)),
        }
    }

    pub(crate) fn is_behind_transaction_pooler(&self) -> bool {
        self.begin.is_pooled_by_transaction
    }

    /// Password included.
    pub(crate) fn connect_options(&self) -> PgConnectOptions {
        self.pool.connect_options().as_ref().clone()
    }

    pub(crate) async fn close(&self) {
        self.notifier.flush().await;
        self.vital.close().await;
        self.pool.close().await;
    }
}

fn pool(size: u32, begin: &Begin, options: &StoreOptions, connect: PgConnectOptions) -> PgPool {
    let settings = begin.session.clone();
    PgPoolOptions::new()
        .max_connections(size)
        .acquire_timeout(options.connect_timeout)
        // A ping before each use halves the throughput; `begin` copes with dead connections instead.
        .test_before_acquire(false)
        .after_connect(move |connection, _| {
            let settings = settings.clone();
            Box::pin(async move {
                if let Some(settings) = settings {
                    sqlx::raw_sql(AssertSqlSafe(settings)).execute(&mut *connection).await?;
                }
                send_small_packets_at_once(connection).await
            })
        })
        .connect_lazy_with(connect)
}

async fn single(connect: &PgConnectOptions, place: &str, limit: Duration) -> Result<PgConnection> {
    match tokio::time::timeout(limit, connect.connect()).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => Err(answer(error, place)),
        Err(_) => Err(StoreError::Unreachable { place: place.to_owned(), source: sqlx::Error::PoolTimedOut }),
    }
}

/// Refuses a server that is too old, or a standby: it is read-only, and its data may be stale.
async fn check_server(connection: &mut PgConnection, place: &str) -> Result<()> {
    let row = sqlx::raw_sql(
        "select current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery()",
    )
    .fetch_one(connection)
    .await
    .map_err(|error| answer(error, place))?;
    if !is_supported(row.try_get(0)?) {
        return Err(StoreError::ServerTooOld { found: row.try_get(1)? });
    }
    if row.try_get(2)? {
        return Err(StoreError::ServerInRecovery);
    }
    Ok(())
}

/// The version is major × 10,000 + minor.
fn is_supported(version_number: i32) -> bool {
    version_number / 10_000 >= OLDEST_MAJOR
}

/// Whether two clients share a server process, as behind a transaction pooler. Only a "yes" is certain.
async fn shares_backends(first: &mut PgConnection, connect: &PgConnectOptions, limit: Duration) -> bool {
    let meet = async {
        let before = backend(first).await?;
        let mut second = connect.connect().await?;
        let other = backend_in_transaction(&mut second).await?;
        Ok::<_, sqlx::Error>((before, second, other))
    };
    // A session pooler with a single server connection lets the second client wait: that is not a "yes".
    let met = tokio::time::timeout(limit, meet).await;
    let Ok(Ok((before, mut second, mut other))) = met else { return false };
    let look = async {
        // A busy pooler may by chance lend the first client the same backend twice, so check several times.
        for _ in 0..LOOKS {
            if other == before || backend(first).await? != before {
                return Ok(true);
            }
            sqlx::raw_sql("rollback").execute(&mut second).await?;
            // An idle pooler lends what was returned last: the second client's.
            if backend(first).await? != before {
                return Ok(true);
            }
            other = backend_in_transaction(&mut second).await?;
        }
        Ok::<bool, sqlx::Error>(false)
    };
    let is_shared = matches!(tokio::time::timeout(limit, look).await, Ok(Ok(true)));
    if second.close().await.is_err() {
        tracing::debug!("the second connection did not close in order");
    }
    is_shared
}

async fn backend(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql("select pg_backend_pid()").fetch_one(connection).await?.try_get(0)
}

/// Keeps its server process busy, so that a pooler has to find another for other clients.
async fn backend_in_transaction(connection: &mut PgConnection) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql("begin; select pg_backend_pid()").fetch_one(connection).await?.try_get(0)
}

fn is_timed_out(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(error) if error.kind() == ErrorKind::TimedOut)
}

/// Whether the connection, not the statement, failed.
fn is_broken(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) => true,
        sqlx::Error::Database(answer) => answer.code().is_some_and(|code| {
            matches!(&*code, "25P03" | "57P01" | "57P02" | "57P05") || code.starts_with("08")
        }),
        _ => false,
    }
}

fn answer(error: sqlx::Error, place: &str) -> StoreError {
    let place = place.to_owned();
    match &error {
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) => {
            StoreError::Unreachable { place, source: error }
        }
        sqlx::Error::Database(reply) => match reply.code().as_deref() {
            Some("28P01" | "28000") => StoreError::LoginRefused { place, source: error },
            // A standby's answer to a transaction that writes.
            Some("0A000" | "25006") => StoreError::ServerInRecovery,
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
