//! The auditor: replays the log of a pool, compares the result with what is stored, and keeps what it found.

use super::PoolRecord;
use super::row::{SavedPool, json};
use crate::error::{Result, StoreError};
use crate::statement::statements;
use crate::tx::Pools;
use serde::{Deserialize, Serialize};
use tidemill_domain::pool::ledger::Contradiction;
use tidemill_domain::pool::replay::{Audit, Replay, VIOLATIONS_KEPT, Violation};
use tidemill_domain::pool::{Ledger, PoolName, Ticket, TicketId};
use tidemill_domain::time::Timestamp;

/// Records in memory at once.
const AT_ONCE: i64 = 1_000;

#[derive(Clone, PartialEq, Debug)]
pub struct Audited {
    pub records: u64,
    /// Live tickets at the end.
    pub tickets: usize,
    /// Units in use at the end.
    pub usage: u64,
    /// The greatest usage on the way.
    pub peak: u64,
    /// The first ones.
    pub differences: Vec<Difference>,
    /// How many there are.
    pub violations: u64,
}

#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Difference {
    /// The log contains an impossible step.
    #[error("the log cannot be followed: {0}")]
    Contradiction(#[from] Contradiction),
    /// A decision broke a rule.
    #[error(transparent)]
    Violation(#[from] Violation),
    #[error("{0}")]
    Unreadable(String),
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

/// The result of the last nightly audit of a pool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LastAudit {
    pub at: Timestamp,
    pub decisions: u64,
    pub violations: u64,
}

impl Pools<'_> {
    /// `None` if there is no such pool. Needs a transaction with one snapshot.
    #[crate::boxed]
    pub async fn verify(&mut self, name: &PoolName) -> Result<Option<Audited>> {
        match self.audit(name).await {
            Err(error @ (StoreError::DamagedRow { .. } | StoreError::DamagedPool(_))) => {
                let differences = vec![Difference::Unreadable(error.to_string())];
                Ok(Some(Audited { records: 0, tickets: 0, usage: 0, peak: 0, differences, violations: 1 }))
            }
            audited => audited,
        }
    }

    async fn audit(&mut self, name: &PoolName) -> Result<Option<Audited>> {
        let Some(row) = self.pool_find(name.as_str()).await? else { return Ok(None) };
        let stored = self.pool_live(&row).await?;
        let counted: u64 = stored.tickets().map(Ticket::units).sum();
        let mut differences = Vec::new();
        if row.record.usage != counted {
            differences.push(Difference::Usage { stored: row.record.usage, counted });
        }
        differences.extend(miscounted(&row.record, &stored)?);
        let mut replay = Replay::new(stored.settings());
        // Records before the snapshot may be half deleted.
        let mut after = (row.log_from - 1, i32::MAX);
        let followed = 'log: loop {
            let page = self.pool_log_from(name.as_str(), after, AT_ONCE).await?;
            let Some((first, last)) = page.first().zip(page.last()) else { break Ok(()) };
            // The row knows the beginning and the end of the log.
            if after.1 == i32::MAX && first.version != row.log_from {
                differences.push(Contradiction::Gap { last: after.0, found: first.version }.into());
            }
            after = (last.version, last.seq);
            for record in &page {
                if let Err(contradiction) = replay.follow(record) {
                    break 'log Err(contradiction);
                }
            }
        };
        let Audit { ledger, records, peak, violations, violation_count } = replay.end();
        let unlisted = violation_count - violations.len() as u64;
        match followed {
            Ok(()) => differences.extend(unlike(&ledger, &stored, row.record.version)),
            Err(contradiction) => differences.push(contradiction.into()),
        }
        differences.splice(0..0, violations.into_iter().map(Difference::from));
        let violations = unlisted + differences.len() as u64;
        differences.truncate(VIOLATIONS_KEPT);
        let tickets = stored.tickets().count();
        Ok(Some(Audited { records, tickets, usage: counted, peak, differences, violations }))
    }

    /// Keeps the result of an audit.
    pub async fn save_audit(&mut self, name: &PoolName, audited: &Audited) -> Result<()> {
        let at = self.now().await?;
        let audit = LastAudit { at, decisions: audited.records, violations: audited.violations };
        Ok(self.pool_save_audit(name.as_str(), &json(&audit)?).await?)
    }
}

/// What is stored, but does not follow from the log.
fn unlike(replayed: &Ledger, stored: &Ledger, version: i64) -> Vec<Difference> {
    let mut differences = Vec::new();
    if replayed.version() != version {
        differences.push(Contradiction::Gap { last: replayed.version(), found: version }.into());
    }
    if replayed.settings() != stored.settings() {
        differences.push(Difference::Settings);
    }
    if replayed.breaker() != stored.breaker() {
        differences.push(Difference::Breaker);
    }
    let differs = |ticket: &&Ticket| replayed.ticket(ticket.id) != Some(ticket);
    let is_extra = |ticket: &&Ticket| stored.ticket(ticket.id).is_none();
    let wrong = stored.tickets().filter(differs).chain(replayed.tickets().filter(is_extra));
    differences.extend(wrong.map(|ticket| Difference::Ticket(ticket.id)));
    differences
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

statements! {
    fn pool_save_audit(name: &str, audit: &str) -> () {
        "update tidemill_pool set audit = $2 where name = $1"
    }
}
