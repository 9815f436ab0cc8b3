//! Statements on the audit log.

use super::{Answer, Connection, Tx};
use crate::codec::DbTime;
use crate::row::AuditRow;
use crate::{postgres, sqlite};
use tidemill_domain::audit::AuditEntry;

impl Tx {
    pub(crate) async fn audit_insert(&mut self, entry: &AuditEntry, now: DbTime) -> Answer<()> {
        on_either!(self, audit::insert(entry, now))
    }

    pub(crate) async fn audit_insert_all(&mut self, entries: &[AuditEntry], now: DbTime) -> Answer<()> {
        on_either!(self, audit::insert_all(entries, now))
    }

    pub(crate) async fn audit_list(&mut self, filter: &AuditFilterRow<'_>) -> Answer<Vec<AuditRow>> {
        on_either!(self, audit::list(filter))
    }
}

/// What to list of the audit log; an absent condition is always met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuditFilterRow<'a> {
    pub(crate) before_id: Option<i64>,
    pub(crate) since: Option<DbTime>,
    pub(crate) actor: Option<&'a str>,
    pub(crate) action: Option<&'a str>,
    pub(crate) object: Option<&'a str>,
    pub(crate) limit: i64,
}
