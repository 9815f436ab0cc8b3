//! Notices on their way to a channel. Delivered at least once: a process that dies between sending and settling sends
//! again.

use super::object;
use crate::error::Result;
use crate::statement::{Columns, Stored, stored};
use crate::tx::Alerts;
use std::time::Duration;
use tidemill_domain::alert::delivery::{self, Attempt, DeliveryState};
use tidemill_domain::alert::{Notice, Subject};
use tidemill_domain::audit::{Actor, AuditEntry};
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
}

stored! {
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
    /// At most `limit` notices to try now; per alert and channel only the oldest.
    pub async fn due_deliveries(&mut self, limit: u32) -> Result<Vec<Delivery>> {
        let now = self.now().await?;
        Ok(self.alert_delivery_due(now, limit).await?)
    }

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
