//! FAILED rows of attached tables, and operator actions on them.

use super::{AttachError, object};
use crate::outbox::SLOTS;
use crate::statement::stored;
use crate::statements::outbox::attached as statement;
use crate::tx::Outbox;
use std::collections::BTreeMap;
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::outbox::EventId;
use tidemill_domain::outbox::attached::{AttachedTable, RowRefusal};
use tidemill_domain::time::Timestamp;

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct FailedRecord in ("tidemill_outbox_attempt", "event_id") |row| {
        pub id: EventId = "event_id",
        pub aggregate_id: Option<String>,
        /// If known.
        pub attempts: u32 => u32::try_from(row.get::<i64>("attempts")?).unwrap_or(u32::MAX),
        /// If known.
        pub error: Option<String>,
        pub updated_at: Option<Timestamp>,
        /// A skipped row does not block later ones.
        pub is_skipped: bool,
    }
}

tidemill_domain::words! {
    pub enum RowOrder {
        /// Stays FAILED, and blocks no later row.
        Skip = "skip",
        /// Retried at once, with attempts reset.
        Replay = "replay",
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[must_use = "an order may be refused"]
pub struct RowsOrdered {
    pub changed: Vec<EventId>,
    /// Rows left unchanged, and why.
    pub refused: Vec<(EventId, RowRefusal)>,
}

impl Outbox<'_> {
    /// At most `limit` FAILED rows after `after`.
    pub async fn attached_failed(
        &mut self,
        table: &AttachedTable,
        after: EventId,
        limit: u32,
        skipped: Skipped,
    ) -> Result<Vec<FailedRecord>, AttachError> {
        let connection = self.postgres().ok_or(AttachError::Unsupported)?;
        statement::prepare(&mut *connection, &table.time_zone, None).await?;
        let with_skipped = skipped == Skipped::Too;
        let (after, limit) = (after.get(), limit.into());
        Ok(statement::list_failed(connection, &table.name, after, limit, with_skipped).await?)
    }

    /// One audit entry per row; wakes relays.
    #[crate::boxed]
    pub async fn order_attached(
        &mut self,
        table: &AttachedTable,
        order: RowOrder,
        ids: &[EventId],
        actor: &Actor,
        reason: &str,
    ) -> Result<RowsOrdered, AttachError> {
        let now = self.now().await?;
        let connection = self.postgres().ok_or(AttachError::Unsupported)?;
        statement::prepare(&mut *connection, &table.time_zone, None).await?;
        let numbers: Vec<i64> = ids.iter().map(|id| id.get()).collect();
        let found = statement::lock_failed(&mut *connection, &table.name, &numbers).await?;
        let found: BTreeMap<i64, bool> = found.into_iter().collect();
        let mut ordered = RowsOrdered::default();
        for id in ids {
            match found.get(&id.get()) {
                Some(false) => ordered.changed.push(*id),
                Some(true) => ordered.refused.push((*id, RowRefusal::Skipped)),
                None => ordered.refused.push((*id, RowRefusal::NotFailed)),
            }
        }
        let changed: Vec<i64> = ordered.changed.iter().map(|id| id.get()).collect();
        if changed.is_empty() {
            return Ok(ordered);
        }
        let to = match order {
            RowOrder::Skip => {
                statement::skip(&mut *connection, &table.name, &changed, now).await?;
                "skipped"
            }
            RowOrder::Replay => {
                statement::replay(&mut *connection, &table.name, &changed, now).await?;
                statement::forget_attempts(&mut *connection, &table.name, &changed).await?;
                "PENDING"
            }
        };
        let action = format!("event.{}", order.as_str());
        let entry = |id: &EventId| {
            AuditEntry::new(actor.clone(), &action, &format!("{}/{id}", object(&table.name)))
                .from_to("FAILED", to)
                .because(reason)
        };
        let entries: Vec<AuditEntry> = ordered.changed.iter().map(entry).collect();
        self.audit_insert_all(&entries, now).await?;
        // Relays look at once.
        self.wake(SLOTS);
        Ok(ordered)
    }
}

/// Whether to list skipped rows too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Skipped {
    Too,
    Not,
}
