//! Operator actions on a schedule: pause and resume. Ticks during a pause do not happen and are not made up for.

use super::list::ScheduleRecord;
use super::{SCHEDULE_CHANGED, object};
use crate::error::{Result, damaged};
use crate::tx::Schedules;
use tidemill_domain::audit::{Actor, AuditEntry};

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
