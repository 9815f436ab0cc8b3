//! Whether something is due in an attached table, which relays ask each second. It is asked apart from the statement that
//! renews their lease, and for a limited time: a table of others may be locked, lack its index, or be full of what nobody
//! sends, and that must cost no relay its slots.

use super::serve::numbers;
use crate::codec::DbTime;
use crate::error::StoreError;
use crate::statements::outbox::attached::look as statement;
use crate::store::Store;
use sqlx::PgConnection;
use std::time::Duration;
use tidemill_domain::outbox::Slot;
use tidemill_domain::outbox::attached::check::lost_index;
use tidemill_domain::outbox::attached::{AttachedTable, Index};

/// What PostgreSQL says when a statement has taken too long.
const CANCELLED: &str = "57014";

/// What a relay sees of an attached table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TableLook {
    /// Something is due in the slots that were asked for.
    Due,
    NotDue,
    /// Why that is not known, and what mends it.
    Fault(String),
}

impl Store {
    /// Whether something of these slots is due in a table, in a transaction of its own, whose statements take so long at
    /// most. A table without its indexes is not read at all.
    #[crate::boxed]
    pub async fn look_at_attached(
        &self,
        table: &AttachedTable,
        slots: &[Slot],
        within: Duration,
    ) -> Result<TableLook, StoreError> {
        let mut tx = self.begin().await?;
        let now = tx.fake_now().map(DbTime);
        let Some(connection) = tx.postgres() else { return Ok(TableLook::NotDue) };
        let looked = match look(connection, table, slots, within, now).await {
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some(CANCELLED) => {
                TableLook::Fault(slow(table, within))
            }
            Err(sqlx::Error::Database(error)) => TableLook::Fault(error.message().to_owned()),
            other => other?,
        };
        tx.rollback().await?;
        Ok(looked)
    }
}

async fn look(
    connection: &mut PgConnection,
    table: &AttachedTable,
    slots: &[Slot],
    within: Duration,
    now: Option<DbTime>,
) -> Result<TableLook, sqlx::Error> {
    let lost = statement::prepare(&mut *connection, table, within).await?;
    if let Some(index) = Index::ALL.into_iter().find(|index| lost.contains(&table.name.index(*index))) {
        return Ok(TableLook::Fault(lost_index(table, index).to_string()));
    }
    let is_due = statement::is_due(connection, &table.name, &numbers(slots), now).await?;
    Ok(if is_due { TableLook::Due } else { TableLook::NotDue })
}

fn slow(table: &AttachedTable, within: Duration) -> String {
    let name = &table.name;
    format!(
        "it takes longer than {within:?} to see whether something is due: delete rows that have FAILED and that nobody \
         needs, and run `vacuum analyze {}`",
        name.quoted()
    )
}
