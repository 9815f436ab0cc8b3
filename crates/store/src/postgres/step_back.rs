//! Statements that shorten what was counted from an instant that lies ahead of the clock: `step_back::shortened` as one
//! guarded statement per table.
//!
//! The clock is read where a row is looked at, and not before: an instant that another transaction wrote in between would
//! look as if it lay ahead. A row in somebody's hands is left for the next time, so nobody is waited for, and no order of
//! locks can be broken.

use crate::codec::DbTime;
use sqlx::PgConnection;

/// `$1` is the instant of the fake clock, in a test.
macro_rules! shorten {
    ($table:literal, $key:literal, $which:literal, since: $since:literal, until: $until:literal $(, also: $also:literal)?) => {
        concat!(
            "with ahead as materialized (
                 select ", $key, "
                 from ", $table, "
                 where ", $which, "
                   and ", $until, " > coalesce($1, clock_timestamp())
                   and ", $since, " > coalesce($1, clock_timestamp())
                 order by ", $key, "
                 for update skip locked
             )
             update ", $table, "
             set ", $until, " = coalesce($1, clock_timestamp()) + greatest(", $until, " - ", $since, ", interval '0')", $(", ", $also,)? "
             where (", $key, ") in (select ", $key, " from ahead)"
        )
    };
}

const LEASES: [&str; 5] = [
    shorten!(
        "tidemill_process", "id", "state = 'live'",
        since: "heartbeat_at", until: "until", also: "heartbeat_at = coalesce($1, clock_timestamp())"
    ),
    shorten!(
        "tidemill_lease", "kind, name", "owner is not null",
        since: "coalesce(renewed_at, until - interval '1 hour')", until: "until",
        also: "renewed_at = coalesce($1, clock_timestamp())"
    ),
    shorten!(
        "tidemill_outbox_relay", "id", "ended_at is null",
        since: "coalesce(renewed_at, until - interval '1 hour')", until: "until",
        also: "renewed_at = coalesce($1, clock_timestamp())"
    ),
    // By the index of those that lapse next, as tickets are.
    shorten!(
        "render_queue", "id",
        "worker_id is not null and status in ('preparing', 'rendering', 'encoding', 'uploading', 'cancelled')",
        since: "coalesce(lock_renewed_at, lock_expires_at - interval '1 hour')", until: "lock_expires_at",
        also: "lock_renewed_at = coalesce($1, clock_timestamp()), revision = revision + 1"
    ),
    shorten!(
        "tidemill_pool_ticket", "id", "ended_at is null",
        since: "coalesce(heard_at, expires_at - lease_micros * interval '1 microsecond')", until: "expires_at",
        also: "heard_at = coalesce($1, clock_timestamp())"
    ),
];

const WAITS: [&str; 3] = [
    shorten!(
        "tidemill_outbox_exception", "event_id", "state = 'waiting'",
        since: "updated_at", until: "next_attempt_at", also: "updated_at = coalesce($1, clock_timestamp())"
    ),
    // Only after a failure is the instant ours: whoever inserts a render may say when it is wanted.
    shorten!(
        "render_queue", "id",
        "status = 'pending' and submit_failures + render_failures + upload_failures + recovery_count > 0",
        since: "updated_at", until: "run_after",
        also: "updated_at = coalesce($1, clock_timestamp()), revision = revision + 1"
    ),
    // The longest wait is ten minutes.
    shorten!(
        "tidemill_alert_delivery", "id", "delivered_at is null and failed_at is null",
        since: "run_after - interval '10 minutes'", until: "run_after"
    ),
];

pub(crate) async fn leases(connection: &mut PgConnection, now: Option<DbTime>) -> Result<u64, sqlx::Error> {
    shorten(connection, &LEASES, now).await
}

pub(crate) async fn waits(connection: &mut PgConnection, now: Option<DbTime>) -> Result<u64, sqlx::Error> {
    shorten(connection, &WAITS, now).await
}

async fn shorten(
    connection: &mut PgConnection,
    statements: &[&'static str],
    now: Option<DbTime>,
) -> Result<u64, sqlx::Error> {
    let mut count = 0;
    for statement in statements {
        count += sqlx::query(*statement).bind(now).execute(&mut *connection).await?.rows_affected();
    }
    Ok(count)
}
