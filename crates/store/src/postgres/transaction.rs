//! A transaction on a pooled connection that cancellation never leaves open.
//!
//! sqlx sends no ROLLBACK when a BEGIN is dropped before its answer, or when BEGIN fails half-way: the connection would
//! return to the pool with an open or a failed transaction, and the next statement would run inside it.

use sqlx::pool::PoolConnection;
use sqlx::postgres::PgTransactionManager;
use sqlx::{PgConnection, Postgres};
use sqlx_core::sql_str::{AssertSqlSafe, SqlSafeStr as _};
use sqlx_core::transaction::TransactionManager as _;
use std::fmt;
use std::io::ErrorKind;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

/// How long the ROLLBACK after a cancelled BEGIN may take before the connection is closed.
const ROLLBACK_WITHIN: Duration = Duration::from_secs(5);

/// Rolls back when dropped.
pub(crate) struct Transaction {
    /// Present until drop.
    connection: Option<PoolConnection<Postgres>>,
    state: State,
    on_cancel: OnCancel,
}

/// What happens to the connection if the transaction is dropped before its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OnCancel {
    RollBack,
    /// It may hang, and the next transaction must not wait for its ROLLBACK.
    Close,
}

enum State {
    /// BEGIN was sent and not answered.
    Beginning,
    Open,
    Ended,
    /// BEGIN failed: a transaction may or may not be open, so the connection is closed.
    Broken,
}

impl Transaction {
    /// `statement` must be answered within `limit`.
    pub(super) async fn begin(
        connection: PoolConnection<Postgres>,
        statement: &Arc<str>,
        limit: Duration,
        on_cancel: OnCancel,
    ) -> Result<Self, sqlx::Error> {
        let mut tx = Self { connection: Some(connection), state: State::Beginning, on_cancel };
        let statement = AssertSqlSafe(statement.clone()).into_sql_str();
        let begun = tokio::time::timeout(limit, PgTransactionManager::begin(&mut tx, Some(statement))).await;
        match begun {
            Ok(Ok(())) => {
                tx.state = State::Open;
                Ok(tx)
            }
            Ok(Err(error)) => {
                tx.state = State::Broken;
                Err(error)
            }
            Err(_) => {
                tx.state = State::Broken;
                Err(sqlx::Error::Io(ErrorKind::TimedOut.into()))
            }
        }
    }

    pub(crate) async fn commit(mut self) -> Result<(), sqlx::Error> {
        PgTransactionManager::commit(&mut self).await?;
        self.state = State::Ended;
        Ok(())
    }

    pub(crate) async fn rollback(mut self) -> Result<(), sqlx::Error> {
        PgTransactionManager::rollback(&mut self).await?;
        self.state = State::Ended;
        Ok(())
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        match self.state {
            State::Ended => {}
            // The pool has room for another at once.
            State::Beginning | State::Open if self.on_cancel == OnCancel::Close => drop(connection.detach()),
            // The pool sends it before it lends the connection again.
            State::Open => PgTransactionManager::start_rollback(&mut connection),
            State::Broken => connection.close_on_drop(),
            State::Beginning => {
                tokio::spawn(async move {
                    let rollback = sqlx::raw_sql("rollback").execute(&mut *connection);
                    if !matches!(tokio::time::timeout(ROLLBACK_WITHIN, rollback).await, Ok(Ok(_))) {
                        connection.close_on_drop();
                    }
                });
            }
        }
    }
}

impl Deref for Transaction {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.connection.as_ref().expect("the connection is present until drop")
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.connection.as_mut().expect("the connection is present until drop")
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}
