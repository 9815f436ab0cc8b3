//! After the database's clock has gone back, shortens leases and waits that were counted from an instant now in the
//! future, once, by the rule of [`step_back`](tidemill_domain::step_back). Otherwise a dead holder would keep its lease
//! for the size of the step.
//!
//! The clock is read where a row is examined, and not before: an instant that another transaction wrote in between
//! would seem to be in the future. Locked rows are skipped, so these statements wait for nothing and cannot deadlock.

use crate::error::Result;
use crate::statement::statements;
use crate::tx::Leases;
use tidemill_domain::time::Timestamp;

impl Leases<'_> {
    /// Shortens all leases that were granted or renewed in the future. Returns how many. Skips locked rows.
    pub async fn shorten_leases(&mut self) -> Result<u64> {
        let now = self.fake_now();
        Ok(self.step_back_processes(now).await?
            + self.step_back_held_leases(now).await?
            + self.step_back_relays(now).await?
            + self.step_back_renders_at_work(now).await?
            + self.step_back_tickets(now).await?)
    }

    /// Shortens the waits before the next attempt at an event, a render or an alert's delivery. Reads everything that
    /// waits, so call it only when the clock is known to have gone back.
    pub async fn shorten_waits(&mut self) -> Result<u64> {
        let now = self.fake_now();
        Ok(self.step_back_failed_events(now).await?
            + self.step_back_failed_renders(now).await?
            + self.step_back_deliveries(now).await?)
    }
}

/// `$1` is the instant of a test's clock.
macro_rules! shorten {
    (
        $table:literal $(indexed by $index:literal)?, $key:literal, $which:literal,
        since: $since:literal, until: $until:literal $(, also: $also:literal)?
    ) => {
        concat!(
            "with ahead as materialized (
                 select ", $key, "
                 from ", $table, $(" {indexed by ", $index, "}",)? "
                 where ", $which, "
                   and ", $until, " > coalesce($1, {now})
                   and ", $since, " > coalesce($1, {now})
                 order by ", $key, "
                 {for update skip locked}
             )
             update ", $table, "
             set ", $until, " = coalesce($1, {now}) + {greatest}(", $until, " - ", $since, ", {micros 0})", $(", ", $also,)? "
             where (", $key, ") in (select ", $key, " from ahead)"
        )
    };
}

statements! {
    fn step_back_processes(now: Option<Timestamp>) -> u64 {
        shorten!(
            "tidemill_process", "id", "state = 'live'",
            since: "heartbeat_at", until: "until", also: "heartbeat_at = coalesce($1, {now})"
        )
    }

    fn step_back_held_leases(now: Option<Timestamp>) -> u64 {
        shorten!(
            "tidemill_lease", "kind, name", "owner is not null",
            since: "coalesce(renewed_at, until - {micros 3600000000})", until: "until",
            also: "renewed_at = coalesce($1, {now})"
        )
    }

    fn step_back_relays(now: Option<Timestamp>) -> u64 {
        shorten!(
            "tidemill_outbox_relay", "id", "ended_at is null",
            since: "coalesce(renewed_at, until - {micros 3600000000})", until: "until",
            also: "renewed_at = coalesce($1, {now})"
        )
    }

    /// By the index of the leases that expire next, not through all renders that were ever cancelled.
    fn step_back_renders_at_work(now: Option<Timestamp>) -> u64 {
        shorten!(
            "render_queue" indexed by "render_queue_lease", "id",
            "worker_id is not null and status in ('preparing', 'rendering', 'encoding', 'uploading', 'cancelled')",
            since: "coalesce(lock_renewed_at, lock_expires_at - {micros 3600000000})", until: "lock_expires_at",
            also: "lock_renewed_at = coalesce($1, {now}), revision = revision + 1"
        )
    }

    fn step_back_tickets(now: Option<Timestamp>) -> u64 {
        shorten!(
            "tidemill_pool_ticket", "id", "ended_at is null",
            since: "coalesce(heard_at, expires_at - lease_micros * {micros 1})", until: "expires_at",
            also: "heard_at = coalesce($1, {now})"
        )
    }

    fn step_back_failed_events(now: Option<Timestamp>) -> u64 {
        shorten!(
            "tidemill_outbox_exception", "event_id", "state = 'waiting'",
            since: "updated_at", until: "next_attempt_at", also: "updated_at = coalesce($1, {now})"
        )
    }

    /// Only after a failure is the instant ours: an inserted render may be scheduled for later.
    fn step_back_failed_renders(now: Option<Timestamp>) -> u64 {
        shorten!(
            "render_queue", "id",
            "status = 'pending' and submit_failures + render_failures + upload_failures + recovery_count > 0",
            since: "updated_at", until: "run_after",
            also: "updated_at = coalesce($1, {now}), revision = revision + 1"
        )
    }

    /// The longest wait is ten minutes.
    fn step_back_deliveries(now: Option<Timestamp>) -> u64 {
        shorten!(
            "tidemill_alert_delivery", "id", "delivered_at is null and failed_at is null",
            since: "run_after - {micros 600000000}", until: "run_after"
        )
    }
}
