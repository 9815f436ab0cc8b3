//! Rows about the server that the marks of the outbox are from.

use crate::error::StoreError;
use crate::row::damaged;
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::restore::{KnownServer, ServerIdentity};

/// The server as it is.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct ServerRow {
    pub(crate) system_identifier: Option<String>,
    pub(crate) timeline: String,
    pub(crate) mark: String,
}

impl TryFrom<ServerRow> for ServerIdentity {
    type Error = StoreError;

    fn try_from(row: ServerRow) -> Result<Self, StoreError> {
        Ok(Self {
            system_identifier: row.system_identifier,
            timeline: row.timeline,
            mark: row.mark.parse().map_err(|_| damaged("pg_current_snapshot", "mark", &row.mark))?,
        })
    }
}

/// The server as it was written down, and the id below which marks mean nothing.
#[derive(Clone, Debug, sqlx::FromRow)]
pub(crate) struct OutboxRow {
    pub(crate) system_identifier: Option<String>,
    pub(crate) timeline: Option<String>,
    pub(crate) floor_id: i64,
}

impl OutboxRow {
    pub(crate) fn floor(&self) -> EventId {
        EventId::new(self.floor_id)
    }

    pub(crate) fn known(self) -> KnownServer {
        KnownServer { system_identifier: self.system_identifier, timeline: self.timeline }
    }
}
