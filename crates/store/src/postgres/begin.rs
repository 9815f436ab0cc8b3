//! How a transaction begins, and its limits.

use crate::options::StoreOptions;
use std::sync::Arc;
use std::time::Duration;

/// All numbers in these statements are ours.
#[derive(Clone, Debug)]
pub(super) struct Begin {
    /// For writing. A standby refuses it, so a fail-over to one is noticed at once. States read committed, because the
    /// guarded statements depend on it and a role may have another default.
    pub(super) write: Arc<str>,
    /// For reading, from one snapshot. First begins as writing, so that a standby refuses it too.
    pub(super) read: Arc<str>,
    /// Settings of a new connection; `None` behind a transaction pooler, where nothing outlives a transaction.
    pub(super) session: Option<Arc<str>>,
    pub(super) is_pooled_by_transaction: bool,
}

impl Begin {
    pub(super) fn new(is_pooled_by_transaction: bool, options: &StoreOptions) -> Self {
        let write = "begin isolation level read committed read write";
        let read = "begin isolation level repeatable read read write; set transaction read only";
        // Single statements take their isolation from the session, where a role or a database may have set another one.
        let defaults = "set session characteristics as transaction isolation level read committed, read write, \
                        not deferrable";
        let limit = |scope: &str| {
            format!(
                "set {scope} idle_in_transaction_session_timeout = {}; set {scope} lock_timeout = {}",
                millis(options.idle_in_transaction),
                millis(options.busy_timeout),
            )
        };
        if !is_pooled_by_transaction {
            return Self {
                write: write.into(),
                read: read.into(),
                session: Some(format!("{}; {defaults}", limit("session")).into()),
                is_pooled_by_transaction,
            };
        }
        // The server connection may hold other clients' statements under the names that our driver is about to use.
        let rest = format!("{}; deallocate all", limit("local"));
        Self {
            write: format!("{write}; {rest}").into(),
            read: format!("{read}; {rest}").into(),
            session: None,
            is_pooled_by_transaction,
        }
    }

    /// For writing, with a longer idle limit.
    pub(super) fn idling(&self, limit: Duration) -> Arc<str> {
        format!("{}; set local idle_in_transaction_session_timeout = {}", self.write, millis(limit)).into()
    }

    /// For reading, with a statement timeout.
    pub(super) fn reading_within(&self, limit: Duration) -> Arc<str> {
        format!("{}; set local statement_timeout = {}", self.read, millis(limit)).into()
    }
}

/// Zero would mean no limit.
fn millis(duration: Duration) -> u128 {
    duration.as_millis().clamp(1, 86_400_000)
}
