//! Operator actions on tickets. Each has an audit entry in the same transaction.

use super::pass::{Lapses, PassRequest};
use super::{POOL_CHANGED, object};
use crate::error::Result;
use crate::tx::Pools;
use std::collections::{BTreeMap, BTreeSet};
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::pool::command::{Answer, Command, Release, Released};
use tidemill_domain::pool::estimate::Pace;
use tidemill_domain::pool::{End, PoolName, ReleaseBy, TicketId};

impl Pools<'_> {
    /// Releases the units of a ticket, or removes it from the queue, whoever its holder is. `None` if it has ended or
    /// never existed.
    #[crate::boxed]
    pub async fn release_ticket(
        &mut self,
        id: TicketId,
        actor: &Actor,
        reason: &str,
    ) -> Result<Option<(PoolName, Released)>> {
        let Some(found) = self.ticket(id).await? else { return Ok(None) };
        let pool = found.pool;
        let pools: BTreeSet<PoolName> = found.ticket.with.iter().chain([&pool]).cloned().collect();
        let release = Release {
            pool: pool.clone(),
            by: ReleaseBy::Ticket(id),
            epoch: None,
            end: End::ByOperator { by: actor.name.clone(), reason: reason.to_owned() },
            call: None,
        };
        let commands = [Command::Release(Box::new(release))];
        let request =
            PassRequest { pools: &pools, commands: &commands, pace: Pace::default(), lapses: Lapses::Left };
        let outcome = self.pass(&mut BTreeMap::new(), &request).await?;
        let Some(Answer::Released(released)) = outcome.answers.into_iter().next() else { return Ok(None) };
        if !released.released && !released.cancelled_waiting {
            return Ok(None);
        }
        let now = self.now().await?;
        let entry = AuditEntry::new(actor.clone(), "pool.release", &object(pool.as_str()))
            .from_to(&found.ticket.holder.to_string(), "released")
            .because(reason);
        self.audit_insert(&entry, now).await?;
        self.wake(POOL_CHANGED);
        Ok(Some((pool, released)))
    }
}
