//! Statements on alerts, silences and deliveries.

use super::{Answer, Connection, Tx};
use crate::codec::DbTime;
use crate::row::{AlertDeliveryRow, AlertRow, AlertSilenceRow};
use crate::{postgres, sqlite};

impl Tx {
    pub(crate) async fn alert_lock(&mut self, rule: &str, subject: &str) -> Answer<Option<AlertRow>> {
        on_either!(self, alert::lock(rule, subject))
    }

    pub(crate) async fn alert_save(&mut self, row: &AlertRow) -> Answer<()> {
        on_either!(self, alert::save(row))
    }

    pub(crate) async fn alert_open(&mut self, limit: i64) -> Answer<Vec<AlertRow>> {
        on_either!(self, alert::open(limit))
    }

    pub(crate) async fn alert_list(&mut self, limit: i64) -> Answer<Vec<AlertRow>> {
        on_either!(self, alert::list(limit))
    }

    pub(crate) async fn alert_prune(&mut self, updated_before: DbTime, limit: i64) -> Answer<u64> {
        on_either!(self, alert::prune(updated_before, limit))
    }

    pub(crate) async fn alert_silence_insert(&mut self, row: &AlertSilenceRow) -> Answer<i64> {
        on_either!(self, alert::silence_insert(row))
    }

    pub(crate) async fn alert_silence_end(
        &mut self,
        rule: &str,
        subject: Option<&str>,
        now: DbTime,
    ) -> Answer<u64> {
        on_either!(self, alert::silence_end(rule, subject, now))
    }

    pub(crate) async fn alert_silence_in_force(
        &mut self,
        now: DbTime,
        limit: i64,
    ) -> Answer<Vec<AlertSilenceRow>> {
        on_either!(self, alert::silence_in_force(now, limit))
    }

    pub(crate) async fn alert_silence_covering(
        &mut self,
        rule: &str,
        subject: &str,
        now: DbTime,
    ) -> Answer<Vec<AlertSilenceRow>> {
        on_either!(self, alert::silence_covering(rule, subject, now))
    }

    pub(crate) async fn alert_silence_prune(&mut self, ended_before: DbTime, limit: i64) -> Answer<u64> {
        on_either!(self, alert::silence_prune(ended_before, limit))
    }

    pub(crate) async fn alert_delivery_insert(&mut self, row: &AlertDeliveryRow) -> Answer<()> {
        on_either!(self, alert::delivery_insert(row))
    }

    pub(crate) async fn alert_delivery_due(
        &mut self,
        now: DbTime,
        limit: i64,
    ) -> Answer<Vec<AlertDeliveryRow>> {
        on_either!(self, alert::delivery_due(now, limit))
    }

    pub(crate) async fn alert_delivery_lock(&mut self, id: i64) -> Answer<Option<AlertDeliveryRow>> {
        on_either!(self, alert::delivery_lock(id))
    }

    pub(crate) async fn alert_delivery_save(&mut self, row: &AlertDeliveryRow) -> Answer<()> {
        on_either!(self, alert::delivery_save(row))
    }

    pub(crate) async fn alert_delivery_list(&mut self, limit: i64) -> Answer<Vec<AlertDeliveryRow>> {
        on_either!(self, alert::delivery_list(limit))
    }

    pub(crate) async fn alert_delivery_prune(&mut self, ended_before: DbTime, limit: i64) -> Answer<u64> {
        on_either!(self, alert::delivery_prune(ended_before, limit))
    }

    pub(crate) async fn alert_count_died(&mut self, since: DbTime) -> Answer<i64> {
        on_either!(self, alert::count_died(since))
    }

    pub(crate) async fn alert_count_live(&mut self, now: DbTime) -> Answer<i64> {
        on_either!(self, alert::count_live(now))
    }
}
