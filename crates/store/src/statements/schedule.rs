//! Statements on `tidemill_schedule` and `tidemill_schedule_tick`.

use crate::codec::DbTime;
use crate::schedule::TickRecord;
use crate::schedule::list::{ScheduleRow, parameters, windows};
use crate::statement::{One, list, statements};
use tidemill_domain::schedule::Schedule;
use tidemill_domain::time::Timestamp;

statements! {
    /// Does nothing if the name exists; waits for a transaction that inserts it.
    fn schedule_insert(schedule: &Schedule, now: Timestamp, next_at: Option<Timestamp>) -> u64 {
        bind(
            &schedule.name, &schedule.job, &schedule.cron, &schedule.zone, windows(schedule), &schedule.outside,
            &schedule.missed, &schedule.overlap, schedule.grace.as_secs(), parameters(schedule),
            schedule.fingerprint(), now, next_at, false, next_at,
        )
        "insert into tidemill_schedule
             (name, job, cron, zone, windows, outside, missed, overlap, grace_seconds, parameters, fingerprint,
              defined_at, next_at, is_waiting, look_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
         on conflict (name) do nothing"
    }

    fn schedule_redefine(schedule: &Schedule, now: Timestamp, next_at: Option<Timestamp>) -> () {
        bind(
            &schedule.name, &schedule.job, &schedule.cron, &schedule.zone, windows(schedule), &schedule.outside,
            &schedule.missed, &schedule.overlap, schedule.grace.as_secs(), parameters(schedule),
            schedule.fingerprint(), now, next_at, false, next_at,
        )
        "update tidemill_schedule
         set job = $2, cron = $3, zone = $4, windows = $5, outside = $6, missed = $7, overlap = $8,
             grace_seconds = $9, parameters = $10, fingerprint = $11, defined_at = $12, next_at = $13,
             is_waiting = $14, look_at = $15
         where name = $1"
    }

    fn schedule_lock(name: &str) -> Option<ScheduleRow> {
        "select name, job, cron, zone, windows, outside, missed, overlap, grace_seconds, parameters, fingerprint,
                defined_at, next_at, is_waiting, look_at, last_tick_at, paused_at, paused_by, pause_reason
         from tidemill_schedule where name = $1 {for update}"
    }

    fn schedule_find(name: &str) -> Option<ScheduleRow> {
        "select name, job, cron, zone, windows, outside, missed, overlap, grace_seconds, parameters, fingerprint,
                defined_at, next_at, is_waiting, look_at, last_tick_at, paused_at, paused_by, pause_reason
         from tidemill_schedule where name = $1"
    }

    /// Locks the longest due one of these jobs; skips locked ones.
    fn schedule_lock_due(now: Timestamp, jobs: &[&str]) -> Option<ScheduleRow> {
        bind(now, list(jobs))
        "select name, job, cron, zone, windows, outside, missed, overlap, grace_seconds, parameters, fingerprint,
                defined_at, next_at, is_waiting, look_at, last_tick_at, paused_at, paused_by, pause_reason
         from tidemill_schedule where look_at <= $1 and paused_at is null and job {in $2}
         order by look_at, name limit 1 {for update skip locked}"
    }

    fn schedule_next_look(jobs: &[&str]) -> One<Option<DbTime>> {
        bind(list(jobs))
        "select min(look_at) from tidemill_schedule where paused_at is null and job {in $1}"
    }

    fn schedule_save_state(row: &ScheduleRow) -> () {
        bind(&row.name, row.next_at, row.is_waiting, row.look_at, row.last_tick_at)
        "update tidemill_schedule set next_at = $2, is_waiting = $3, look_at = $4, last_tick_at = $5
         where name = $1"
    }

    fn schedule_save_pause(row: &ScheduleRow) -> () {
        bind(&row.name, row.paused_at, &row.paused_by, &row.pause_reason)
        "update tidemill_schedule set paused_at = $2, paused_by = $3, pause_reason = $4 where name = $1"
    }

    fn schedule_list(limit: u32) -> Vec<ScheduleRow> {
        "select name, job, cron, zone, windows, outside, missed, overlap, grace_seconds, parameters, fingerprint,
                defined_at, next_at, is_waiting, look_at, last_tick_at, paused_at, paused_by, pause_reason
         from tidemill_schedule order by name limit $1"
    }

    /// Whether an execution of one of its ticks, or a later one of the same instance, has not ended or is due for an
    /// automatic restart.
    fn schedule_is_unresolved(name: &str) -> One<bool> {
        "select exists (
             select 1
             from batch_job_execution e
             join batch_job_execution first on first.job_instance_id = e.job_instance_id
             join tidemill_schedule_tick t on t.execution_id = first.job_execution_id
             where t.schedule = $1
               and e.status in ('STARTING', 'STARTED', 'STOPPING', 'UNKNOWN')
         ) or exists (
             select 1
             from tidemill_job_execution n
             join batch_job_execution e on e.job_execution_id = n.job_execution_id
             join batch_job_execution first on first.job_instance_id = e.job_instance_id
             join tidemill_schedule_tick t on t.execution_id = first.job_execution_id
             where t.schedule = $1
               and n.restart_due {= 1}
         )"
    }

    /// A second safeguard: zero if this tick was decided before.
    fn schedule_tick_insert(
        schedule: &str, tick: Timestamp, outcome: &str, reason: Option<&str>, execution: Option<i64>, at: Timestamp,
    ) -> u64 {
        "insert into tidemill_schedule_tick (schedule, tick_at, outcome, reason, execution_id, at)
         values ($1, $2, $3, $4, $5, $6)
         on conflict (schedule, tick_at) do nothing"
    }

    fn schedule_tick_exists(schedule: &str, tick_at: Timestamp) -> One<bool> {
        "select exists (
             select 1
             from tidemill_schedule_tick
             where schedule = $1
               and tick_at = $2
         )"
    }

    /// At most `limit` ticks of a schedule before `before`, the newest first.
    pub fn Schedules::ticks(schedule: &str, before: Option<Timestamp>, limit: u32) -> Vec<TickRecord> {
        "select schedule, tick_at, outcome, reason, execution_id, at from tidemill_schedule_tick
         where schedule = $1 and ($2{::timestamptz} is null or tick_at < $2)
         order by tick_at desc limit $3"
    }

    /// Keeps the newest.
    fn schedule_tick_prune(schedule: &str, keep: u32) -> u64 {
        "delete from tidemill_schedule_tick
         where schedule = $1
           and tick_at <= (
               select tick_at
               from tidemill_schedule_tick
               where schedule = $1
               order by tick_at desc
               limit 1
               offset $2
           )"
    }

    /// Deletes its ticks too.
    fn schedule_delete(name: &str) -> u64 {
        "delete from tidemill_schedule where name = $1"
    }
}
