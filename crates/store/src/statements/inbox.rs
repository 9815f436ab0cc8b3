//! Statements on `tidemill_inbox`.

use crate::codec::DbTime;
use crate::statement::dialect::in_dialect;
use crate::statement::statements;
use sqlx::PgConnection;
use tidemill_domain::inbox::Message;
use tidemill_domain::time::Timestamp;

const INSERT: &str = "insert into tidemill_inbox (consumer, message_id, seen_at)
     values ($1, $2, coalesce($3, {now}))
     on conflict (consumer, message_id) do nothing";

/// `inbox_insert` on a connection of the caller.
pub(crate) async fn insert_on(
    connection: &mut PgConnection,
    message: Message<'_>,
) -> Result<bool, sqlx::Error> {
    let query = sqlx::query(in_dialect!(true, INSERT));
    let query = query.bind(message.consumer()).bind(message.id()).bind(None::<DbTime>);
    Ok(query.execute(connection).await?.rows_affected() > 0)
}

statements! {
    /// Whether the row is new. Waits for a transaction that writes the same one.
    fn inbox_insert(message: Message<'_>, now: Option<Timestamp>) -> bool {
        bind(message.consumer(), message.id(), now)
        INSERT
    }

    /// Oldest first, by the index on `seen_at`.
    fn inbox_delete_old(before: Timestamp, limit: u32) -> u64 {
        "delete from tidemill_inbox
         where (consumer, message_id) in (
             select consumer, message_id
             from tidemill_inbox
             where seen_at < $1
             order by seen_at
             limit $2
             {for update skip locked}
         )"
    }
}
