//! Lists of pools and tickets for people.

use super::LastAudit;
use super::row::{POOL, breaker, last_audit};
use crate::codec::DbId;
use crate::error::Result;
use crate::statement::{Columns, stored};
use crate::tx::Pools;
use tidemill_domain::pool::command::Level;
use tidemill_domain::pool::{Breaker, Ledger, PoolName, Settings, State, Ticket};
use tidemill_domain::time::Timestamp;

stored! {
    #[derive(Clone, PartialEq, Debug)]
    pub struct PoolRecord in POOL |row| {
        pub settings: Settings => row.json("settings")?,
        pub breaker: Breaker => breaker(row)?,
        /// The number of the last pass that changed it.
        pub version: i64,
        pub usage: u64,
        pub active: u64,
        pub waiting: u64,
        /// How many of the active ones are suspect.
        pub suspect: u64,
        pub created_at: Timestamp,
        pub changed_at: Timestamp,
        /// None before the first one.
        pub audit: Option<LastAudit> => last_audit(row)?,
    }

    /// Live or ended.
    #[derive(Clone, PartialEq, Debug)]
    pub struct TicketRecord in ("tidemill_pool_ticket", "id") |row| {
        pub ticket: Ticket => ticket(row)?,
        pub pool: PoolName,
        pub units: u64,
        pub ended_at: Option<Timestamp>,
        pub ending: Option<String>,
        pub expires_at: Option<Timestamp>,
    }
}

impl PoolRecord {
    /// A pool that nobody uses yet.
    #[cfg(feature = "scratch")]
    pub fn unused(settings: Settings) -> Self {
        let (breaker, created_at, changed_at) = (Breaker::default(), Timestamp::EPOCH, Timestamp::EPOCH);
        let (version, usage, active, waiting, suspect, audit) = (1, 0, 0, 0, 0, None);
        Self { settings, breaker, version, usage, active, waiting, suspect, created_at, changed_at, audit }
    }

    pub fn level(&self, now: Timestamp) -> Level {
        Level::of(&self.settings, &self.breaker, self.usage, now)
    }
}

/// The state comes from the column, because the constraints are on it.
fn ticket(row: &Columns<'_>) -> Result<Ticket, sqlx::Error> {
    let ticket: Ticket = row.json("detail")?;
    let is_same =
        ticket.state.as_str() == row.get::<String>("state")? && ticket.id == row.get::<DbId>("id")?.into();
    row.checked("state", is_same.then_some(ticket))
}

impl Pools<'_> {
    pub async fn find(&mut self, name: &PoolName) -> Result<Option<PoolRecord>> {
        Ok(self.pool_find(name.as_str()).await?.map(|row| row.record))
    }

    /// Name, version and external id of all pools: cheap, to find out what changed.
    pub async fn directory(&mut self) -> Result<Vec<(PoolName, i64, Option<i64>)>> {
        let rows = self.pool_versions().await?.into_iter();
        Ok(rows.filter_map(|(name, version, id)| Some((name.parse().ok()?, version, id))).collect())
    }

    /// A pool with its live tickets.
    pub async fn ledger(&mut self, name: &PoolName) -> Result<Option<Ledger>> {
        match self.pool_find(name.as_str()).await? {
            Some(row) => self.pool_refresh(&row, None).await.map(Some),
            None => Ok(None),
        }
    }

    /// Oldest first.
    #[crate::boxed]
    pub async fn tickets(
        &mut self,
        name: &PoolName,
        states: &[State],
        limit: u32,
    ) -> Result<Vec<TicketRecord>> {
        let is_live = !states.iter().any(|state| state.has_ended());
        let states: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
        Ok(if is_live {
            self.pool_ticket_list_live(name.as_str(), &states, limit).await?
        } else {
            self.pool_ticket_list(name.as_str(), &states, limit).await?
        })
    }
}
