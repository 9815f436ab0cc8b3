//! Statements on `tidemill_reject`.

use crate::codec::DbTime;
use crate::job::{RejectRecord, RejectRow};
use crate::statement::statements;

statements! {
    fn job_reject_insert(step: i64, rows: &[RejectRow], now: DbTime) -> () {
        for row in rows
        bind(step, now, row.phase, &row.kind, &row.error, &row.place, &row.item)
        "insert into tidemill_reject (step_execution_id, at, phase, kind, error, place, item)
         values ($1, $2, $3, $4, $5, $6, $7)"
    }

    /// In the order in which they were left out.
    fn job_reject_list(step: i64, after: i64, limit: i64) -> Vec<RejectRecord> {
        "select id, at, phase, kind, error, place, item
         from tidemill_reject
         where step_execution_id = $1
           and id > $2
         order by id
         limit $3"
    }
}
