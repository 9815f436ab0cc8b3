//! Statements that shorten what was counted from an instant that lies ahead of the clock: `step_back::shortened` as one
//! guarded statement per table. The one writer's transaction keeps everybody out by itself.

use crate::codec::DbTime;
use crate::sqlite::clock;
use sqlx::SqliteConnection;

/// `$1` is now.
macro_rules! shorten {
    ($table:literal, $which:literal, since: $since:literal, until: $until:literal $(, also: $also:literal)?) => {
        concat!(
            "update ", $table, "
             set ", $until, " = $1 + max(", $until, " - ", $since, ", 0)", $(", ", $also,)? "
             where ", $which, "
               and ", $until, " > $1
               and ", $since, " > $1"
        )
    };
}

const LEASES: [&str; 5] = [
    shorten!(
        "tidemill_process", "state = 'live'",
        since: "heartbeat_at", until: "until", also: "heartbeat_at = $1"
    ),
    shorten!(
        "tidemill_lease", "owner is not null",
        since: "coalesce(renewed_at, until - 3600000000)", until: "until", also: "renewed_at = $1"
    ),
    shorten!(
        "tidemill_outbox_relay", "ended_at is null",
        since: "coalesce(renewed_at, until - 3600000000)", until: "until", also: "renewed_at = $1"
    ),
    // By the index of those that lapse next, and not through all that were ever cancelled.
    shorten!(
        "render_queue indexed by render_queue_lease",
        "worker_id is not null and status in ('preparing', 'rendering', 'encoding', 'uploading', 'cancelled')",
        since: "coalesce(lock_renewed_at, lock_expires_at - 3600000000)", until: "lock_expires_at",
        also: "lock_renewed_at = $1, revision = revision + 1"
    ),
    shorten!(
        "tidemill_pool_ticket", "ended_at is null",
        since: "coalesce(heard_at, expires_at - lease_micros)", until: "expires_at", also: "heard_at = $1"
    ),
];

const WAITS: [&str; 3] = [
    shorten!(
        "tidemill_outbox_exception", "state = 'waiting'",
        since: "updated_at", until: "next_attempt_at", also: "updated_at = $1"
    ),
    // Only after a failure is the instant ours: whoever inserts a render may say when it is wanted.
    shorten!(
        "render_queue",
        "status = 'pending' and submit_failures + render_failures + upload_failures + recovery_count > 0",
        since: "updated_at", until: "run_after", also: "updated_at = $1, revision = revision + 1"
    ),
    // The longest wait is ten minutes.
    shorten!(
        "tidemill_alert_delivery", "delivered_at is null and failed_at is null",
        since: "run_after - 600000000", until: "run_after"
    ),
];

pub(crate) async fn leases(
    connection: &mut SqliteConnection,
    now: Option<DbTime>,
) -> Result<u64, sqlx::Error> {
    shorten(connection, &LEASES, now).await
}

pub(crate) async fn waits(
    connection: &mut SqliteConnection,
    now: Option<DbTime>,
) -> Result<u64, sqlx::Error> {
    shorten(connection, &WAITS, now).await
}

async fn shorten(
    connection: &mut SqliteConnection,
    statements: &[&'static str],
    now: Option<DbTime>,
) -> Result<u64, sqlx::Error> {
    let now = match now {
        Some(now) => now,
        None => clock::now(&mut *connection).await?,
    };
    let mut count = 0;
    for statement in statements {
        count += sqlx::query(*statement).bind(now).execute(&mut *connection).await?.rows_affected();
    }
    Ok(count)
}
