//! Options for opening a store.

use crate::render::Keys;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::alert::notify::Notify;
use tidemill_domain::outbox::LifecycleEvents;
use tidemill_domain::time::Clock;

tidemill_domain::words! {
    /// When the schema is created and upgraded automatically.
    #[derive(Default)]
    pub enum Init {
        /// On every start, on both databases.
        Always = "always",
        /// On every start of an SQLite database; PostgreSQL is migrated by command.
        #[default]
        Embedded = "embedded",
        /// A missing or outdated schema is an error.
        Never = "never",
    }
}

/// The connection pooler before PostgreSQL.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pooler {
    /// Detect when connecting.
    #[default]
    Auto,
    /// None, or one server connection per client session.
    Session,
    /// One server connection per transaction: no LISTEN, no cached statements.
    Transaction,
}

tidemill_domain::words! {
    /// Durability of a commit on SQLite.
    #[derive(Default)]
    pub enum Synchronous {
        /// A commit survives a power cut.
        #[default]
        Full = "full",
        /// A power cut may lose the last commits; the file stays consistent.
        Normal = "normal",
    }
}

#[derive(Clone)]
pub struct StoreOptions {
    /// Per process.
    pub max_connections: u32,
    /// For connecting, and for waiting for a free connection.
    pub connect_timeout: Duration,
    /// For a lock: SQLite's write lock, or a PostgreSQL row.
    pub busy_timeout: Duration,
    /// PostgreSQL ends our transactions after this idle time. A frozen process must not hold locks beyond its lease.
    pub idle_in_transaction: Duration,
    pub synchronous: Synchronous,
    pub pooler: Pooler,
    /// Kept out of the URL.
    pub password: Option<String>,
    pub lifecycle_events: LifecycleEvents,
    /// Alert channels that hear of the ends of all renders.
    pub render_notify: Vec<Notify>,
    /// Without a key, the data of renders is stored in clear.
    pub render_keys: Keys,
    /// Replaces the database's clock in tests.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            max_connections: 10,
            connect_timeout: Duration::from_secs(5),
            busy_timeout: Duration::from_secs(5),
            idle_in_transaction: Duration::from_secs(10),
            synchronous: Synchronous::default(),
            pooler: Pooler::default(),
            password: None,
            lifecycle_events: LifecycleEvents::default(),
            render_notify: Vec::new(),
            render_keys: Keys::default(),
            clock: None,
        }
    }
}

/// Omits the password.
impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("max_connections", &self.max_connections)
            .field("connect_timeout", &self.connect_timeout)
            .field("busy_timeout", &self.busy_timeout)
            .field("idle_in_transaction", &self.idle_in_transaction)
            .field("synchronous", &self.synchronous)
            .field("pooler", &self.pooler)
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("lifecycle_events", &self.lifecycle_events)
            .field("render_notify", &self.render_notify)
            .field("render_keys", &self.render_keys)
            .field("clock", &self.clock)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_never_shown() {
        let options = StoreOptions { password: Some("geheim".into()), ..StoreOptions::default() };

        let shown = format!("{options:?}");

        assert!(!shown.contains("geheim") && shown.contains("***"), "{shown}");
    }
}
