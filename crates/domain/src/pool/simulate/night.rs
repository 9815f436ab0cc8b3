//! A night: batches arrive, wait, run and release, and the real pass decides. All holders wait for their answers, so they
//! claim a grant at once.
//!
//! A pass runs at each arrival, at each end, at each change of the settings, and every 30 seconds while a request waits: a
//! server looks more often, but finds the same. Every pool is simulated alone, also for requests for several pools.

use super::{PoolStart, Workload};
use crate::pool::command::{Acquire, Answer, Command, Part, Release, ReleaseBy};
use crate::pool::estimate::{Estimate, Pace};
use crate::pool::ledger::Contradiction;
use crate::pool::pass::pass;
use crate::pool::replay::Replay;
use crate::pool::{End, Event, Ledger, PoolName, Ticket, TicketId};
use crate::time::Timestamp;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::num::NonZeroU32;
use std::time::Duration;
use uuid::Uuid;

const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Requests that wait for longer than this after the last arrival and the last end will wait forever.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Night {
    /// One for each batch of the workload, in the same order.
    pub runs: Vec<Run>,
    /// Decisions that the auditor found to be wrong.
    pub violations: u64,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Run {
    /// None if it never got units.
    pub start: Option<Start>,
    /// When it left the queue without units; none if it waits until the end.
    pub left_at: Option<Timestamp>,
    /// What it was told when it arrived; none if it did not wait.
    pub estimate: Option<Estimate>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    pub at: Timestamp,
    pub until: Timestamp,
    pub parallel: NonZeroU32,
    pub units: u64,
}

/// Fails only if the decisions contradict each other.
pub fn simulate(workload: &Workload) -> Result<Night, Contradiction> {
    let mut night = Night { runs: vec![Run::default(); workload.batches.len()], violations: 0 };
    for pool in &workload.pools {
        PoolNight::new(workload, pool).play(&mut night)?;
    }
    Ok(night)
}

/// In this order at the same instant. Numbers are places in the workload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Moment {
    Ends(usize),
    Changes(usize),
    Arrives(usize),
    Look,
}

struct PoolNight<'a> {
    workload: &'a Workload,
    start: &'a PoolStart,
    ledgers: BTreeMap<PoolName, Ledger>,
    moments: BinaryHeap<Reverse<(Timestamp, Moment)>>,
    auditor: Replay,
}

fn ticket(batch: usize) -> TicketId {
    TicketId::new(Uuid::from_u128(batch as u128 + 1))
}

fn batch_of(ticket: TicketId) -> usize {
    usize::try_from(ticket.get().as_u128()).unwrap_or(0).saturating_sub(1)
}

impl<'a> PoolNight<'a> {
    fn new(workload: &'a Workload, start: &'a PoolStart) -> Self {
        let name = &start.settings.name;
        let mut ledger = Ledger::new(start.settings.clone(), 0);
        ledger.run_times = start.run_times.clone();
        let batches = (0..).zip(&workload.batches).filter(|(_, batch)| batch.pool == *name);
        let arrivals = batches.map(|(number, batch)| Reverse((batch.arrives_at, Moment::Arrives(number))));
        let changes =
            (0..).zip(&start.changes).map(|(number, (at, _))| Reverse((*at, Moment::Changes(number))));
        Self {
            workload,
            start,
            ledgers: BTreeMap::from([(name.clone(), ledger)]),
            moments: arrivals.chain(changes).collect(),
            auditor: Replay::new(&start.settings),
        }
    }

    fn play(mut self, night: &mut Night) -> Result<(), Contradiction> {
        let (mut moved_at, mut will_look) = (Timestamp::EPOCH, false);
        while let Some(Reverse((at, _))) = self.moments.peek().copied() {
            let mut commands = Vec::new();
            while let Some(Reverse((next, moment))) =
                self.moments.peek().copied().filter(|next| next.0.0 == at)
            {
                self.moments.pop();
                commands.push(self.command(moment));
                if moment == Moment::Look { will_look = false } else { moved_at = next }
            }
            let claims = self.pass(at, &commands, night)?;
            if !claims.is_empty() {
                self.pass(at, &claims, night)?;
            }
            let is_waiting = self.ledgers.values().any(|ledger| ledger.waiting() > 0);
            if is_waiting && !will_look && at.since(moved_at) < PATIENCE {
                will_look = true;
                self.moments.push(Reverse((at.plus(LOOK_EVERY), Moment::Look)));
            }
        }
        night.violations += self.auditor.end().violation_count;
        Ok(())
    }

    fn command(&self, moment: Moment) -> Command {
        let pool = self.start.settings.name.clone();
        match moment {
            Moment::Look => Command::Look { pool },
            Moment::Changes(number) => {
                Command::Configure { settings: Box::new(self.start.changes[number].1.clone()), by: None }
            }
            Moment::Ends(number) => {
                let (by, end) = (ReleaseBy::Ticket(ticket(number)), End::Released { failed: false });
                Command::Release(Box::new(Release { pool, by, epoch: None, end, call: None }))
            }
            Moment::Arrives(number) => {
                let (batch, id) = (&self.workload.batches[number], ticket(number));
                let (parallel, sessions) = (Some(batch.shape.parallel), Some(batch.shape.sessions));
                let part = Part { pool, ticket: id, parallel, sessions, least: batch.least };
                Command::Acquire(Box::new(Acquire {
                    class: batch.class,
                    table: batch.table.clone(),
                    stays: PATIENCE,
                    ..Acquire::new(id, batch.holder.clone(), vec![part])
                }))
            }
        }
    }

    /// Returns the claims of requests that waited and were granted.
    fn pass(
        &mut self,
        at: Timestamp,
        commands: &[Command],
        night: &mut Night,
    ) -> Result<Vec<Command>, Contradiction> {
        let outcome = pass(&mut self.ledgers, at, Pace::default(), commands)?;
        for (command, answer) in commands.iter().zip(&outcome.answers) {
            if let (Command::Acquire(acquire), Answer::Waits(waits)) = (command, answer) {
                night.runs[batch_of(acquire.request)].estimate = waits.estimate;
            }
        }
        let mut granted = BTreeSet::new();
        for (pool, records) in &outcome.records {
            let Some(ledger) = self.ledgers.get(pool) else { continue };
            for record in records {
                self.auditor.follow(record)?;
                match record.event {
                    Event::Granted { ticket, parallel, .. } => {
                        let number = batch_of(ticket);
                        // It may have got more in the same pass.
                        let granted_now = ledger.ticket(ticket).and_then(|ticket| ticket.granted);
                        let parallel = granted_now.unwrap_or(parallel);
                        let until = at.plus(self.workload.batches[number].run.with(parallel));
                        let units = ledger.ticket(ticket).map_or(0, Ticket::units);
                        night.runs[number].start = Some(Start { at, until, parallel, units });
                        self.moments.push(Reverse((until, Moment::Ends(number))));
                        granted.insert(ticket);
                    }
                    Event::Claimed { ticket, .. } => {
                        granted.remove(&ticket);
                    }
                    _ => {}
                }
            }
        }
        let pool = &self.start.settings.name;
        let claim = |ticket| Command::Claim { parts: vec![(pool.clone(), ticket)] };
        Ok(granted.into_iter().map(claim).collect())
    }
}
