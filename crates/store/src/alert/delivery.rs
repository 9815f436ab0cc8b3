//! Notices on their way to a channel. At least once: a process that dies between sending and settling sends again.

use super::object;
use crate::codec::DbTime;
use crate::error::{StoreError, damaged};
use crate::tx::Alerts;
use std::time::Duration;
use tidemill_domain::alert::delivery::{self, Attempt, DeliveryState};
use tidemill_domain::alert::{Notice, Subject};
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::time::Timestamp;

/// A notice that is to be delivered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivery {
    pub id: i64,
    pub rule: String,
    /// What the alert is about.
    pub subject: Subject,
    pub notice: Notice,
    pub channel: String,
    pub body: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryRecord {
    pub delivery: Delivery,
    pub state: DeliveryState,
    /// Since when it waits or waited.
    pub created_at: Timestamp,
    /// What went wrong the last time.
    pub last_error: Option<String>,
}

/// Most characters that are kept of an error.
const ERROR_CHARS_MAX: usize = 1000;

impl Alerts<'_> {
    /// At most `limit` notices that may be tried now; of one alert and channel only the oldest.
    pub async fn due_deliveries(&mut self, limit: u32) -> Result<Vec<Delivery>, StoreError> {
        let now = self.now().await?;
        self.alert_delivery_due(now.into(), limit.into()).await?.into_iter().map(delivery).collect()
    }

    /// Writes down what came of an attempt, and the state that follows; `delay` is the backoff after so many
    /// failures. Confirm the evaluator's lease first. A delivery that is not there any more is left so.
    pub async fn settle_delivery(
        &mut self,
        id: i64,
        attempt: Attempt,
        error: Option<&str>,
        delay: impl FnOnce(u32) -> Duration,
    ) -> Result<Option<DeliveryState>, StoreError> {
        let Some(mut row) = self.alert_delivery_lock(id).await? else { return Ok(None) };
        let now = self.now().await?;
        let before = row.state()?;
        let after = delivery::next(before, attempt, delay, now);
        if after == before {
            return Ok(Some(after));
        }
        row.set_state(after);
        row.last_error = error.map(bounded).or(row.last_error);
        self.alert_delivery_save(&row).await?;
        if let DeliveryState::Failed { .. } = after {
            let why = format!("{}: {}", row.channel, row.last_error.as_deref().unwrap_or("unknown"));
            let object = object(&row.rule, &subject(&row)?);
            let entry = AuditEntry::new(Actor::system(), "alert.undelivered", &object).because(&why);
            self.audit_insert(&entry, now.into()).await?;
        }
        Ok(Some(after))
    }

    /// The deliveries, the newest first.
    pub async fn deliveries(&mut self, limit: u32) -> Result<Vec<DeliveryRecord>, StoreError> {
        let rows = self.alert_delivery_list(limit.into()).await?;
        rows.into_iter()
            .map(|row| {
                Ok(DeliveryRecord {
                    state: row.state()?,
                    created_at: row.created_at.into(),
                    last_error: row.last_error.clone(),
                    delivery: delivery(row)?,
                })
            })
            .collect()
    }
}

fn subject(row: &AlertDeliveryRow) -> Result<Subject, StoreError> {
    Subject::new(&row.subject).map_err(|_| row.damaged("subject"))
}

fn delivery(row: AlertDeliveryRow) -> Result<Delivery, StoreError> {
    Ok(Delivery {
        subject: subject(&row)?,
        notice: row.notice.parse().map_err(|_| row.damaged("notice"))?,
        id: row.id,
        rule: row.rule,
        channel: row.channel,
        body: row.body,
    })
}

/// Cuts to the longest kept length and drops NUL, which PostgreSQL cannot store in a text.
fn bounded(text: &str) -> String {
    text.chars().filter(|c| *c != '\0').take(ERROR_CHARS_MAX).collect()
}

crate::statement::row! {
    #[derive(Clone, Debug)]
    pub(crate) struct AlertDeliveryRow {
        pub(crate) id: i64,
        pub(crate) rule: String,
        pub(crate) subject: String,
        pub(crate) notice: String,
        pub(crate) channel: String,
        pub(crate) body: String,
        pub(crate) created_at: DbTime,
        pub(crate) attempt: i64,
        pub(crate) run_after: DbTime,
        pub(crate) delivered_at: Option<DbTime>,
        pub(crate) failed_at: Option<DbTime>,
        pub(crate) last_error: Option<String>,
    }
}

impl AlertDeliveryRow {
    pub(crate) fn damaged(&self, column: &'static str) -> StoreError {
        damaged("tidemill_alert_delivery", column, self.id)
    }

    pub(crate) fn state(&self) -> Result<DeliveryState, StoreError> {
        match (self.delivered_at, self.failed_at) {
            (None, None) => Ok(DeliveryState::Waiting {
                attempt: u32::try_from(self.attempt).map_err(|_| self.damaged("attempt"))?,
                run_after: self.run_after.0,
            }),
            (Some(at), None) => Ok(DeliveryState::Delivered { at: at.0 }),
            (None, Some(at)) => Ok(DeliveryState::Failed { at: at.0 }),
            (Some(_), Some(_)) => Err(self.damaged("failed_at")),
        }
    }

    pub(crate) fn set_state(&mut self, state: DeliveryState) {
        match state {
            DeliveryState::Waiting { attempt, run_after } => {
                (self.attempt, self.run_after) = (attempt.into(), run_after.into());
            }
            DeliveryState::Delivered { at } => self.delivered_at = Some(at.into()),
            DeliveryState::Failed { at } => self.failed_at = Some(at.into()),
        }
    }
}
