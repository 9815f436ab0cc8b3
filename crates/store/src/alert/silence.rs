//! Silences: hold notices back for a while; the audit log keeps who asked and why.

use super::object;
use crate::error::Result;
use crate::statement::{Columns, Stored};
use crate::tx::Alerts;
use tidemill_domain::alert::silence::{self, SilenceRequest};
use tidemill_domain::alert::{BadSilence, Silence, Subject};
use tidemill_domain::audit::{Actor, AuditEntry};

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
