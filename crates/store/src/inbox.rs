//! The inbox: a message that comes again is dealt with once, because that it was dealt with commits with what was done.

use crate::error::StoreError;
use crate::statements;
use crate::store::Store;
use crate::tx::Tx;
use sqlx::PgConnection;
use std::time::Duration;
use tidemill_domain::inbox::Message;

/// Rows that go in one transaction.
const PORTION: u32 = 1_000;

/// [`Tx::first_time`] in a transaction of your own, made with `sqlx`, of the PostgreSQL database that Tidemill is in.
pub async fn first_time_on(
    connection: &mut PgConnection,
    consumer: &str,
    message_id: &str,
) -> Result<bool, StoreError> {
    Ok(statements::inbox::insert_on(connection, Message::new(consumer, message_id)?).await?)
}

impl Tx {
    /// Whether this consumer has not seen this message before; from now on it has. It counts only if this transaction
    /// commits, so what is done about the message belongs into it as well. Of two who ask at the same time, the second
    /// waits for the first, and is told false if that commits.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # use tidemill_store::{Init, Store, StoreOptions};
    /// # let store = Store::open("sqlite::memory:".parse()?, &StoreOptions::default()).await?;
    /// # store.initialise(Init::Always).await?;
    /// let mut tx = store.begin().await?;
    /// if tx.first_time("billing", "4711").await? {
    ///     // what is done about the message, through `tx`
    /// }
    /// assert!(!tx.first_time("billing", "4711").await?);
    /// tx.commit().await?;
    /// # Ok::<(), tidemill_store::StoreError>(())
    /// # }).unwrap();
    /// ```
    pub async fn first_time(&mut self, consumer: &str, message_id: &str) -> Result<bool, StoreError> {
        let message = Message::new(consumer, message_id)?;
        let now = self.fake_now().map(Into::into);
        Ok(self.inbox_insert(message, now).await?)
    }
}

impl Store {
    /// Forgets messages that were seen longer than `keep_for` ago, in at most so many portions; how many.
    #[crate::boxed]
    pub async fn retain_inbox(&self, keep_for: Duration, most: usize) -> Result<u64, StoreError> {
        let mut forgotten = 0;
        for _ in 0..most {
            let mut tx = self.begin().await?;
            let before = tx.now().await?.minus(keep_for);
            let deleted = tx.inbox_delete_old(before.into(), PORTION.into()).await?;
            tx.commit().await?;
            forgotten += deleted;
            if deleted < PORTION.into() {
                break;
            }
        }
        Ok(forgotten)
    }
}
