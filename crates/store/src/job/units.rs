//! The units of pools that steps hold: what is left of them when an execution has ended. Its steps give their units back
//! before that; a process that died, or could not reach the database, did not.

use crate::error::StoreError;
use crate::tx::Jobs;
use std::collections::BTreeMap;
use tidemill_domain::job::pool::RUN_PREFIX;
use tidemill_domain::pool::{PoolName, TicketId};

impl Jobs<'_> {
    /// At most `limit` tickets, in the queue or with units, of executions that have ended; by pool. An execution does
    /// not go on after its end, so nobody needs them any more.
    pub async fn units_of_ended_executions(
        &mut self,
        limit: u32,
    ) -> Result<BTreeMap<PoolName, Vec<TicketId>>, StoreError> {
        let mut left: BTreeMap<PoolName, Vec<TicketId>> = BTreeMap::new();
        for (pool, ticket) in self.job_units_of_ended(RUN_PREFIX, limit.into()).await? {
            if let Ok(pool) = pool.parse() {
                left.entry(pool).or_default().push(ticket.into());
            }
        }
        Ok(left)
    }
}
