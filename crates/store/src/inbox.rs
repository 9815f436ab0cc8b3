//! The inbox: a message that arrives again is handled once, because its id commits together with the work.

use crate::codec::DbTime;
use crate::error::Result;
use crate::statement::dialect::in_dialect;
use crate::statement::statements;
use crate::store::Store;
use crate::tx::Tx;
use sqlx::PgConnection;
use std::time::Duration;
use tidemill_domain::inbox::Message;
use tidemill_domain::time::Timestamp;

/// Rows per transaction.
const PORTION: u32 = 1_000;

/// [`Tx::first_time`] in your own `sqlx` transaction, on the PostgreSQL database that Tidemill uses.
pub async fn first_time_on(connection: &mut PgConnection, consumer: &str, message_id: &str) -> Result<bool> {
    let message = Message::new(consumer, message_id)?;
    let query = sqlx::query(in_dialect!(true, INSERT));
    let query = query.bind(message.consumer()).bind(message.id()).bind(None::<DbTime>);
    Ok(query.execute(connection).await?.rows_affected() > 0)
}

impl Tx {
    /// Marks a message as seen by this consumer; false if it was seen before. It counts only if this transaction commits,
    /// so handle the message in it. A concurrent call waits for the first, and returns false if that commits.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # use tidemill_store::{Init, Store, StoreOptions};
    /// # let store = Store::open("sqlite::memory:".parse()?, &StoreOptions::default()).await?;
    /// # store.initialise(Init::Always).await?;
    /// let mut tx = store.begin().await?;
    /// if tx.first_time("billing", "4711").await? {
    ///     // handle the message through `tx`
    /// }
    /// assert!(!tx.first_time("billing", "4711").await?);
    /// tx.commit().await?;
    /// # Ok::<(), tidemill_store::StoreError>(())
    /// # }).unwrap();
    /// ```
    pub async fn first_time(&mut self, consumer: &str, message_id: &str) -> Result<bool> {
        let message = Message::new(consumer, message_id)?;
        let now = self.fake_now();
        Ok(self.inbox_insert(message, now).await?)
    }
}

impl Store {
    /// Deletes messages seen longer than `keep_for` ago, in at most `most` portions; returns how many.
    #[crate::boxed]
    pub async fn retain_inbox(&self, keep_for: Duration, most: usize) -> Result<u64> {
        let mut forgotten = 0;
        for _ in 0..most {
            let mut tx = self.begin().await?;
            let before = tx.now().await?.minus(keep_for);
            let deleted = tx.inbox_delete_old(before, PORTION).await?;
            tx.commit().await?;
            forgotten += deleted;
            if deleted < PORTION.into() {
                break;
            }
        }
        Ok(forgotten)
    }
}

const INSERT: &str = "insert into tidemill_inbox (consumer, message_id, seen_at)
     values ($1, $2, coalesce($3, {now}))
     on conflict (consumer, message_id) do nothing";

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
