//! A program defines its schedules; operators pause, resume and remove them. An unchanged definition keeps everything,
//! pause and next tick included. Ticks during a pause do not happen and are not made up for.

use super::list::ScheduleRecord;
use super::{SCHEDULE_CHANGED, object};
use crate::error::{Result, damaged};
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

impl Schedules<'_> {
    /// A paused schedule stays paused, with its first reason. `None` if there is no such schedule.
    #[crate::boxed]
    pub async fn pause(&mut self, name: &str, actor: &Actor, reason: &str) -> Result<Option<ScheduleRecord>> {
        let Some(mut row) = self.schedule_lock(name).await? else { return Ok(None) };
        if row.paused_at.is_none() {
            let now = self.now().await?;
            let entry = AuditEntry::new(actor.clone(), "schedule.pause", &object(name))
                .from_to("active", "paused")
                .because(reason);
            row.paused_at = Some(now);
            row.paused_by = Some(entry.actor.name.clone());
            row.pause_reason = entry.reason.clone();
            self.schedule_save_pause(&row).await?;
            self.audit_insert(&entry, now).await?;
        }
        row.try_into().map(Some)
    }

    /// Deletes a schedule and its ticks. False if there is no such schedule.
    #[crate::boxed]
    pub async fn remove(&mut self, name: &str, actor: &Actor, reason: &str) -> Result<bool> {
        if self.schedule_delete(name).await? == 0 {
            return Ok(false);
        }
        let now = self.now().await?;
        let entry = AuditEntry::new(actor.clone(), "schedule.delete", &object(name)).because(reason);
        self.audit_insert(&entry, now).await?;
        Ok(true)
    }

    /// Resumes from the first tick after now. `None` if there is no such schedule.
    #[crate::boxed]
    pub async fn resume(
        &mut self,
        name: &str,
        actor: &Actor,
        reason: Option<&str>,
    ) -> Result<Option<ScheduleRecord>> {
        let Some(mut row) = self.schedule_lock(name).await? else { return Ok(None) };
        if row.paused_at.is_some() {
            let schedule = match &row.schedule {
                Ok(schedule) => schedule,
                Err(_) => return row.try_into().map(Some),
            };
            let plan = schedule.plan().map_err(|_| damaged("tidemill_schedule", "cron", name))?;
            let now = self.now().await?;
            (row.paused_at, row.paused_by, row.pause_reason) = (None, None, None);
            row.next_at = plan.timetable.next_after(now);
            (row.look_at, row.is_waiting) = (row.next_at, false);
            self.schedule_save_pause(&row).await?;
            self.schedule_save_state(&row).await?;
            let entry =
                AuditEntry::new(actor.clone(), "schedule.resume", &object(name)).from_to("paused", "active");
            self.audit_insert(&entry.with_reason(reason), now).await?;
            self.wake(SCHEDULE_CHANGED);
        }
        row.try_into().map(Some)
    }
}
