//! A trigger that wakes relays when other programs write events. Without it relays look once a second; with it every
//! transaction that writes an event sends a notification, which serialises their commits.

use crate::error::StoreError;
use crate::outbox::OBJECT;
use crate::tx::Outbox;
use tidemill_domain::audit::{Actor, AuditEntry};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotifyError {
    #[error("this database has no notifications")]
    Unsupported,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for NotifyError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

impl Outbox<'_> {
    /// Creates or drops the trigger. False if nothing changed. Waits up to half a second for transactions that write
    /// events.
    #[crate::boxed]
    pub async fn set_notify(&mut self, notify: Notify, actor: &Actor) -> Result<bool, NotifyError> {
        let was_on = self.notify().await?.ok_or(NotifyError::Unsupported)?;
        let is_on = notify == Notify::On;
        if was_on == is_on {
            return Ok(false);
        }
        self.outbox_hurry().await?;
        match notify {
            Notify::On => self.outbox_notify_create().await?,
            Notify::Off => self.outbox_notify_drop().await?,
        }
        let word = |is_on| if is_on { "on" } else { "off" };
        let entry =
            AuditEntry::new(actor.clone(), "outbox.notify", OBJECT).from_to(word(was_on), word(is_on));
        self.audit().record(&entry).await?;
        Ok(true)
    }
}

/// Whether relays are woken when other programs write events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notify {
    On,
    /// Relays look once a second.
    Off,
}
