//! Whether rows are due in an attached table; relays ask every second. This is separate from the statement that renews
//! their lease, and limited in time: a foreign table may be locked, lack its index, or be full, and that must not cost
//! a relay its slots.

use super::serve::numbers;
use crate::codec::DbTime;
use crate::error::Result;
use crate::statements::outbox::attached::look as statement;
use crate::store::Store;
use sqlx::PgConnection;
use std::time::Duration;
use tidemill_domain::outbox::Slot;
use tidemill_domain::outbox::attached::check::lost_index;
use tidemill_domain::outbox::attached::{AttachedTable, Index};

/// PostgreSQL's code for a statement timeout.
const CANCELLED: &str = "57014";

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TableLook {
    Due,
    NotDue,
    /// Why it is unknown, and the fix.
    Fault(String),
}

impl Store {
    /// Whether rows of these slots are due, in its own transaction with a statement timeout. A table without its
    /// indexes is not read at all.
    #[crate::boxed]
    pub async fn look_at_attached(
        &self,
        table: &AttachedTable,
        slots: &[Slot],
        within: Duration,
    ) -> Result<TableLook> {
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
