//! Alerts: load the row, apply the domain's rule, save the row with its audit entry and deliveries in one transaction.
//!
//! Judging alerts and settling deliveries needs the evaluator's lease, confirmed first, so there is one evaluator at a
//! time. Silences need no lease: they hold notices back for a while, and the audit log keeps who asked and why.

pub(crate) mod delivery;

pub use delivery::{Delivery, DeliveryRecord};

use crate::codec::DbTime;
use crate::error::Result;
use crate::statement::{Columns, Stored, stored};
use crate::tx::Alerts;
use std::time::Duration;
use tidemill_domain::alert::silence::{self, SilenceRequest, quietest};
use tidemill_domain::alert::{
    self, AlertState, BadSilence, Notice, Reading, Severity, Silence, Subject,
};
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::time::Timestamp;

/// Wake-up topic: a notice waits to be delivered.
pub const ALERT_DELIVERY: &str = "alert_delivery";

/// One rule for one subject.
#[derive(Clone, Copy, Debug)]
pub struct Judging<'a> {
    pub rule: &'a str,
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
    /// The alert began or ended.
    pub notice: Option<Notice>,
    /// The notice to send; later than `notice` if a silence delayed it.
    pub told: Option<Notice>,
    /// The silence that holds the notice back.
    pub silence: Option<Silence>,
    pub value: Option<f64>,
    /// By the database's clock.
    pub at: Timestamp,
}

stored! {
    #[derive(Clone, PartialEq, Debug)]
    pub struct AlertRecord in ALERT |row| {
        pub rule: String,
        pub subject: Subject,
        pub state: AlertState => state(row)?,
        pub value: Option<f64>,
        pub severity: Severity,
        pub updated_at: Timestamp,
        /// The silence that holds notices back.
        pub silence: Option<Silence> => None,
    }
}

const ALERT: (&str, &str) = ("tidemill_alert", "rule/subject");

const SILENCES_MAX: i64 = 10_000;

fn object(rule: &str, subject: &Subject) -> String {
    format!("alert/{rule}/{subject}")
}

impl Alerts<'_> {
    /// Applies a reading to an alert: saves its state, the audit entry of what began or ended, and one notice per
    /// channel, worded by `compose`. Confirm the evaluator's lease first.
    pub async fn judge(
        &mut self,
        judging: Judging<'_>,
        compose: impl FnOnce(&Judgement, Notice) -> String,
    ) -> Result<Judgement> {
        let found = self.alert_lock(judging.rule, judging.subject.as_str()).await?;
        let now = self.now().await?;
        let before = found.as_ref().map_or(AlertState::Inactive, |found| found.state);
        let known = found.as_ref().and_then(|found| found.announced_at);
        let (after, notice) = alert::next(before, judging.reading, judging.hold, now);
        let silence = self.silence_of(judging.rule, judging.subject, now).await?;
        let told = alert::owed(after, known, silence.as_ref());
        let value = judging.reading.value().or_else(|| found.and_then(|found| found.value));
        let judgement = Judgement { before, after, notice, told, silence, value, at: now };
        if after != before || told.is_some() || (after.is_active() && judging.reading != Reading::Unknown) {
            let announced = told.map_or(known, |told| alert::announced(after, told));
            self.alert_save(&judging, &judgement, announced).await?;
        }
        if let Some(notice) = notice {
            self.audit_insert(&audit_entry(&judging, &judgement, notice), now).await?;
        }
        if let Some(told) = told
            && !judging.channels.is_empty()
        {
            let body = compose(&judgement, told);
            self.queue(&judging, told, &body, now).await?;
        }
        Ok(judgement)
    }

    async fn silence_of(&mut self, rule: &str, subject: &Subject, now: Timestamp) -> Result<Option<Silence>> {
        let silences = self.alert_silence_covering(rule, subject.as_str(), now).await?;
        Ok(quietest(&silences, rule, subject, now).cloned())
    }

    async fn queue(
        &mut self,
        judging: &Judging<'_>,
        notice: Notice,
        body: &str,
        now: Timestamp,
    ) -> Result<()> {
        for channel in judging.channels {
            self.alert_delivery_insert(judging, notice, channel, body, now).await?;
        }
        self.wake(ALERT_DELIVERY);
        Ok(())
    }

    /// Alerts that are breached, or whose end was not announced yet.
    pub async fn open(&mut self, limit: u32) -> Result<Vec<AlertRecord>> {
        let records = self.alert_open(limit).await?;
        self.with_silences(records).await
    }

    /// Firing alerts first. Alerts that were never breached have no row.
    pub async fn list(&mut self, limit: u32) -> Result<Vec<AlertRecord>> {
        let records = self.alert_list(limit).await?;
        self.with_silences(records).await
    }

    async fn with_silences(&mut self, mut records: Vec<AlertRecord>) -> Result<Vec<AlertRecord>> {
        let now = self.now().await?;
        let silences = self.alert_silence_in_force(now, SILENCES_MAX).await?;
        for record in &mut records {
            record.silence = quietest(&silences, &record.rule, &record.subject, now).cloned();
        }
        Ok(records)
    }

    /// Deletes alerts, silences and deliveries that ended more than `age` ago, at most `limit` of each; returns how
    /// many.
    pub async fn prune(&mut self, age: Duration, limit: u32) -> Result<u64> {
        let before = self.now().await?.minus(age);
        let alerts = self.alert_prune(before, limit).await?;
        let silences = self.alert_silence_prune(before, limit).await?;
        let deliveries = self.alert_delivery_prune(before, limit).await?;
        Ok(alerts + silences + deliveries)
    }

    /// Processes declared dead within the last `period`.
    pub async fn died(&mut self, period: Duration) -> Result<u64> {
        let since = self.now().await?.minus(period);
        Ok(self.alert_count_died(since).await?.unsigned_abs())
    }

    pub async fn live(&mut self) -> Result<u64> {
        let now = self.now().await?;
        Ok(self.alert_count_live(now).await?.unsigned_abs())
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

stored! {
    pub(crate) struct LockedAlert in ALERT |row| {
        state: AlertState => state(row)?,
        announced_at: Option<Timestamp>,
        value: Option<f64>,
    }
}

fn state(row: &Columns<'_>) -> Result<AlertState, sqlx::Error> {
    let instants = (row.get("since")?, row.get("fired_at")?, row.get("resolved_at")?);
    Ok(match (row.get::<String>("state")?.as_str(), instants) {
        ("inactive", (None, None, None)) => AlertState::Inactive,
        ("pending", (Some(since), None, None)) => AlertState::Pending { since },
        ("firing", (Some(since), Some(fired_at), None)) => AlertState::Firing { since, fired_at },
        ("resolved", (None, Some(fired_at), Some(at))) => AlertState::Resolved { fired_at, at },
        _ => return Err(row.damaged("state")),
    })
}

/// Pending since, fired at and resolved at, as stored for a state.
pub(crate) fn instants(state: AlertState) -> [Option<DbTime>; 3] {
    match state {
        AlertState::Inactive => [None; 3],
        AlertState::Pending { since } => [Some(since.into()), None, None],
        AlertState::Firing { since, fired_at } => [Some(since.into()), Some(fired_at.into()), None],
        AlertState::Resolved { fired_at, at } => [None, Some(fired_at.into()), Some(at.into())],
    }
}

/// The audited object: one alert, or all alerts of a rule.
fn silenced(rule: &str, subject: Option<&Subject>) -> String {
    match subject {
        Some(subject) => object(rule, subject),
        None => format!("alert/{rule}"),
    }
}

impl Stored for Silence {
    const PLACE: (&'static str, &'static str) = ("tidemill_alert_silence", "id");

    fn from_columns(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.get("id")?,
            rule: row.get("rule")?,
            subject: row.get("subject")?,
            until: row.get("until")?,
            reason: row.get("reason")?,
            by: row.get("actor")?,
            created_at: row.get("created_at")?,
            ended_at: row.get("ended_at")?,
        })
    }
}

impl Alerts<'_> {
    /// Silences a rule, or one subject of it, from now on. Replaces a silence of exactly the same.
    #[crate::boxed]
    pub async fn silence(&mut self, request: &SilenceRequest) -> Result<Result<Silence, BadSilence>> {
        let reason = match request.check().and_then(|()| silence::reason(&request.reason)) {
            Ok(reason) => reason,
            Err(bad) => return Ok(Err(bad)),
        };
        let now = self.now().await?;
        let subject = request.subject.as_ref();
        self.alert_silence_end(&request.rule, subject.map(Subject::as_str), now).await?;
        let entry =
            AuditEntry::new(request.actor.clone(), "alert.silence", &silenced(&request.rule, subject))
                .because(reason);
        let mut silence = Silence {
            id: 0,
            rule: request.rule.clone(),
            subject: request.subject.clone(),
            until: now.plus(request.length),
            reason: reason.to_owned(),
            by: entry.actor.name.clone(),
            created_at: now,
            ended_at: None,
        };
        silence.id = self.alert_silence_insert(&silence).await?;
        self.audit_insert(&entry, now).await?;
        Ok(Ok(silence))
    }

    /// Ends the silence of exactly this rule and subject; false if none was in force.
    #[crate::boxed]
    pub async fn unsilence(&mut self, rule: &str, subject: Option<&Subject>, actor: &Actor) -> Result<bool> {
        let now = self.now().await?;
        let ended = self.alert_silence_end(rule, subject.map(Subject::as_str), now).await? > 0;
        if ended {
            let entry = AuditEntry::new(actor.clone(), "alert.unsilence", &silenced(rule, subject));
            self.audit_insert(&entry, now).await?;
        }
        Ok(ended)
    }

    /// Silences in force, the longest first.
    pub async fn silences(&mut self, limit: u32) -> Result<Vec<Silence>> {
        let now = self.now().await?;
        Ok(self.alert_silence_in_force(now, limit.into()).await?)
    }
}
