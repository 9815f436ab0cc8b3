//! The trigger that wakes relays when other programs write events.

use crate::outbox::EVENTS;
use crate::statement::statements;
use sqlx::AssertSqlSafe;

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

    /// Once per statement, not per event; PostgreSQL sends a repeated notification once per transaction. Channel and
    /// payload are those of our wake-up. Waits for all writers.
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
