//! Alerts: load the row, apply the domain's rule, save the row with its audit entry and deliveries in one transaction.
//!
//! Judging alerts and settling deliveries needs the evaluator's lease, confirmed first, so there is one evaluator at a
//! time. Silences need no lease: they hold notices back for a while, and the audit log keeps who asked and why.

pub(crate) mod delivery;

pub use delivery::{Delivery, DeliveryRecord};

use crate::codec::DbTime;
use crate::error::Result;
use crate::statement::{Columns, One, Total, statements, stored};
use crate::tx::Alerts;
use std::time::Duration;
use tidemill_domain::alert::silence::{self, SilenceRequest, quietest};
use tidemill_domain::alert::{self, AlertState, BadSilence, Notice, Reading, Severity, Silence, Subject};
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
    /// What is wrong, beyond the value; none keeps the last.
    pub detail: Option<&'a str>,
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
        pub detail: Option<String>,
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
        let silences = self.alert_silence_covering(judging.rule, judging.subject.as_str(), now).await?;
        let silence = quietest(&silences, judging.rule, judging.subject, now).cloned();
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
            for channel in judging.channels {
                self.alert_delivery_insert((judging.rule, judging.subject), told, channel, &body, now)
                    .await?;
            }
            self.wake(ALERT_DELIVERY);
        }
        Ok(judgement)
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

    /// Deletes alerts, silences and deliveries that ended more than `age` ago, at most `limit` of each; counts them.
    pub async fn prune(&mut self, age: Duration, limit: u32) -> Result<u64> {
        let before = self.now().await?.minus(age);
        let alerts = self.alert_prune(before, limit).await?;
        let silences = self.alert_silence_prune(before, limit).await?;
        let deliveries = self.alert_delivery_prune(before, limit).await?;
        Ok(alerts + silences + deliveries)
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

stored! {
    impl Silence in ("tidemill_alert_silence", "id") {
        id, rule, subject, until, reason, by = "actor", created_at, ended_at,
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

statements! {
    fn alert_lock(rule: &str, subject: &str) -> Option<LockedAlert> {
        "select rule, subject, state, since, fired_at, resolved_at, announced_at, value from tidemill_alert
         where rule = $1 and subject = $2 {for update}"
    }

    fn alert_save(judging: &Judging<'_>, judgement: &Judgement, announced_at: Option<Timestamp>) -> () {
        bind(
            judging.rule, judging.subject.as_str(), judgement.after.as_str(), instants(judgement.after)[0],
            instants(judgement.after)[1], instants(judgement.after)[2], announced_at, judgement.value,
            judging.severity.as_str(), judgement.at, judging.detail,
        )
        "insert into tidemill_alert
             (rule, subject, state, since, fired_at, resolved_at, announced_at, value, severity, updated_at,
              detail)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
         on conflict (rule, subject) do update
         set state = excluded.state, since = excluded.since, fired_at = excluded.fired_at,
             resolved_at = excluded.resolved_at, announced_at = excluded.announced_at,
             value = excluded.value, severity = excluded.severity, updated_at = excluded.updated_at,
             detail = coalesce(excluded.detail, tidemill_alert.detail)"
    }

    /// Breached alerts, and alerts whose end was not announced.
    fn alert_open(limit: u32) -> Vec<AlertRecord> {
        "select rule, subject, state, since, fired_at, resolved_at, announced_at, value, severity, updated_at,
                detail
         from tidemill_alert where state in ('pending', 'firing') or announced_at is not null
         order by rule, subject limit $1"
    }

    /// Firing first, then pending, then by the latest change.
    fn alert_list(limit: u32) -> Vec<AlertRecord> {
        "select rule, subject, state, since, fired_at, resolved_at, announced_at, value, severity, updated_at,
                detail
         from tidemill_alert order by state <> 'firing', state <> 'pending', updated_at desc, rule, subject
         limit $1"
    }

    /// Deletes alerts that ended long ago and whose end was announced.
    fn alert_prune(updated_before: Timestamp, limit: u32) -> u64 {
        "delete from tidemill_alert
         where (rule, subject) in (
             select rule, subject
             from tidemill_alert
             where state in ('inactive', 'resolved')
               and announced_at is null
               and updated_at < $1
             limit $2
         )"
    }

    fn alert_silence_insert(silence: &Silence) -> One<i64> {
        bind(
            &silence.rule, silence.subject.as_ref().map(Subject::as_str), silence.until,
            &silence.reason, &silence.by, silence.created_at,
        )
        "insert into tidemill_alert_silence (rule, subject, until, reason, actor, created_at)
         values ($1, $2, $3, $4, $5, $6) returning id"
    }

    /// Of exactly this rule and subject; returns how many.
    fn alert_silence_end(rule: &str, subject: Option<&str>, now: Timestamp) -> u64 {
        "update tidemill_alert_silence set ended_at = $3
         where rule = $1 and subject {is} $2 and ended_at is null and until > $3"
    }

    fn alert_silence_in_force(now: Timestamp, limit: i64) -> Vec<Silence> {
        "select id, rule, subject, until, reason, actor, created_at, ended_at from tidemill_alert_silence
         where ended_at is null and until > $1 order by until desc, id limit $2"
    }

    /// In force for one alert; [`Silence::covers`] decides.
    fn alert_silence_covering(rule: &str, subject: &str, now: Timestamp) -> Vec<Silence> {
        "select id, rule, subject, until, reason, actor, created_at, ended_at from tidemill_alert_silence
         where rule = $1 and (subject is null or subject = $2 or substr($2, 1, length(subject) + 1) = subject || '/')
           and ended_at is null and until > $3"
    }

    fn alert_silence_prune(ended_before: Timestamp, limit: u32) -> u64 {
        "delete from tidemill_alert_silence
         where id in (
             select id
             from tidemill_alert_silence
             where {least}(until, coalesce(ended_at, until)) < $1
             limit $2
         )"
    }

    /// Processes declared dead within the last `period`.
    pub fn Alerts::died(period: Duration) at now -> Total {
        bind(now.minus(period))
        "select count(*) from tidemill_process where state = 'dead' and ended_at > $1"
    }

    pub fn Alerts::live() at now -> Total {
        bind(now)
        "select count(*) from tidemill_process where state = 'live' and until > $1"
    }
}
