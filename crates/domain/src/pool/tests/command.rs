//! Random commands.

use super::world::World;
use crate::lease::Epoch;
use crate::pool::command::{Acquire, Command, Part, Release, ReleaseBy};
use crate::pool::settings::{Pause, PoolName};
use crate::pool::{BreakerChange, Class, End, Policy, Ticket};
use std::num::NonZeroU32;
use std::time::Duration;

/// Commands kept to be repeated.
const KEPT: usize = 200;

impl World {
    /// A random command, mostly for this pool.
    pub(super) fn command(&mut self, focus: &PoolName) -> Command {
        if self.kept.len() == KEPT && self.random.percent(8) {
            let index = usize::try_from(self.random.below(u32::try_from(KEPT).unwrap())).unwrap();
            let command = self.kept[index].clone();
            return self.asked_again(&command);
        }
        let command = self.new_command(focus);
        if self.kept.len() < KEPT {
            self.kept.push(command.clone());
        } else if self.random.percent(10) {
            let index = usize::try_from(self.random.below(u32::try_from(KEPT).unwrap())).unwrap();
            self.kept[index] = command.clone();
        }
        command
    }

    /// The same, under new ids: those are made for every call.
    pub(super) fn asked_again(&mut self, command: &Command) -> Command {
        let mut command = command.clone();
        if let Command::Acquire(acquire) = &mut command {
            acquire.request = self.id();
            for part in &mut acquire.parts {
                part.ticket = self.id();
            }
        }
        command
    }

    fn new_command(&mut self, focus: &PoolName) -> Command {
        let pool = if self.random.percent(80) { focus } else { self.random.pick(&self.names) }.clone();
        let ticket = self.some_ticket(&pool);
        let chance = self.random.below(100);
        match (chance, ticket) {
            (0..28, _) => self.acquire(pool),
            (28..46, ticket) => self.release(pool, ticket),
            (46..62, Some(ticket)) => {
                let epoch = self.epoch(&ticket);
                Command::Heartbeat { pool, ticket: ticket.id, epoch }
            }
            (62..74, Some(ticket)) => self.claim(pool, &ticket),
            (74..78, Some(ticket)) => {
                let epoch = self.epoch(&ticket);
                Command::Unclaim { pool, ticket: ticket.id, epoch }
            }
            (78..92, Some(ticket)) => self.lapsed(pool, ticket),
            (92..97, Some(ticket)) => {
                let sessions = self.random.below(3);
                let doubted_at = ticket.doubted_at.unwrap_or(ticket.enqueued_at);
                Command::Probed { pool, ticket: ticket.id, doubted_at, sessions }
            }
            (97..99, _) => self.configure(&pool),
            _ => Command::Look { pool },
        }
    }

    /// The ticket of some holder, if it has one.
    fn some_ticket(&mut self, pool: &PoolName) -> Option<Ticket> {
        for _ in 0..4 {
            let holder = self.random.pick(&self.holders);
            if let Some(ticket) = self.ledgers[pool].of_holder(holder) {
                return Some(ticket.clone());
            }
        }
        None
    }

    /// Mostly the epoch of the ticket, sometimes an old one.
    fn epoch(&mut self, ticket: &Ticket) -> Epoch {
        let off = if self.random.percent(80) { 0 } else { i64::from(self.random.below(3)) - 1 };
        Epoch::new(ticket.epoch.get() + off)
    }

    fn acquire(&mut self, first: PoolName) -> Command {
        let mut pools = vec![first];
        let count = if self.random.percent(85) { 0 } else { 1 + self.random.below(2) };
        for _ in 0..count {
            let pool = self.random.pick(&self.names).clone();
            if !pools.contains(&pool) {
                pools.push(pool);
            }
        }
        let parts = pools
            .into_iter()
            .map(|pool| Part {
                pool,
                ticket: self.id(),
                parallel: NonZeroU32::new(self.degree()),
                sessions: NonZeroU32::new(self.random.below(4)),
                least: NonZeroU32::new(self.random.below(10)),
            })
            .collect();
        let lease_for = self.random.percent(60).then_some(Duration::from_secs(60));
        Command::Acquire(Box::new(Acquire {
            request: self.id(),
            parts,
            holder: self.random.pick(&self.holders).clone(),
            class: *self.random.pick(&Class::ALL),
            table: if self.random.percent(50) { "SALES_ORDER" } else { "CUSTOMER" }.to_owned(),
            hint: None,
            lease_for,
            deadline: None,
            stays: Duration::from_secs(self.random.below(50).into()),
            call: None,
        }))
    }

    /// Mostly few, sometimes very many, sometimes none.
    fn degree(&mut self) -> u32 {
        if self.random.percent(5) { 16 + self.random.below(64) } else { 1 + self.random.below(8) }
    }

    fn release(&mut self, pool: PoolName, ticket: Option<Ticket>) -> Command {
        let holder = self.random.pick(&self.holders).clone();
        let (by, epoch) = match (self.random.below(10), ticket) {
            (0..6, Some(ticket)) => (ReleaseBy::Ticket(ticket.id), Some(self.epoch(&ticket))),
            (6..8, Some(ticket)) => (ReleaseBy::Holder(ticket.holder), None),
            (8, _) => {
                let (dag_id, run_id) = (holder.dag_id().to_owned(), holder.run_id().to_owned());
                (ReleaseBy::Run { dag_id, run_id }, None)
            }
            (9, _) => (ReleaseBy::Ticket(self.id()), None),
            _ => (ReleaseBy::Holder(holder), Some(Epoch::new(1))),
        };
        let end = match self.random.below(10) {
            _ if self.random.below(200) == 0 => End::Refused { reason: "ORA-00018".to_owned() },
            0 => End::ByOperator { by: "minsu".to_owned(), reason: "stuck".to_owned() },
            1 => End::GaveUp,
            2..4 => End::Released { failed: true },
            _ => End::Released { failed: false },
        };
        Command::Release(Box::new(Release { pool, by, epoch, end, call: None }))
    }

    fn claim(&mut self, pool: PoolName, ticket: &Ticket) -> Command {
        let mut parts = vec![(pool, ticket.id)];
        for other in &ticket.with {
            let sibling = self.ledgers[other].of_holder(&ticket.holder);
            parts.extend(sibling.map(|sibling| (other.clone(), sibling.id)));
        }
        Command::Claim { parts }
    }

    /// Only of those whose time is over by what is stored.
    fn lapsed(&mut self, pool: PoolName, ticket: Ticket) -> Command {
        let is_over = self.expires.get(&ticket.id).is_some_and(|at| *at <= self.now);
        if is_over { Command::Lapsed { pool, ticket: ticket.id } } else { Command::Look { pool } }
    }

    fn configure(&mut self, pool: &PoolName) -> Command {
        let mut settings = Box::new(self.ledgers[pool].settings().clone());
        let at = self.now;
        if self.random.percent(20) {
            let (pool, by, reason) = (pool.clone(), "minsu".to_owned(), "patch day".to_owned());
            let change = match self.random.below(5) {
                0 => BreakerChange::Open { by, reason },
                1 => BreakerChange::Refused { reason },
                _ => BreakerChange::Close { by, reason },
            };
            return Command::Breaker { pool, change };
        }
        match self.random.below(10) {
            0 => settings.paused = Some(Pause { by: "minsu".into(), reason: "patch day".into(), at }),
            1..5 => settings.paused = None,
            5 => settings.policy = *self.random.pick(&Policy::ALL),
            6 => settings.threshold_percent = *self.random.pick(&[80, 95, 100]),
            _ => settings.max_units = *self.random.pick(&[10, 40, 100, 200, 200, 300, 300]),
        }
        Command::Configure { settings, by: None }
    }
}
