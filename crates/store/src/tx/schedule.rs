//! Statements on schedules and their ticks.

use super::{Answer, Connection, Tx};
use crate::codec::DbTime;
use crate::row::schedule::{ScheduleRow, TickRow};
use crate::{postgres, sqlite};

impl Tx {
    pub(crate) async fn schedule_insert(&mut self, row: &ScheduleRow) -> Answer<u64> {
        on_either!(self, schedule::insert(row))
    }

    pub(crate) async fn schedule_redefine(&mut self, row: &ScheduleRow) -> Answer<()> {
        on_either!(self, schedule::redefine(row))
    }

    pub(crate) async fn schedule_lock(&mut self, name: &str) -> Answer<Option<ScheduleRow>> {
        on_either!(self, schedule::lock(name))
    }

    pub(crate) async fn schedule_find(&mut self, name: &str) -> Answer<Option<ScheduleRow>> {
        on_either!(self, schedule::find(name))
    }

    pub(crate) async fn schedule_lock_due(
        &mut self,
        now: DbTime,
        jobs: &[&str],
    ) -> Answer<Option<ScheduleRow>> {
        on_either!(self, schedule::lock_due(now, jobs))
    }

    pub(crate) async fn schedule_next_look(&mut self, jobs: &[&str]) -> Answer<Option<DbTime>> {
        on_either!(self, schedule::next_look(jobs))
    }

    pub(crate) async fn schedule_save_standing(&mut self, row: &ScheduleRow) -> Answer<()> {
        on_either!(self, schedule::save_standing(row))
    }

    pub(crate) async fn schedule_save_pause(&mut self, row: &ScheduleRow) -> Answer<()> {
        on_either!(self, schedule::save_pause(row))
    }

    pub(crate) async fn schedule_delete(&mut self, name: &str) -> Answer<u64> {
        on_either!(self, schedule::delete(name))
    }

    pub(crate) async fn schedule_list(&mut self, limit: i64) -> Answer<Vec<ScheduleRow>> {
        on_either!(self, schedule::list(limit))
    }

    pub(crate) async fn schedule_is_unresolved(&mut self, name: &str) -> Answer<bool> {
        on_either!(self, schedule::is_unresolved(name))
    }

    pub(crate) async fn schedule_tick_insert(&mut self, row: &TickRow) -> Answer<u64> {
        on_either!(self, schedule::tick_insert(row))
    }

    pub(crate) async fn schedule_tick_exists(&mut self, schedule: &str, tick_at: DbTime) -> Answer<bool> {
        on_either!(self, schedule::tick_exists(schedule, tick_at))
    }

    pub(crate) async fn schedule_tick_list(
        &mut self,
        schedule: &str,
        before: Option<DbTime>,
        limit: i64,
    ) -> Answer<Vec<TickRow>> {
        on_either!(self, schedule::tick_list(schedule, before, limit))
    }

    pub(crate) async fn schedule_tick_prune(&mut self, schedule: &str, keep: i64) -> Answer<u64> {
        on_either!(self, schedule::tick_prune(schedule, keep))
    }
}
