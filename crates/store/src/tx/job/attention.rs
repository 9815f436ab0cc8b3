//! Statements on executions that somebody may have to look at.

use super::{Answer, Connection, Tx};
use crate::codec::DbStamp;
use crate::row::job::FailureRow;
use crate::{postgres, sqlite};

impl Tx {
    pub(crate) async fn job_attention_running(&mut self, limit: i64) -> Answer<i64> {
        on_either!(self, job::attention::running(limit))
    }

    pub(crate) async fn job_attention_failed_since(&mut self, since: DbStamp, limit: i64) -> Answer<i64> {
        on_either!(self, job::attention::failed_since(since, limit))
    }

    pub(crate) async fn job_attention_failures(&mut self, limit: i64) -> Answer<Vec<FailureRow>> {
        on_either!(self, job::attention::failures(limit))
    }
}
