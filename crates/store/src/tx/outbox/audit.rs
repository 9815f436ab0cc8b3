//! Statements for the audit of the outbox.

use crate::row::outbox::audit::{AuditEventRow, AuditExceptionRow, AuditNameRow};
use crate::tx::{Answer, Connection, Tx};
use crate::{postgres, sqlite};

impl Tx {
    pub(crate) async fn outbox_audit_exceptions(&mut self) -> Answer<Vec<AuditExceptionRow>> {
        on_either!(self, outbox::audit::exceptions())
    }

    pub(crate) async fn outbox_audit_mark(&mut self) -> Answer<String> {
        on_either!(self, outbox::audit::mark())
    }

    pub(crate) async fn outbox_audit_lowest(&mut self) -> Answer<Option<i64>> {
        on_either!(self, outbox::audit::lowest())
    }

    pub(crate) async fn outbox_audit_events(
        &mut self,
        after: (i64, i64),
        limit: i64,
    ) -> Answer<Vec<AuditEventRow>> {
        on_either!(self, outbox::audit::events(after, limit))
    }

    pub(crate) async fn outbox_audit_names(&mut self, ids: &[i64]) -> Answer<Vec<AuditNameRow>> {
        on_either!(self, outbox::audit::names(ids))
    }

    pub(crate) async fn outbox_audit_topics(&mut self) -> Answer<Vec<(String, String, bool)>> {
        on_either!(self, outbox::audit::topics())
    }
}
