//! Statements on pools, their tickets and their log.

use super::{Answer, Connection, Tx};
use crate::codec::{DbId, DbTime};
use crate::pool::ViewName;
use crate::row::pool::{
    BeatRow, DecisionRow, EndedByCallRow, EndedRunRow, ForgottenRow, LevelRow, LogRow, PoolRow, RunTimeRow,
    SavedPass, SavedRunTime, SettingsColumns, TicketRow, UsageRow,
};
use crate::{postgres, sqlite};

impl Tx {
    pub(crate) async fn pool_insert(
        &mut self,
        row: &SettingsColumns,
        now: DbTime,
        version: i64,
    ) -> Answer<u64> {
        on_either!(self, pool::insert(row, now, version))
    }

    pub(crate) async fn pool_update(&mut self, row: &SettingsColumns, now: DbTime) -> Answer<()> {
        on_either!(self, pool::update(row, now))
    }

    pub(crate) async fn pool_delete(&mut self, name: &str) -> Answer<u64> {
        on_either!(self, pool::delete(name))
    }

    pub(crate) async fn pool_lock_all(&mut self, names: &[String]) -> Answer<Vec<PoolRow>> {
        on_either!(self, pool::lock_all(names))
    }

    pub(crate) async fn pool_find(&mut self, name: &str) -> Answer<Option<PoolRow>> {
        on_either!(self, pool::find(name))
    }

    pub(crate) async fn pool_find_external(&mut self, external_id: i64) -> Answer<Option<PoolRow>> {
        on_either!(self, pool::find_external(external_id))
    }

    pub(crate) async fn pool_list(&mut self, limit: i64) -> Answer<Vec<PoolRow>> {
        on_either!(self, pool::list(limit))
    }

    pub(crate) async fn pool_versions(&mut self) -> Answer<Vec<(String, i64, Option<i64>)>> {
        on_either!(self, pool::versions())
    }

    pub(crate) async fn pool_save(&mut self, pass: &SavedPass, now: DbTime) -> Answer<()> {
        on_either!(self, pool::save(pass, now))
    }

    pub(crate) async fn pool_ticket_live(&mut self, pool: &str) -> Answer<Vec<TicketRow>> {
        on_either!(self, pool::ticket_live(pool))
    }

    pub(crate) async fn pool_ticket_changed(&mut self, pool: &str, since: i64) -> Answer<Vec<TicketRow>> {
        on_either!(self, pool::ticket_changed(pool, since))
    }

    pub(crate) async fn pool_ticket_lapsed(
        &mut self,
        pools: &[String],
        now: DbTime,
        limit: i64,
    ) -> Answer<Vec<(DbId, String)>> {
        on_either!(self, pool::ticket_lapsed(pools, now, limit))
    }

    pub(crate) async fn pool_due(&mut self, now: DbTime) -> Answer<Vec<String>> {
        on_either!(self, pool::due(now))
    }

    pub(crate) async fn pool_ticket_renew(&mut self, beats: &[BeatRow], now: DbTime) -> Answer<Vec<DbId>> {
        on_either!(self, pool::ticket_renew(beats, now))
    }

    pub(crate) async fn pool_ticket_find(&mut self, id: DbId) -> Answer<Option<TicketRow>> {
        on_either!(self, pool::ticket_find(id))
    }

    pub(crate) async fn pool_ticket_of_run(&mut self, run_id: &str, limit: i64) -> Answer<Vec<TicketRow>> {
        on_either!(self, pool::ticket_of_run(run_id, limit))
    }

    pub(crate) async fn pool_ticket_list(
        &mut self,
        pool: &str,
        states: &[&str],
        limit: i64,
    ) -> Answer<Vec<TicketRow>> {
        on_either!(self, pool::ticket_list(pool, states, limit))
    }

    pub(crate) async fn pool_ticket_list_live(
        &mut self,
        pool: &str,
        states: &[&str],
        limit: i64,
    ) -> Answer<Vec<TicketRow>> {
        on_either!(self, pool::ticket_list_live(pool, states, limit))
    }

    pub(crate) async fn pool_ended_by_calls(&mut self, calls: &[&str]) -> Answer<Vec<EndedByCallRow>> {
        on_either!(self, pool::ended_by_calls(calls))
    }

    pub(crate) async fn pool_log_from(
        &mut self,
        pool: &str,
        after: (i64, i32),
        limit: i64,
    ) -> Answer<Vec<LogRow>> {
        on_either!(self, pool::log::from(pool, after, limit))
    }

    pub(crate) async fn pool_log_latest(&mut self, limit: i64) -> Answer<Vec<LogRow>> {
        on_either!(self, pool::log::latest(limit))
    }

    pub(crate) async fn pool_log_latest_of(&mut self, pool: &str, limit: i64) -> Answer<Vec<LogRow>> {
        on_either!(self, pool::log::latest_of(pool, limit))
    }

    pub(crate) async fn pool_decision_before(
        &mut self,
        pool: &str,
        before: (i64, i32),
        limit: i64,
    ) -> Answer<Vec<DecisionRow>> {
        on_either!(self, pool::decision::before(pool, before, limit))
    }

    pub(crate) async fn pool_configured_since(
        &mut self,
        pool: &str,
        since: DbTime,
        limit: i64,
    ) -> Answer<Vec<LogRow>> {
        on_either!(self, pool::decision::configured_since(pool, since, limit))
    }

    pub(crate) async fn pool_configured_before(
        &mut self,
        pool: &str,
        before: DbTime,
    ) -> Answer<Option<LogRow>> {
        on_either!(self, pool::decision::configured_before(pool, before))
    }

    pub(crate) async fn pool_first_snapshot(&mut self, pool: &str) -> Answer<Option<LogRow>> {
        on_either!(self, pool::decision::first_snapshot(pool))
    }

    pub(crate) async fn pool_first_snapshot_at(&mut self, pool: &str) -> Answer<Option<DbTime>> {
        on_either!(self, pool::decision::first_snapshot_at(pool))
    }

    pub(crate) async fn pool_log_of_ticket(&mut self, ticket: DbId, limit: i64) -> Answer<Vec<LogRow>> {
        on_either!(self, pool::log::of_ticket(ticket, limit))
    }

    pub(crate) async fn pool_level_list(&mut self, limit: i64) -> Answer<Vec<LevelRow>> {
        on_either!(self, pool::meter::levels(limit))
    }

    pub(crate) async fn pool_wait_list(&mut self, since: DbTime) -> Answer<Vec<(String, i64)>> {
        on_either!(self, pool::meter::waits(since))
    }

    pub(crate) async fn pool_timeout_list(&mut self, since: DbTime) -> Answer<Vec<(String, i64)>> {
        on_either!(self, pool::meter::timeouts(since))
    }

    pub(crate) async fn pool_run_time_list(&mut self, pool: &str) -> Answer<Vec<RunTimeRow>> {
        on_either!(self, pool::run_time::list(pool))
    }

    pub(crate) async fn pool_ended_runs(&mut self, pool: &str, limit: i64) -> Answer<Vec<EndedRunRow>> {
        on_either!(self, pool::run_time::ended(pool, limit))
    }

    pub(crate) async fn pool_forget(&mut self, name: &str, version: i64) -> Answer<()> {
        on_either!(self, pool::forget(name, version))
    }

    pub(crate) async fn pool_begin_log(&mut self, name: &str, version: i64) -> Answer<()> {
        on_either!(self, pool::begin_log(name, version))
    }

    pub(crate) async fn pool_log_snapshot_before(
        &mut self,
        pool: &str,
        before: DbTime,
    ) -> Answer<Option<(i64, DbTime)>> {
        on_either!(self, pool::log::snapshot_before(pool, before))
    }

    pub(crate) async fn pool_log_delete_before(
        &mut self,
        pool: &str,
        version: i64,
        limit: i64,
    ) -> Answer<u64> {
        on_either!(self, pool::log::delete_before(pool, version, limit))
    }

    pub(crate) async fn pool_delete_ended(
        &mut self,
        pool: &str,
        before: DbTime,
        limit: i64,
    ) -> Answer<Vec<ForgottenRow>> {
        on_either!(self, pool::run_time::delete_ended(pool, before, limit))
    }

    pub(crate) async fn pool_run_time_save(&mut self, run_times: &[SavedRunTime]) -> Answer<()> {
        on_either!(self, pool::run_time::save(run_times))
    }

    pub(crate) async fn pool_usage_sample(&mut self, step: DbTime) -> Answer<u64> {
        on_either!(self, pool::usage::sample(step))
    }

    pub(crate) async fn pool_usage_list(&mut self, pool: &str, since: DbTime) -> Answer<Vec<UsageRow>> {
        on_either!(self, pool::usage::list(pool, since))
    }

    pub(crate) async fn pool_usage_delete_before(&mut self, pool: &str, before: DbTime) -> Answer<u64> {
        on_either!(self, pool::usage::delete_before(pool, before))
    }

    pub(crate) async fn pool_view_lock(&mut self) -> Answer<()> {
        on_either!(self, pool::view::lock())
    }

    pub(crate) async fn pool_view_is_ours(&mut self, name: &ViewName) -> Answer<Option<bool>> {
        on_either!(self, pool::view::is_ours(name))
    }

    pub(crate) async fn pool_view_replace(&mut self, registry: &ViewName, limits: &ViewName) -> Answer<()> {
        on_either!(self, pool::view::replace(registry, limits))
    }
}
