//! A trigger that wakes relays when other programs write events. Without it relays look once a second; with it every
//! transaction that writes an event sends a notification, which serialises their commits.

use crate::error::StoreError;
use crate::outbox::{EVENTS, OBJECT};
use crate::statement::statements;
use crate::tx::Outbox;
use sqlx::AssertSqlSafe;
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
    /// Creates or drops the trigger; false if nothing changed. Waits up to half a second for writers of events.
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

statements! {
    /// Whether the trigger exists; `None` on SQLite.
    pub fn Outbox::notify() -> Option<bool> {
        postgres {
            "select exists (
                 select from pg_trigger
                 where tgrelid = 'outbox_event'::regclass
                   and tgname = 'tidemill_outbox_notice'
             )"
        }
        sqlite { nothing }
    }

    /// Once per statement; PostgreSQL sends a repeated notification once per transaction. Waits for all writers.
    fn outbox_notify_create() -> () {
        postgres |connection| {
            // The topic is our own word.
            sqlx::raw_sql(AssertSqlSafe(format!(
                "create or replace function tidemill_outbox_notice() returns trigger language plpgsql as $$
                 begin
                     perform pg_notify('tidemill', '{EVENTS}');
                     return null;
                 end
                 $$;
                 create or replace trigger tidemill_outbox_notice
                 after insert on outbox_event
                 for each statement
                 execute function tidemill_outbox_notice()"
            )))
            .execute(connection)
            .await
            .map(drop)
        }
        sqlite { nothing }
    }

    /// Waits for all users of the table.
    fn outbox_notify_drop() -> () {
        postgres |connection| {
            sqlx::raw_sql(
                "drop trigger if exists tidemill_outbox_notice on outbox_event;
                 drop function if exists tidemill_outbox_notice()",
            )
            .execute(connection)
            .await
            .map(drop)
        }
        sqlite { nothing }
    }
}
