//! What a step writes into a table and the outbox, until the statement that commits the chunk writes it too.

use crate::error::Result;
use crate::item::{StagedRows, TableWriter};
use crate::tx::Tx;
use tidemill_domain::outbox::NewEvent;

/// More events are better written by a statement of their own, without a copy of them.
const EVENTS_MAX: usize = 2000;

/// Of the payloads of events.
const EVENT_BYTES_MAX: usize = 1 << 20;

/// Rows of one table, and events.
#[derive(Debug, Default)]
pub struct Staged {
    pub(crate) rows: Option<StagedRows>,
    pub(crate) events: Vec<NewEvent>,
}

impl Staged {
    /// Takes the rows in the buffer of `table`. False if it has to be flushed instead.
    pub fn take_rows(&mut self, table: &mut TableWriter) -> bool {
        if self.rows.is_none() {
            self.rows = table.stage();
            return self.rows.is_some();
        }
        false
    }

    pub fn add_events(&mut self, events: Vec<NewEvent>) {
        self.events.extend(events);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_none() && self.events.is_empty()
    }

    /// Whether the statement that commits a chunk should write it.
    pub fn is_small(&self) -> bool {
        let bytes: usize = self.events.iter().map(|event| event.payload().len()).sum();
        self.events.len() <= EVENTS_MAX && bytes <= EVENT_BYTES_MAX
    }

    /// Writes it by statements of its own, before others of the transaction.
    #[crate::boxed]
    pub async fn write(self, tx: &mut Tx) -> Result<()> {
        if let Some(rows) = self.rows {
            rows.write(tx).await?;
        }
        tx.publish_all(&self.events).await.map(drop)
    }
}
