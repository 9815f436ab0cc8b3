//! Notices on their way to a channel. Sent at least once: again, if a process dies between sending and settling.

use super::object;
use crate::error::Result;
use crate::statement::{Columns, Stored, statements, stored};
use crate::tx::Alerts;
use std::time::Duration;
use tidemill_domain::alert::delivery::{self, Attempt, DeliveryState};
use tidemill_domain::alert::{Notice, Subject};
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::job::notify::JOB_END;
use tidemill_domain::render::notify::RENDER_END;
use tidemill_domain::time::Timestamp;

const DELIVERY: (&str, &str) = ("tidemill_alert_delivery", "id");

stored! {
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Delivery in DELIVERY {
        pub id: i64,
        pub rule: String,
        pub subject: Subject,
        pub notice: Notice,
        pub channel: String,
        pub body: String,
    }

    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct DeliveryRecord in DELIVERY |row| {
        pub delivery: Delivery => Stored::from_columns(row)?,
        pub state: DeliveryState => state(row)?,
        pub created_at: Timestamp,
        pub last_error: Option<String>,
    }
}

const ERROR_CHARS_MAX: usize = 1000;

impl Alerts<'_> {
    /// Records the outcome of an attempt; `delay` is the backoff after a number of failures. Confirm the evaluator's
    /// lease first. Does nothing if the delivery is gone.
    pub async fn settle_delivery(
        &mut self,
        id: i64,
        attempt: Attempt,
        error: Option<&str>,
        delay: impl FnOnce(u32) -> Duration,
    ) -> Result<Option<DeliveryState>> {
        let Some(found) = self.alert_delivery_lock(id).await? else { return Ok(None) };
        let now = self.now().await?;
        let after = delivery::next(found.state, attempt, delay, now);
        if after == found.state {
            return Ok(Some(after));
        }
        let last_error = error.map(bounded).or(found.last_error);
        self.alert_delivery_save(id, after, last_error.as_deref()).await?;
        if let DeliveryState::Failed { .. } = after {
            let Delivery { rule, subject, channel, .. } = &found.delivery;
            let why = format!("{channel}: {}", last_error.as_deref().unwrap_or("unknown"));
            let object = object(rule, subject);
            let entry = AuditEntry::new(Actor::system(), "alert.undelivered", &object).because(&why);
            self.audit_insert(&entry, now).await?;
        }
        Ok(Some(after))
    }
}

fn state(row: &Columns<'_>) -> Result<DeliveryState, sqlx::Error> {
    match (row.get("delivered_at")?, row.get("failed_at")?) {
        (None, None) => {
            Ok(DeliveryState::Waiting { attempt: row.get("attempt")?, run_after: row.get("run_after")? })
        }
        (Some(at), None) => Ok(DeliveryState::Delivered { at }),
        (None, Some(at)) => Ok(DeliveryState::Failed { at }),
        (Some(_), Some(_)) => Err(row.damaged("failed_at")),
    }
}

/// Attempt, next attempt, delivery and failure; absent values leave their columns unchanged.
pub(crate) fn columns(
    state: DeliveryState,
) -> (Option<u32>, Option<Timestamp>, Option<Timestamp>, Option<Timestamp>) {
    match state {
        DeliveryState::Waiting { attempt, run_after } => (Some(attempt), Some(run_after), None, None),
        DeliveryState::Delivered { at } => (None, None, Some(at), None),
        DeliveryState::Failed { at } => (None, None, None, Some(at)),
    }
}

/// Truncates, and drops NUL, which PostgreSQL cannot store in a text.
fn bounded(text: &str) -> String {
    text.chars().filter(|c| *c != '\0').take(ERROR_CHARS_MAX).collect()
}

statements! {
    fn alert_delivery_insert(
        of: (&str, &Subject), notice: Notice, channel: &str, body: &str, now: Timestamp,
    ) -> () {
        bind(of.0, of.1.as_str(), notice.as_str(), channel, body, now)
        "insert into tidemill_alert_delivery
             (rule, subject, notice, channel, body, created_at, attempt, run_after)
         values ($1, $2, $3, $4, $5, $6, 0, $6)"
    }

    /// At most `limit` notices to try now; per alert and channel only the oldest, as an end must not come first. Alerts go
    /// before the ends of jobs and renders, of which there may be a thousand for a channel that does not answer.
    pub fn Alerts::due_deliveries(limit: u32) at now -> Vec<Delivery> {
        bind(now, limit, JOB_END, RENDER_END)
        "select id, rule, subject, notice, channel, body, created_at, attempt, run_after, delivered_at,
             failed_at, last_error
         from tidemill_alert_delivery d
         where delivered_at is null
           and failed_at is null
           and run_after <= $1
           and not exists (
               select 1
               from tidemill_alert_delivery earlier
               where earlier.rule = d.rule
                 and earlier.subject = d.subject
                 and earlier.channel = d.channel
                 and earlier.id < d.id
                 and earlier.delivered_at is null
                 and earlier.failed_at is null
           )
         order by case when rule in ($3, $4) then 1 else 0 end, run_after, id limit $2"
    }

    fn alert_delivery_lock(id: i64) -> Option<DeliveryRecord> {
        "select id, rule, subject, notice, channel, body, created_at, attempt, run_after, delivered_at,
             failed_at, last_error
         from tidemill_alert_delivery where id = $1 {for update}"
    }

    fn alert_delivery_save(id: i64, state: DeliveryState, last_error: Option<&str>) -> () {
        bind(
            id, columns(state).0, columns(state).1, columns(state).2, columns(state).3, last_error,
        )
        "update tidemill_alert_delivery
         set attempt = coalesce($2, attempt), run_after = coalesce($3, run_after),
             delivered_at = coalesce($4, delivered_at), failed_at = coalesce($5, failed_at), last_error = $6
         where id = $1"
    }

    /// Newest first.
    pub fn Alerts::deliveries(limit: u32) -> Vec<DeliveryRecord> {
        "select id, rule, subject, notice, channel, body, created_at, attempt, run_after, delivered_at,
             failed_at, last_error
         from tidemill_alert_delivery order by id desc limit $1"
    }

    fn alert_delivery_prune(ended_before: Timestamp, limit: u32) -> u64 {
        "delete from tidemill_alert_delivery
         where id in (
             select id
             from tidemill_alert_delivery
             where coalesce(delivered_at, failed_at) < $1
             limit $2
         )"
    }
}
