//! Silences: nobody is told for a while, and the audit log says who wanted that and why.

use super::object;
use crate::error::StoreError;
use crate::row::AlertSilenceRow;
use crate::tx::Alerts;
use tidemill_domain::alert::silence::{self, SilenceRequest};
use tidemill_domain::alert::{BadSilence, Silence, Subject};
use tidemill_domain::audit::{Actor, AuditEntry};

/// What a silence is for: one alert, or all alerts of a rule.
fn silenced(rule: &str, subject: Option<&Subject>) -> String {
    match subject {
        Some(subject) => object(rule, subject),
        None => format!("alert/{rule}"),
    }
}

impl Alerts<'_> {
    /// Silences a rule, or one subject of it, from now on. It takes the place of a silence for exactly the same.
    pub async fn silence(
        &mut self,
        request: &SilenceRequest,
    ) -> Result<Result<Silence, BadSilence>, StoreError> {
        let reason = match request.check().and_then(|()| silence::reason(&request.reason)) {
            Ok(reason) => reason,
            Err(bad) => return Ok(Err(bad)),
        };
        let now = self.now().await?;
        let subject = request.subject.as_ref();
        self.alert_silence_end(&request.rule, subject.map(Subject::as_str), now.into()).await?;
        let entry =
            AuditEntry::new(request.actor.clone(), "alert.silence", &silenced(&request.rule, subject))
                .because(reason);
        let mut row = AlertSilenceRow {
            id: 0,
            rule: request.rule.clone(),
            subject: subject.map(|subject| subject.as_str().to_owned()),
            until: now.plus(request.length).into(),
            reason: reason.to_owned(),
            actor: entry.actor.name.clone(),
            created_at: now.into(),
            ended_at: None,
        };
        row.id = self.alert_silence_insert(&row).await?;
        self.audit_insert(&entry, now.into()).await?;
        Ok(Ok(row.try_into()?))
    }

    /// Ends the silence of exactly this rule and subject; false when there was none in force.
    pub async fn unsilence(
        &mut self,
        rule: &str,
        subject: Option<&Subject>,
        actor: &Actor,
    ) -> Result<bool, StoreError> {
        let now = self.now().await?;
        let ended = self.alert_silence_end(rule, subject.map(Subject::as_str), now.into()).await? > 0;
        if ended {
            let entry = AuditEntry::new(actor.clone(), "alert.unsilence", &silenced(rule, subject));
            self.audit_insert(&entry, now.into()).await?;
        }
        Ok(ended)
    }

    /// The silences that are in force, the longest first.
    pub async fn silences(&mut self, limit: u32) -> Result<Vec<Silence>, StoreError> {
        let now = self.now().await?;
        let rows = self.alert_silence_in_force(now.into(), limit.into()).await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }
}
