//! A program defines its schedules. An unchanged definition keeps everything, pause and next tick included.

use super::{SCHEDULE_CHANGED, object};
use crate::error::Result;
use crate::tx::Schedules;
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::schedule::{Plan, Schedule};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defined {
    New,
    Unchanged,
    /// Its next tick is the first from now on.
    Changed,
}

impl Schedules<'_> {
    /// `plan` is the parsed definition.
    #[crate::boxed]
    pub async fn define(&mut self, schedule: &Schedule, plan: &Plan, actor: &Actor) -> Result<Defined> {
        let now = self.now().await?;
        let next_at = plan.timetable.next_after(now);
        let fingerprint = schedule.fingerprint();
        let mut entry = AuditEntry::new(actor.clone(), "schedule.define", &object(&schedule.name))
            .because(&format!("job {}, {} in {}", schedule.job, schedule.cron, schedule.zone));
        let defined = if self.schedule_insert(schedule, now, next_at).await? == 1 {
            Defined::New
        } else {
            let before = self.schedule_lock(&schedule.name).await?;
            if before.as_ref().is_some_and(|before| before.fingerprint == fingerprint) {
                return Ok(Defined::Unchanged);
            }
            if let Some(before) = &before {
                entry = entry.from_to(&before.fingerprint, &fingerprint);
            }
            self.schedule_redefine(schedule, now, next_at).await?;
            Defined::Changed
        };
        self.audit_insert(&entry, now).await?;
        self.wake(SCHEDULE_CHANGED);
        Ok(defined)
    }
}
