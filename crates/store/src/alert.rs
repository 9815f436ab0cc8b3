//! Alerts: load the row, ask the domain, save; with the audit row and the deliveries in the same transaction.
//!
//! Whoever judges alerts or settles deliveries does so under the lease of the evaluator and confirms it first, so
//! there is one at a time. Silences are made by anybody, at any time.

pub(crate) mod delivery;
mod silence;

pub use delivery::{Delivery, DeliveryRecord};

use delivery::AlertDeliveryRow;

use crate::codec::DbTime;
use crate::error::{StoreError, damaged};
use crate::tx::Alerts;
use std::time::Duration;
use tidemill_domain::alert::silence::quietest;
use tidemill_domain::alert::{self, AlertState, Notice, Reading, Severity, Silence, Subject, Voice};
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::time::Timestamp;

/// Topic of the wake-up that is sent when a notice waits to be delivered.
pub const ALERT_DELIVERY: &str = "alert_delivery";

/// What is to be judged: one rule for one subject.
#[derive(Clone, Copy, Debug)]
pub struct Judging<'a> {
    pub rule: &'a str,
    /// What it is about in this case.
    pub subject: &'a Subject,
    pub severity: Severity,
    /// How long the condition has to be breached.
    pub hold: Duration,
    pub channels: &'a [String],
    pub reading: Reading,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Judgement {
    pub before: AlertState,
    pub after: AlertState,
    /// What began or ended by that.
    pub notice: Option<Notice>,
    /// What people are told; later than `notice` if they were not to be told then.
    pub told: Option<Notice>,
    /// The silence that keeps people from being told.
    pub silence: Option<Silence>,
    pub value: Option<f64>,
    /// When, by the database's clock.
    pub at: Timestamp,
}

#[derive(Clone, PartialEq, Debug)]
pub struct AlertRecord {
    pub rule: String,
    pub subject: Subject,
    pub state: AlertState,
    pub value: Option<f64>,
    pub severity: Severity,
    /// When that was last known.
    pub updated_at: Timestamp,
    /// The silence that keeps people from being told, if one does.
    pub silence: Option<Silence>,
}

/// Most silences that are read for a list.
const SILENCES_MAX: i64 = 10_000;

fn object(rule: &str, subject: &Subject) -> String {
    format!("alert/{rule}/{subject}")
}

impl Alerts<'_> {
    /// Decides what a reading means for an alert, and writes it down: the state, the audit row of what began or
    /// ended, and for each channel the notice that `compose` words. Confirm the evaluator's lease first.
    pub async fn judge(
        &mut self,
        judging: Judging<'_>,
        compose: impl FnOnce(&Judgement, Notice) -> String,
    ) -> Result<Judgement, StoreError> {
        let row = self.alert_lock(judging.rule, judging.subject.as_str()).await?;
        let now = self.now().await?;
        let before = row.as_ref().map_or(Ok(AlertState::Inactive), AlertRow::state)?;
        let known = row.as_ref().and_then(|row| row.announced_at).map(Timestamp::from);
        let (after, notice) = alert::next(before, judging.reading, judging.hold, now);
        let silence = self.silence_of(judging.rule, judging.subject, now).await?;
        let told = alert::owed(after, known, Voice::from(silence.as_ref()));
        let value = judging.reading.value().or_else(|| row.as_ref().and_then(|row| row.value));
        let judgement = Judgement { before, after, notice, told, silence, value, at: now };
        if after != before || told.is_some() || (after.is_active() && judging.reading != Reading::Unknown) {
            let announced = told.map_or(known, |told| alert::announced(after, told));
            self.save_judgement(&judging, &judgement, announced).await?;
        }
        if let Some(notice) = notice {
            self.audit_insert(&audit_entry(&judging, &judgement, notice), now.into()).await?;
        }
        if let Some(told) = told
            && !judging.channels.is_empty()
        {
            let body = compose(&judgement, told);
            self.queue(&judging, told, &body, now).await?;
        }
        Ok(judgement)
    }

    async fn silence_of(
        &mut self,
        rule: &str,
        subject: &Subject,
        now: Timestamp,
    ) -> Result<Option<Silence>, StoreError> {
        let silences = self.alert_silence_covering(rule, subject.as_str(), now.into()).await?;
        Ok(quietest(&silences, rule, subject, now).cloned())
    }

    async fn save_judgement(
        &mut self,
        judging: &Judging<'_>,
        judgement: &Judgement,
        announced: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        let mut row = AlertRow {
            rule: judging.rule.to_owned(),
            subject: judging.subject.as_str().to_owned(),
            state: String::new(),
            since: None,
            fired_at: None,
            resolved_at: None,
            announced_at: announced.map(DbTime),
            value: judgement.value,
            severity: judging.severity.as_str().to_owned(),
            updated_at: judgement.at.into(),
        };
        row.set_state(judgement.after);
        Ok(self.alert_save(&row).await?)
    }

    async fn queue(
        &mut self,
        judging: &Judging<'_>,
        notice: Notice,
        body: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        for channel in judging.channels {
            self.alert_delivery_insert(&AlertDeliveryRow {
                id: 0,
                rule: judging.rule.to_owned(),
                subject: judging.subject.as_str().to_owned(),
                notice: notice.as_str().to_owned(),
                channel: channel.clone(),
                body: body.to_owned(),
                created_at: now.into(),
                attempt: 0,
                run_after: now.into(),
                delivered_at: None,
                failed_at: None,
                last_error: None,
            })
            .await?;
        }
        self.wake(ALERT_DELIVERY);
        Ok(())
    }

    /// Alerts that are breached, or of which people have not heard the end.
    pub async fn open(&mut self, limit: u32) -> Result<Vec<AlertRecord>, StoreError> {
        let rows = self.alert_open(limit.into()).await?;
        self.records(rows).await
    }

    /// The alerts, the firing first. What was never breached is not among them.
    pub async fn list(&mut self, limit: u32) -> Result<Vec<AlertRecord>, StoreError> {
        let rows = self.alert_list(limit.into()).await?;
        self.records(rows).await
    }

    async fn records(&mut self, rows: Vec<AlertRow>) -> Result<Vec<AlertRecord>, StoreError> {
        let now = self.now().await?;
        let silences = self.alert_silence_in_force(now.into(), SILENCES_MAX).await?;
        rows.into_iter().map(|row| record(&row, &silences, now)).collect()
    }

    /// Forgets alerts, silences and deliveries that ended more than `age` ago, at most `limit` of each; returns
    /// how many.
    pub async fn prune(&mut self, age: Duration, limit: u32) -> Result<u64, StoreError> {
        let before: DbTime = self.now().await?.minus(age).into();
        let alerts = self.alert_prune(before, limit.into()).await?;
        let silences = self.alert_silence_prune(before, limit.into()).await?;
        let deliveries = self.alert_delivery_prune(before, limit.into()).await?;
        Ok(alerts + silences + deliveries)
    }

    /// How many processes were declared dead within the last `period`.
    pub async fn died(&mut self, period: Duration) -> Result<u64, StoreError> {
        let since = self.now().await?.minus(period);
        Ok(self.alert_count_died(since.into()).await?.unsigned_abs())
    }

    /// How many processes are alive.
    pub async fn live(&mut self) -> Result<u64, StoreError> {
        let now = self.now().await?;
        Ok(self.alert_count_live(now.into()).await?.unsigned_abs())
    }
}

fn audit_entry(judging: &Judging<'_>, judgement: &Judgement, notice: Notice) -> AuditEntry {
    let object = object(judging.rule, judging.subject);
    let reason = match judging.reading {
        Reading::Breached(value) | Reading::Fine(value) => format!("the value is {value}"),
        Reading::Gone => "the rule or its subject is gone".to_owned(),
        Reading::Unknown => "nothing is known".to_owned(),
    };
    AuditEntry::new(Actor::system(), &format!("alert.{notice}"), &object)
        .from_to(judgement.before.as_str(), judgement.after.as_str())
        .because(&reason)
}

fn record(row: &AlertRow, silences: &[Silence], now: Timestamp) -> Result<AlertRecord, StoreError> {
    let subject = Subject::new(&row.subject).map_err(|_| row.damaged("subject"))?;
    Ok(AlertRecord {
        silence: quietest(silences, &row.rule, &subject, now).cloned(),
        rule: row.rule.clone(),
        subject,
        state: row.state()?,
        value: row.value,
        severity: row.severity.parse().map_err(|_| row.damaged("severity"))?,
        updated_at: row.updated_at.into(),
    })
}

crate::statement::row! {
    #[derive(Clone, Debug)]
    pub(crate) struct AlertRow {
        pub(crate) rule: String,
        pub(crate) subject: String,
        pub(crate) state: String,
        pub(crate) since: Option<DbTime>,
        pub(crate) fired_at: Option<DbTime>,
        pub(crate) resolved_at: Option<DbTime>,
        pub(crate) announced_at: Option<DbTime>,
        pub(crate) value: Option<f64>,
        pub(crate) severity: String,
        pub(crate) updated_at: DbTime,
    }
}

impl AlertRow {
    pub(crate) fn damaged(&self, column: &'static str) -> StoreError {
        damaged("tidemill_alert", column, format!("{}/{}", self.rule, self.subject))
    }

    pub(crate) fn state(&self) -> Result<AlertState, StoreError> {
        match (self.state.as_str(), self.since, self.fired_at, self.resolved_at) {
            ("inactive", None, None, None) => Ok(AlertState::Inactive),
            ("pending", Some(since), None, None) => Ok(AlertState::Pending { since: since.0 }),
            ("firing", Some(since), Some(fired_at), None) => {
                Ok(AlertState::Firing { since: since.0, fired_at: fired_at.0 })
            }
            ("resolved", None, Some(fired_at), Some(at)) => {
                Ok(AlertState::Resolved { fired_at: fired_at.0, at: at.0 })
            }
            _ => Err(self.damaged("state")),
        }
    }

    pub(crate) fn set_state(&mut self, state: AlertState) {
        let (since, fired_at, resolved_at) = match state {
            AlertState::Inactive => (None, None, None),
            AlertState::Pending { since } => (Some(since), None, None),
            AlertState::Firing { since, fired_at } => (Some(since), Some(fired_at), None),
            AlertState::Resolved { fired_at, at } => (None, Some(fired_at), Some(at)),
        };
        state.as_str().clone_into(&mut self.state);
        (self.since, self.fired_at) = (since.map(DbTime), fired_at.map(DbTime));
        self.resolved_at = resolved_at.map(DbTime);
    }
}
