//! Statements for when the clock has gone back.

use super::{Answer, Connection, Tx};
use crate::codec::DbTime;
use crate::{postgres, sqlite};

impl Tx {
    pub(crate) async fn step_back_leases(&mut self, now: Option<DbTime>) -> Answer<u64> {
        on_either!(self, step_back::leases(now))
    }

    pub(crate) async fn step_back_waits(&mut self, now: Option<DbTime>) -> Answer<u64> {
        on_either!(self, step_back::waits(now))
    }
}
