//! A pass: locks the pools, brings them up to date, lets the domain decide about all requests at once, and saves the
//! result. No answer leaves before the commit. Heartbeats of holders decide nothing, so they take no lock on the pool
//! and leave no record.

use super::POOL_CHANGED;
use super::cache::PoolCache;
use super::object;
use super::row::{SavedPass, SavedPool, SavedRecord, SavedTicket};
use crate::crash_point;
use crate::error::Result;
use crate::store::Store;
use crate::tx::Pools;
use std::collections::{BTreeMap, BTreeSet};
use tidemill_domain::action::Action;
use tidemill_domain::audit::{Actor, AuditEntry};
use tidemill_domain::lease::Epoch;
use tidemill_domain::outbox::NewEvent;
use tidemill_domain::pool::breaker::Phase;
use tidemill_domain::pool::command::{Answer, Command, Level, Released, RequestKey};
use tidemill_domain::pool::estimate::Pace;
use tidemill_domain::pool::event_summary::of_breaker;
use tidemill_domain::pool::pass::{Outcome, pass};
use tidemill_domain::pool::{Event, Ledger, PoolName, State, Ticket, TicketId};
use tidemill_domain::time::Timestamp;

/// Lapsed tickets per pass.
const LAPSED_AT_ONCE: i64 = 1_000;

/// Whether a pass also ends lapsed tickets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lapses {
    Sought,
    Left,
}

#[derive(Clone, Copy, Debug)]
pub struct PassRequest<'a> {
    /// Missing pools are no error.
    pub pools: &'a BTreeSet<PoolName>,
    pub commands: &'a [Command],
    /// How long pollers are told to wait.
    pub pace: Pace,
    pub lapses: Lapses,
}

impl Store {
    /// Runs a pass in its own transaction. If the outcome of its commit is unknown, the cache is dropped, and asking
    /// again is safe: a granted request returns the same units.
    #[crate::boxed]
    pub async fn pool_pass(&self, cache: &mut PoolCache, request: &PassRequest<'_>) -> Result<Outcome> {
        // Taken out, so that an early return leaves nothing half-changed.
        let mut ledgers: BTreeMap<PoolName, Ledger> = request
            .pools
            .iter()
            .filter_map(|pool| cache.take(pool).map(|ledger| (pool.clone(), ledger)))
            .collect();
        let mut tx = self.begin().await?;
        let outcome = tx.pools().pass(&mut ledgers, request).await?;
        tx.commit().await?;
        cache.put_all(ledgers);
        Ok(outcome)
    }
}

impl Pools<'_> {
    /// Runs a pass. `ledgers` is updated to the state after this transaction commits.
    #[crate::boxed]
    pub async fn pass(
        &mut self,
        ledgers: &mut BTreeMap<PoolName, Ledger>,
        request: &PassRequest<'_>,
    ) -> Result<Outcome> {
        let names: Vec<String> = request.pools.iter().map(ToString::to_string).collect();
        let mut known = std::mem::take(ledgers);
        for row in self.pool_lock_all(&names).await? {
            let name = row.record.settings.name.clone();
            let ledger = self.pool_refresh(&row, known.remove(&name)).await?;
            ledgers.insert(name, ledger);
        }
        let now = self.now().await?;
        let lapsed = match request.lapses {
            Lapses::Sought => self.lapsed(&names, now).await?,
            Lapses::Left => Vec::new(),
        };
        let mut settled = self.released_before(request.commands).await?;
        let keys = keys(request.commands);
        let reused = self.idempotency().claim_all(&keys, now).await?;
        settled.extend(reused.into_iter().map(|index| (index, Answer::KeyReused)));
        let fresh = request.commands.iter().enumerate().filter(|(index, _)| !settled.contains_key(index));
        let commands: Vec<Command> = fresh.map(|(_, command)| command).chain(&lapsed).cloned().collect();
        let mut outcome = pass(ledgers, now, request.pace, &commands)?;
        self.save_pass(ledgers, &outcome, &commands, now).await?;
        let mut answers = std::mem::take(&mut outcome.answers).into_iter();
        for (index, command) in request.commands.iter().enumerate() {
            let answer = match settled.remove(&index) {
                Some(Answer::Released(released)) => {
                    let ledger = command.pools().first().and_then(|pool| ledgers.get(pool));
                    let level = ledger.map_or(released.level, |ledger| ledger.level_at(now));
                    Some(Answer::Released(Released { level, ..released }))
                }
                Some(answer) => Some(answer),
                None => answers.next(),
            };
            outcome.answers.extend(answer);
        }
        // A wider pass claims the key again.
        let has_failed = |index: usize| {
            let answer = outcome.answers.get(index);
            matches!(answer, Some(Answer::Refused { .. } | Answer::Gone | Answer::Wider(_)))
        };
        let is_rival = |index: usize| outcome.answers.get(index) == Some(&Answer::KeyReused);
        let (failed, settled): (Vec<_>, Vec<_>) = keys.into_iter().partition(|(index, _)| has_failed(*index));
        let is_settled = |key: &RequestKey| {
            let is_same = |other: &RequestKey| (&other.caller, &other.key) == (&key.caller, &key.key);
            settled.iter().any(|(index, other)| !is_rival(*index) && is_same(other))
        };
        let unsettled: Vec<_> = failed.into_iter().filter(|(_, key)| !is_settled(key)).collect();
        self.idempotency().free_all(&unsettled, now).await?;
        // The rest are lapsed tickets: no caller waits for their answers, but they may need more pools.
        for (answer, command) in answers.zip(&lapsed) {
            if let Answer::Wider(pools) = answer {
                outcome.wider.extend(pools.into_iter().chain(command.pools()));
            }
        }
        Ok(outcome)
    }

    async fn lapsed(&mut self, names: &[String], now: Timestamp) -> Result<Vec<Command>> {
        let mut commands = Vec::new();
        for (id, pool) in self.pool_ticket_lapsed(names, now, LAPSED_AT_ONCE).await? {
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
    ) -> Result<()> {
        let call_of = |pool: &PoolName, ticket: &Ticket| {
            commands.iter().find_map(|command| match command {
                Command::Release(release) if release.pool == *pool && release.by.names(ticket) => {
                    release.call.as_ref().map(|call| call.id.as_str())
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
                let is_heard = !outcome.unheard.contains(id);
                saved.tickets.push(SavedTicket::new(ledger, ticket, end, end_call, is_heard, now)?);
            }
        }
        // Ended tickets first: a holder has one live ticket, also between two rows of this pass.
        saved.tickets.sort_by_key(|ticket| !ticket.has_ended());
        for (pool, records) in &outcome.records {
            for record in records {
                saved.records.push(SavedRecord::new(pool, record)?);
            }
            let saved_pool = ledgers.get(pool).map(|ledger| SavedPool::new(ledger, records)).transpose()?;
            saved.pools.extend(saved_pool);
        }
        if saved.tickets.is_empty() && saved.records.is_empty() {
            return Ok(());
        }
        self.pool_save(&saved, now).await?;
        self.audit_breakers(outcome).await?;
        self.publish_pool_events(outcome).await?;
        crash_point!("pool_saved");
        if concerns_others {
            self.wake(POOL_CHANGED);
        }
        Ok(())
    }

    /// Records breakers that opened and closed by themselves.
    async fn audit_breakers(&mut self, outcome: &Outcome) -> Result<()> {
        for (pool, records) in &outcome.records {
            for record in records {
                let Event::Breaker { breaker } = &record.event else { continue };
                let action = match breaker.phase {
                    Phase::Open { .. } if breaker.by.is_none() => Action::BreakerOpen,
                    Phase::Closed if breaker.by.is_none() => Action::BreakerClose,
                    _ => continue,
                };
                let entry = AuditEntry::new(Actor::system(), action.as_str(), &object(pool.as_str()));
                self.audit_insert(&entry.because(&of_breaker(breaker)), record.at).await?;
            }
        }
        Ok(())
    }

    /// Writes lifecycle events, if they are enabled.
    async fn publish_pool_events(&mut self, outcome: &Outcome) -> Result<()> {
        if !self.lifecycle_events().pools {
            return Ok(());
        }
        let records =
            outcome.records.iter().flat_map(|(pool, records)| records.iter().map(move |one| (pool, one)));
        let events: Vec<NewEvent> =
            records.filter_map(|(pool, record)| self.lifecycle_events().of_record(pool, record)).collect();
        if !events.is_empty() {
            self.publish_all(&events).await?;
        }
        Ok(())
    }

    /// Releases whose earlier answer was lost: they must not release the units of a later ticket.
    async fn released_before(&mut self, commands: &[Command]) -> Result<BTreeMap<usize, Answer>> {
        let calls: Vec<(usize, &PoolName, &str)> = commands
            .iter()
            .enumerate()
            .filter_map(|(index, command)| match command {
                Command::Release(release) => Some((index, &release.pool, release.call.as_ref()?.id.as_str())),
                _ => None,
            })
            .collect();
        let mut answers = BTreeMap::new();
        if calls.is_empty() {
            return Ok(answers);
        }
        let asked: Vec<&str> = calls.iter().map(|(_, _, call)| *call).collect();
        let ended = self.pool_ended_by_calls(&asked).await?;
        for (index, pool, call) in calls {
            let mut mine =
                ended.iter().filter(|row| row.pool == pool.as_str() && row.end_call == call).peekable();
            if mine.peek().is_none() {
                continue;
            }
            let (mut units, mut released) = (0, false);
            for row in mine {
                units += u64::try_from(row.units).unwrap_or(0);
                released |= row.state != State::Cancelled.as_str();
            }
            let level = Level { usage: 0, limit: 0, max_units: 0 };
            let released = Released { released, units, cancelled_waiting: !released, level };
            answers.insert(index, Answer::Released(released));
        }
        Ok(answers)
    }

    /// Records heartbeats; returns the tickets that run as their holders think. A pass decides about the others.
    pub async fn renew_tickets(&mut self, beats: &[(TicketId, Epoch)]) -> Result<BTreeSet<TicketId>> {
        let now = self.now().await?;
        let alive = self.pool_ticket_renew(beats, now).await?;
        Ok(alive.into_iter().map(Into::into).collect())
    }

    /// Pools with lapsed tickets, a queue, or a breaker that is not closed: time alone may change their state.
    pub async fn due(&mut self) -> Result<BTreeSet<PoolName>> {
        let now = self.now().await?;
        let due = self.pool_due(now).await?;
        Ok(due.into_iter().filter_map(|name| name.parse().ok()).collect())
    }
}

/// The idempotency keys of commands, by their places.
fn keys(commands: &[Command]) -> Vec<(usize, &RequestKey)> {
    let commands = commands.iter().enumerate();
    commands.filter_map(|(index, command)| Some((index, command.call()?.key.as_ref()?))).collect()
}
