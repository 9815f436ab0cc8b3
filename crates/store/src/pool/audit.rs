//! The auditor: replays the log of a pool and compares the result with what is stored.

use super::PoolRecord;
use super::row::SavedPool;
use crate::error::Result;
use crate::tx::Pools;
use tidemill_domain::pool::ledger::Contradiction;
use tidemill_domain::pool::replay::replay;
use tidemill_domain::pool::{Ledger, PoolName, Ticket, TicketId};

/// Records per read.
const AT_ONCE: i64 = 10_000;

#[derive(Clone, PartialEq, Debug)]
pub struct Audited {
    pub records: u64,
    /// Live tickets at the end.
    pub tickets: usize,
    /// Units in use at the end.
    pub usage: u64,
    /// The greatest usage on the way.
    pub peak: u64,
    pub differences: Vec<Difference>,
}

#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Difference {
    /// The log contains an impossible step.
    #[error("the log cannot be followed: {0}")]
    Contradiction(#[from] Contradiction),
    /// A ticket differs from the log.
    #[error("the ticket {0} is not as the log says")]
    Ticket(TicketId),
    #[error("the settings are not as the log says")]
    Settings,
    #[error("the circuit breaker is not as the log says")]
    Breaker,
    /// A counter of the pool's row differs.
    #[error("the pool says that {stored} tickets are {what}, and {counted} are")]
    Count { what: &'static str, stored: u64, counted: u64 },
    /// The usage of the pool's row differs.
    #[error("the pool says that {stored} units are in use, and its tickets say {counted}")]
    Usage { stored: u64, counted: u64 },
}

impl Pools<'_> {
    /// `None` if there is no such pool. Needs a transaction with one snapshot.
    #[crate::boxed]
    pub async fn verify(&mut self, name: &PoolName) -> Result<Option<Audited>> {
        let Some(row) = self.pool_find(name.as_str()).await? else { return Ok(None) };
        let stored = self.pool_refresh(&row, None).await?;
        let mut records = Vec::new();
        // Records before the snapshot may be half deleted.
        let mut after = (row.log_from - 1, i32::MAX);
        loop {
            let page = self.pool_log_from(name.as_str(), after, AT_ONCE).await?;
            let Some(last) = page.last() else { break };
            after = (last.version, last.seq);
            records.extend(page);
        }
        let counted: u64 = stored.tickets().map(Ticket::units).sum();
        let mut differences = Vec::new();
        if row.record.usage != counted {
            differences.push(Difference::Usage { stored: row.record.usage, counted });
        }
        differences.extend(miscounted(&row.record, &stored)?);
        // The row knows the beginning and the end of the log.
        let first = records.first().map(|record| record.version);
        if let Some(found) = first.filter(|first| *first != row.log_from) {
            differences.push(Contradiction::Gap { last: row.log_from - 1, found }.into());
        }
        let mut peak = 0;
        match replay(stored.settings(), &records) {
            Ok(audit) => {
                peak = audit.peak;
                if audit.ledger.version() != row.record.version {
                    let (last, found) = (audit.ledger.version(), row.record.version);
                    differences.push(Contradiction::Gap { last, found }.into());
                }
                if audit.ledger.settings() != stored.settings() {
                    differences.push(Difference::Settings);
                }
                if audit.ledger.breaker() != stored.breaker() {
                    differences.push(Difference::Breaker);
                }
                let differs = |ticket: &&Ticket| audit.ledger.ticket(ticket.id) != Some(ticket);
                differences
                    .extend(stored.tickets().filter(differs).map(|ticket| Difference::Ticket(ticket.id)));
                let is_extra = |ticket: &&Ticket| stored.ticket(ticket.id).is_none();
                let extra = audit.ledger.tickets().filter(is_extra);
                differences.extend(extra.map(|ticket| Difference::Ticket(ticket.id)));
            }
            Err(contradiction) => differences.push(contradiction.into()),
        }
        let records = u64::try_from(records.len()).unwrap_or(u64::MAX);
        Ok(Some(Audited { records, tickets: stored.tickets().count(), usage: counted, peak, differences }))
    }
}

/// Counters of the row that differ from the tickets.
fn miscounted(row: &PoolRecord, ledger: &Ledger) -> Result<Vec<Difference>> {
    let counted = SavedPool::new(ledger, &[])?;
    let differences = [
        ("active", row.active, counted.active),
        ("waiting", row.waiting, counted.waiting),
        ("suspect", row.suspect, counted.suspect),
    ]
    .into_iter()
    .filter(|(_, stored, counted)| stored != counted)
    .map(|(what, stored, counted)| Difference::Count { what, stored, counted });
    Ok(differences.collect())
}
