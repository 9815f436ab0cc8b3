//! A pass: the pools are locked, brought up to date, the domain decides about all requests at once, and what it decided is
//! written in one go. Nobody hears of an answer before the commit.

use super::POOL_CHANGED;
use super::cache::PoolCache;
use crate::crash_point;
use crate::error::StoreError;
use crate::row::pool::{SavedPass, SavedPool, SavedRecord, SavedTicket};
use crate::store::Store;
use crate::tx::Tx;
use std::collections::{BTreeMap, BTreeSet};
use tidemill_domain::pool::command::{Answer, Command, Released};
use tidemill_domain::pool::estimate::Pace;
use tidemill_domain::pool::pass::{Outcome, pass};
use tidemill_domain::pool::{Ledger, PoolName, State, Ticket};
use tidemill_domain::time::Timestamp;

/// So many lapsed tickets are looked at in one pass.
const LAPSED_AT_ONCE: i64 = 1_000;

/// Whether a pass also looks for tickets whose time is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lapses {
    /// It does.
    Sought,
    /// It does not.
    Left,
}

/// What a pass is to do.
#[derive(Clone, Copy, Debug)]
pub struct PassRequest<'a> {
    /// The pools that it is about; those that there are not are no error.
    pub pools: &'a BTreeSet<PoolName>,
    /// What is asked.
    pub commands: &'a [Command],
    /// How pollers are told to wait.
    pub pace: Pace,
    /// Whether it looks for tickets whose time is over.
    pub lapses: Lapses,
}

impl Store {
    /// Makes a pass in a transaction of its own. When the outcome of its commit is unknown, what the process remembers is
    /// forgotten, and asking again is safe: who got its units gets the same again.
    pub async fn pool_pass(
        &self,
        cache: &mut PoolCache,
        request: PassRequest<'_>,
    ) -> Result<Outcome, StoreError> {
        // Taken out, so that whatever ends this early leaves nothing half-changed behind.
        let mut ledgers: BTreeMap<PoolName, Ledger> = request
            .pools
            .iter()
            .filter_map(|pool| cache.take(pool).map(|ledger| (pool.clone(), ledger)))
            .collect();
        let mut tx = self.begin().await?;
        let outcome = tx.pool_pass(&mut ledgers, request).await?;
        tx.commit().await?;
        cache.put_all(ledgers);
        Ok(outcome)
    }
}

impl Tx {
    /// Makes a pass. `ledgers` is what is known of the pools, and afterwards what they are like if this commits.
    pub async fn pool_pass(
        &mut self,
        ledgers: &mut BTreeMap<PoolName, Ledger>,
        request: PassRequest<'_>,
    ) -> Result<Outcome, StoreError> {
        let names: Vec<String> = request.pools.iter().map(ToString::to_string).collect();
        let mut known = std::mem::take(ledgers);
        for row in self.pool_lock_all(&names).await? {
            let name = row.name()?;
            let ledger = self.pool_refresh(&row, known.remove(&name)).await?;
            ledgers.insert(name, ledger);
        }
        let now = self.now().await?;
        let lapsed = match request.lapses {
            Lapses::Sought => self.lapsed(&names, now).await?,
            Lapses::Left => Vec::new(),
        };
        let commands: Vec<Command> = request.commands.iter().chain(&lapsed).cloned().collect();
        let mut outcome = pass(ledgers, now, request.pace, &commands)?;
        outcome.answers.truncate(request.commands.len());
        self.save_pass(ledgers, &outcome, request.commands, now).await?;
        self.answer_again(request.commands, &mut outcome.answers).await?;
        Ok(outcome)
    }

    async fn lapsed(&mut self, names: &[String], now: Timestamp) -> Result<Vec<Command>, StoreError> {
        let mut commands = Vec::new();
        for (id, pool) in self.pool_ticket_lapsed(names, now.into(), LAPSED_AT_ONCE).await? {
            if let Ok(pool) = pool.parse() {
                commands.push(Command::Lapsed { pool, ticket: id.into() });
            }
        }
        Ok(commands)
    }

    async fn save_pass(
        &mut self,
        ledgers: &BTreeMap<PoolName, Ledger>,
        outcome: &Outcome,
        commands: &[Command],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let call_of = |pool: &PoolName, ticket: &Ticket| {
            commands.iter().find_map(|command| match command {
                Command::Release(release) if release.pool == *pool && release.by.names(ticket) => {
                    release.call.as_deref()
                }
                _ => None,
            })
        };
        let mut saved = SavedPass::default();
        let mut concerns_others = false;
        for (pool, tickets) in &outcome.tickets {
            let Some(ledger) = ledgers.get(pool) else { continue };
            for (id, ticket) in tickets {
                let end = outcome.ends.get(id);
                concerns_others |= ticket.state == State::Granted || ticket.state == State::Cancelled;
                let end_call = end.and_then(|_| call_of(pool, ticket));
                saved.tickets.push(SavedTicket::new(ledger, ticket, end, end_call, now)?);
            }
        }
        // Who has ended comes first: a holder has one live ticket, also between two rows of this pass.
        saved.tickets.sort_by_key(|ticket| !ticket.has_ended());
        for (pool, records) in &outcome.records {
            for record in records {
                saved.records.push(SavedRecord::new(pool, record)?);
            }
            saved.pools.extend(ledgers.get(pool).map(SavedPool::new));
        }
        if saved.tickets.is_empty() && saved.records.is_empty() {
            return Ok(());
        }
        self.pool_save(&saved, now.into()).await?;
        crash_point!("pool_saved");
        if concerns_others {
            self.wake(POOL_CHANGED);
        }
        Ok(())
    }

    /// A call whose answer was lost on the way comes again: it is told what it was told.
    async fn answer_again(&mut self, commands: &[Command], answers: &mut [Answer]) -> Result<(), StoreError> {
        for (command, answer) in commands.iter().zip(answers) {
            let (Command::Release(release), Answer::Released(released)) = (command, &mut *answer) else {
                continue;
            };
            let Some(call) = release.call.as_deref() else { continue };
            if released.released || released.cancelled_waiting {
                continue;
            }
            let before = self.pool_released_by_call(release.pool.as_str(), call).await?;
            if before.is_empty() {
                continue;
            }
            let units = before.iter().map(|row| u64::try_from(row.units).unwrap_or(0)).sum();
            let cancelled_waiting = before.iter().all(|row| row.state == State::Cancelled.as_str());
            *answer = Answer::Released(Released {
                released: !cancelled_waiting,
                units,
                cancelled_waiting,
                level: released.level,
            });
        }
        Ok(())
    }
}
