//! Heartbeats of holders. They decide nothing, so they take no lock on the pool and leave no record.

use crate::error::StoreError;
use crate::tx::Pools;
use std::collections::BTreeSet;
use tidemill_domain::lease::Epoch;
use tidemill_domain::pool::{PoolName, TicketId};

impl Pools<'_> {
    /// Notes that these holders are alive; returns those whose tickets run as they think. Who is not among them is in
    /// doubt, was never told, or is gone: a pass decides.
    pub async fn renew_tickets(
        &mut self,
        beats: &[(TicketId, Epoch)],
    ) -> Result<BTreeSet<TicketId>, StoreError> {
        let now = self.now().await?;
        let alive = self.pool_ticket_renew(beats, now.into()).await?;
        Ok(alive.into_iter().map(Into::into).collect())
    }

    /// The pools of which a ticket's time is over, or in whose queue somebody waits: time alone may let it go on.
    pub async fn due(&mut self) -> Result<BTreeSet<PoolName>, StoreError> {
        let now = self.now().await?;
        let due = self.pool_due(now.into()).await?;
        Ok(due.into_iter().filter_map(|name| name.parse().ok()).collect())
    }
}
