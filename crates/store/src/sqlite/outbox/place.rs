//! Statements on where slots stand.

use crate::row::outbox::place::{CursorsRow, SlotRow};
use sqlx::SqliteConnection;

/// All slots, and where each was left.
pub(crate) async fn slots(connection: &mut SqliteConnection) -> Result<Vec<SlotRow>, sqlx::Error> {
    sqlx::query_as(
        "select slot, epoch, owner, place, seq
         from tidemill_outbox_slot
         order by slot",
    )
    .fetch_all(connection)
    .await
}

/// How far each relay has read that has slots.
pub(crate) async fn cursors(connection: &mut SqliteConnection) -> Result<Vec<CursorsRow>, sqlx::Error> {
    sqlx::query_as(
        "select id, cursors
         from tidemill_outbox_relay
         where id in (select owner from tidemill_outbox_slot)",
    )
    .fetch_all(connection)
    .await
}
