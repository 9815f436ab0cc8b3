//! How to open a store; every field has a sensible default.

use crate::render::Keys;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::outbox::LifecycleEvents;
use tidemill_domain::time::Clock;

tidemill_domain::words! {
    /// When the schema is created and brought up to date without being asked.
    #[derive(Default)]
    pub enum Init {
        /// On every start, on both databases.
        Always = "always",
        /// On every start of an embedded database; PostgreSQL is migrated by command.
        #[default]
        Embedded = "embedded",
        /// Never; a schema that is missing or behind is an error.
        Never = "never",
    }
}

/// What stands between us and PostgreSQL.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pooler {
    /// Find out when connecting.
    #[default]
    Auto,
    /// Nothing, or a pooler that gives each client a server connection of its own for the whole session.
    Session,
    /// A pooler that lends a server connection per transaction: no LISTEN, no cached statements.
    Transaction,
}

tidemill_domain::words! {
    /// How hard SQLite makes a commit stick.
    #[derive(Default)]
    pub enum Synchronous {
        /// A commit that was answered survives a power cut.
        #[default]
        Full = "full",
        /// The last commits may be lost in a power cut; the file stays consistent.
        Normal = "normal",
    }
}

#[derive(Clone)]
pub struct StoreOptions {
    /// Most connections that this process opens.
    pub max_connections: u32,
    /// How long to try to connect, and to wait for a free connection.
    pub connect_timeout: Duration,
    /// How long to wait for a lock: SQLite's write lock, or a row of PostgreSQL's.
    pub busy_timeout: Duration,
    /// How long PostgreSQL lets a transaction of ours stand still before it ends it. A frozen process must not
    /// hold its locks for longer than its lease.
    pub idle_in_transaction: Duration,
    /// How hard SQLite makes a commit stick.
    pub synchronous: Synchronous,
    /// What stands between us and PostgreSQL.
    pub pooler: Pooler,
    /// A password that is kept out of the URL.
    pub password: Option<String>,
    /// What of our own doings becomes events.
    pub lifecycle_events: LifecycleEvents,
    /// The keys under which the data of renders is stored; in clear without one.
    pub render_keys: Keys,
    /// Tells the time instead of the database; for tests.
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
            render_keys: Keys::default(),
            clock: None,
        }
    }
}

/// Without the password.
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
