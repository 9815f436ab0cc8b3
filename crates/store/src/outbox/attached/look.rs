//! Whether rows are due in an attached table; relays ask every second. This is separate from the statement that renews
//! their lease, and limited in time: a foreign table may be locked, lack its index, or be full, and that must not cost
//! a relay its slots.

use super::serve::numbers;
use crate::codec::DbTime;
use crate::error::Result;
use crate::statements::outbox::attached::{millis, text};
use crate::store::Store;
use sqlx::{AssertSqlSafe, PgConnection};
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
    /// Whether rows of these slots are due, in its own transaction with a timeout. Reads no table without its indexes.
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
    let lost = prepare(&mut *connection, table, within).await?;
    if let Some(index) = Index::ALL.into_iter().find(|index| lost.contains(&table.name.index(*index))) {
        return Ok(TableLook::Fault(lost_index(table, index).to_string()));
    }
    // One step in the index of each slot. Planned for its slots each time.
    let is_due = sqlx::query_scalar(AssertSqlSafe(text::is_due(&table.name)));
    let is_due: bool = is_due.bind(numbers(slots)).bind(now).persistent(false).fetch_one(connection).await?;
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

/// Sets time zone and timeouts for the transaction. Returns which of our indexes are missing, by the catalogue.
async fn prepare(
    connection: &mut PgConnection,
    table: &AttachedTable,
    within: Duration,
) -> Result<Vec<String>, sqlx::Error> {
    let indexes: Vec<String> = Index::ALL.into_iter().map(|index| table.name.index(index)).collect();
    let (_, _, _, lost): (String, String, String, Vec<String>) = sqlx::query_as(
        "select set_config('timezone', $1, true), set_config('lock_timeout', '100ms', true),
                set_config('statement_timeout', $2, true),
                array(
                    select needed.name
                    from unnest($5::text[]) as needed (name)
                    where to_regclass(format('%I.%I', $3::text, $4::text)) is not null
                      and not exists (
                          select
                          from pg_index i
                          join pg_class c on c.oid = i.indexrelid
                          join pg_namespace n on n.oid = c.relnamespace
                          where n.nspname = $3 and c.relname = needed.name and i.indisvalid
                      )
                ) as lost",
    )
    .bind(&table.time_zone)
    .bind(millis(within))
    .bind(table.name.schema())
    .bind(table.name.table())
    .bind(indexes)
    .fetch_one(connection)
    .await?;
    Ok(lost)
}
