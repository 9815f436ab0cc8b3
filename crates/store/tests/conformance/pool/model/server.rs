//! One server of the three: it makes passes, crashes, repeats itself, and looks after each pass whether all is well.

use super::super::ann;
use super::auditor::Auditor;
use super::{POOLS, names};
use crate::dice::Dice;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::lease::Epoch;
use tidemill_domain::pool::command::{Acquire, Answer, Command, Part, Release, ReleaseBy};
use tidemill_domain::pool::decide::Policy;
use tidemill_domain::pool::estimate::Pace;
use tidemill_domain::pool::event::End;
use tidemill_domain::pool::settings::Pause;
use tidemill_domain::pool::{Class, Holder, Ledger, PoolName, Ticket, TicketId};
use tidemill_domain::time::Timestamp;
use tidemill_domain::time::{Clock, FakeClock};
use tidemill_store::Store;
use tidemill_store::pool::{Lapses, PassRequest, PoolCache};
use tokio::sync::Mutex;
use uuid::Uuid;

/// Commands that were sent before, by any server: to be sent again, out of their order.
pub(super) type Past = Arc<Mutex<VecDeque<Command>>>;

/// What was done, to see that nothing was left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tally {
    passes: u32,
    admitted: u32,
    waited: u32,
    released: u32,
    beats: u32,
    crashes: u32,
    dropped: u32,
    repeated: u32,
    changes: u32,
    jumps: u32,
}

impl Tally {
    pub(super) fn add(&mut self, other: Self) {
        self.passes += other.passes;
        self.admitted += other.admitted;
        self.waited += other.waited;
        self.released += other.released;
        self.beats += other.beats;
        self.crashes += other.crashes;
        self.dropped += other.dropped;
        self.repeated += other.repeated;
        self.changes += other.changes;
        self.jumps += other.jumps;
    }

    pub(super) fn is_varied(&self) -> bool {
        let rare = [self.beats, self.crashes, self.dropped, self.repeated, self.changes, self.jumps];
        let often = [self.admitted, self.waited, self.released];
        self.passes > 1_000 && often.iter().all(|count| *count > 200) && rare.iter().all(|count| *count > 20)
    }
}

pub(super) struct Server {
    store: Store,
    clock: Arc<FakeClock>,
    dice: Dice,
    auditor: Arc<Mutex<Auditor>>,
    past: Past,
    cache: PoolCache,
    told: VecDeque<(PoolName, TicketId, Epoch)>,
    tally: Tally,
}

impl Server {
    pub(super) fn new(
        store: Store,
        clock: Arc<FakeClock>,
        dice: Dice,
        auditor: Arc<Mutex<Auditor>>,
        past: Past,
    ) -> Self {
        let (cache, told, tally) = (PoolCache::default(), VecDeque::new(), Tally::default());
        Self { store, clock, dice, auditor, past, cache, told, tally }
    }

    /// Does so many things; what is wrong is told as soon as it is seen.
    pub(super) async fn run(&mut self, operations: usize) -> Result<Tally, String> {
        let mut done = 0;
        while done < operations {
            done += match self.dice.below(100) {
                0..=3 => self.jump(),
                4..=8 => self.change_settings().await?,
                9..=19 => self.beat().await?,
                _ => self.make_passes().await?,
            };
        }
        Ok(self.tally)
    }

    /// Two holders in each pool, and somebody in each queue.
    pub(super) async fn fill(&mut self) -> Result<(), String> {
        for (index, pool) in (0_u64..).zip(names()) {
            let commands: Vec<Command> = (0..3)
                .map(|number| self.acquire(&format!("{index}-{number}"), &[(pool.clone(), 4)]))
                .collect();
            self.pass(BTreeSet::from([pool]), commands).await?;
        }
        Ok(())
    }

    fn jump(&mut self) -> usize {
        let seconds = if self.dice.chance(5) { 2_000 } else { 1 + self.dice.below(40) };
        self.clock.advance(Duration::from_secs(seconds));
        self.tally.jumps += 1;
        1
    }

    async fn change_settings(&mut self) -> Result<usize, String> {
        let (name, usual, _) = *self.dice.pick(&POOLS).unwrap();
        let mut tx = self.store.begin().await.map_err(told)?;
        let mut settings = tx.pools().find(&name.parse().unwrap()).await.map_err(told)?.unwrap().settings;
        match settings.paused.take() {
            None if self.dice.chance(20) => {
                settings.paused =
                    Some(Pause { by: "ann".into(), reason: "patch".into(), at: self.clock.now() });
            }
            _ => settings.max_units = usual / 2 + u32::try_from(self.dice.below(u64::from(usual))).unwrap(),
        }
        tx.pools().set(&settings, &ann(), None).await.map_err(told)?;
        if self.dice.chance(80) {
            tx.commit().await.map_err(told)?;
            self.tally.changes += 1;
        }
        self.look_for_faults().await?;
        Ok(1)
    }

    /// Heartbeats, past the pools' locks; who is not alive goes to a pass.
    async fn beat(&mut self) -> Result<usize, String> {
        let beats: Vec<(PoolName, TicketId, Epoch)> = self.told.iter().cloned().collect();
        if beats.is_empty() {
            return self.make_passes().await;
        }
        let pairs: Vec<(TicketId, Epoch)> =
            beats.iter().map(|(_, ticket, epoch)| (*ticket, *epoch)).collect();
        let mut tx = self.store.begin().await.map_err(told)?;
        let alive = tx.pools().renew_tickets(&pairs).await.map_err(told)?;
        tx.commit().await.map_err(told)?;
        self.tally.beats += 1;
        let left: Vec<Command> = beats
            .into_iter()
            .filter(|(_, ticket, _)| !alive.contains(ticket))
            .map(|(pool, ticket, epoch)| Command::Heartbeat { pool, ticket, epoch })
            .collect();
        self.told.retain(|(_, ticket, _)| alive.contains(ticket));
        let pools = left.iter().flat_map(Command::pools).collect();
        self.pass(pools, left).await?;
        Ok(1)
    }

    async fn make_passes(&mut self) -> Result<usize, String> {
        let mut commands = Vec::new();
        for _ in 0..=self.dice.below(7) {
            commands.push(self.command().await);
        }
        let pools: BTreeSet<PoolName> = commands.iter().flat_map(Command::pools).collect();
        let count = commands.len();
        match self.dice.below(100) {
            // It dies before the commit: nothing of it may be seen.
            0..=5 => {
                let mut ledgers: BTreeMap<PoolName, Ledger> = pools
                    .iter()
                    .filter_map(|pool| Some((pool.clone(), self.cache.ledger(pool)?.clone())))
                    .collect();
                let mut tx = self.store.begin().await.map_err(told)?;
                tx.pools().pass(&mut ledgers, &self.request(&pools, &commands)).await.map_err(told)?;
                drop(tx);
                (self.cache, self.tally.dropped) = (PoolCache::default(), self.tally.dropped + 1);
            }
            // It dies after the commit: nobody hears the answers.
            6..=9 => {
                self.pass(pools, commands).await?;
                self.cache = PoolCache::default();
                self.told.clear();
                self.tally.crashes += 1;
            }
            // The answers are lost on the way, and all is sent again.
            10..=15 => {
                self.pass(pools.clone(), commands.clone()).await?;
                self.pass(pools, commands).await?;
                self.tally.repeated += 1;
            }
            _ => self.pass(pools, commands).await?,
        }
        Ok(count)
    }

    async fn command(&mut self) -> Command {
        let fresh = match self.dice.below(100) {
            0..=44 => {
                let run = format!("r{}", self.dice.below(14));
                let mut pools = names();
                let first = pools.remove(usize::try_from(self.dice.below(3)).unwrap());
                let mut parts = vec![(first, 1 + self.dice.below(6))];
                if self.dice.chance(25) {
                    let second = self.dice.pick(&pools).unwrap().clone();
                    parts.push((second, 1 + self.dice.below(4)));
                }
                let parts: Vec<(PoolName, u32)> =
                    parts.into_iter().map(|(pool, units)| (pool, u32::try_from(units).unwrap())).collect();
                self.acquire(&run, &parts)
            }
            45..=74 => self.release(),
            75..=79 => {
                let parts =
                    self.told.iter().take(2).map(|(pool, ticket, _)| (pool.clone(), *ticket)).collect();
                Command::Claim { parts }
            }
            80..=84 => match self.told.pop_front() {
                Some((pool, ticket, epoch)) => Command::Unclaim { pool, ticket, epoch },
                None => self.release(),
            },
            85..=88 => match self.told.front().cloned() {
                Some((pool, ticket, _)) => {
                    let known = self.cache.ledger(&pool).and_then(|ledger| ledger.ticket(ticket));
                    let doubted_at = known.and_then(|known| known.doubted_at).unwrap_or(Timestamp::EPOCH);
                    let sessions = u32::try_from(self.dice.below(2)).unwrap();
                    Command::Probed { pool, ticket, doubted_at, sessions }
                }
                None => self.release(),
            },
            _ => {
                let past = self.past.lock().await;
                let again = self.dice.pick(past.as_slices().0).cloned();
                drop(past);
                match again {
                    Some(command) => return command,
                    None => self.release(),
                }
            }
        };
        let mut past = self.past.lock().await;
        past.push_back(fresh.clone());
        if past.len() > 60 {
            past.pop_front();
        }
        fresh
    }

    fn acquire(&mut self, run: &str, parts: &[(PoolName, u32)]) -> Command {
        let id = |dice: &mut Dice| {
            // Not in the order of time: the clocks of hosts differ.
            TicketId::new(Uuid::from_u64_pair(dice.next(), dice.next()))
        };
        let request = id(&mut self.dice);
        let is_single = parts.len() == 1;
        let parts = parts
            .iter()
            .map(|(pool, units)| Part {
                pool: pool.clone(),
                ticket: if is_single { request } else { id(&mut self.dice) },
                parallel: NonZeroU32::new(*units),
                sessions: None,
                least: NonZeroU32::new(1 + u32::try_from(self.dice.below(u64::from(*units))).unwrap()),
            })
            .collect();
        let lease_for = self.dice.chance(60).then(|| Duration::from_secs(20 + self.dice.below(60)));
        let call = self.dice.chance(30).then(|| format!("call-{}", self.dice.below(1_000)).into());
        Command::Acquire(Box::new(Acquire {
            request,
            parts,
            holder: Holder::run("dag", run).unwrap(),
            class: if self.dice.chance(10) { Class::Critical } else { Class::Normal },
            table: format!("T{}", self.dice.below(3)),
            hint: None,
            lease_for,
            deadline: None,
            stays: Duration::from_secs(self.dice.below(30)),
            call,
        }))
    }

    fn release(&mut self) -> Command {
        let pool: PoolName = self.dice.pick(&names()).unwrap().clone();
        let run = format!("r{}", self.dice.below(14));
        let known = self.told.pop_back().filter(|_| self.dice.chance(60));
        let (pool, by, epoch) = match known {
            Some((pool, ticket, epoch)) => (pool, ReleaseBy::Ticket(ticket), Some(epoch)),
            None if self.dice.chance(50) => {
                (pool, ReleaseBy::Holder(Holder::run("dag", &run).unwrap()), None)
            }
            None => (pool, ReleaseBy::Run { dag_id: "dag".into(), run_id: run }, None),
        };
        let end = End::Released { failed: self.dice.chance(10) };
        let call = self.dice.chance(30).then(|| format!("call-{}", self.dice.below(1_000)).into());
        Command::Release(Box::new(Release { pool, by, epoch, end, call }))
    }

    fn request<'a>(&mut self, pools: &'a BTreeSet<PoolName>, commands: &'a [Command]) -> PassRequest<'a> {
        let lapses = if self.dice.chance(50) { Lapses::Sought } else { Lapses::Left };
        PassRequest { pools, commands, pace: Pace::default(), lapses }
    }

    /// A pass, and another where the first was not wide enough.
    async fn pass(
        &mut self,
        mut pools: BTreeSet<PoolName>,
        mut commands: Vec<Command>,
    ) -> Result<(), String> {
        for _ in 0..3 {
            let request = self.request(&pools, &commands);
            let before = self.clock.now();
            let outcome = self.store.pool_pass(&mut self.cache, &request).await.map_err(told)?;
            self.tally.passes += 1;
            if self.clock.now() == before {
                self.nobody_is_left_waiting(&pools)?;
            }
            self.look_for_faults().await?;
            let mut wider = outcome.wider;
            let mut again = Vec::new();
            for (command, answer) in commands.iter().zip(outcome.answers) {
                match answer {
                    Answer::Wider(more) => {
                        wider.extend(more);
                        again.push(command.clone());
                    }
                    other => self.hear(&other),
                }
            }
            if wider.is_subset(&pools) {
                return Ok(());
            }
            pools.extend(wider);
            commands = again;
        }
        Ok(())
    }

    fn hear(&mut self, answer: &Answer) {
        match answer {
            Answer::Admitted { parts, .. } => {
                self.tally.admitted += 1;
                self.told
                    .extend(parts.iter().map(|part| (part.pool.clone(), part.ticket.id, part.ticket.epoch)));
                while self.told.len() > 20 {
                    self.told.pop_front();
                }
            }
            Answer::Waits(_) => self.tally.waited += 1,
            Answer::Released(released) if released.released => self.tally.released += 1,
            _ => {}
        }
    }

    /// The first of a queue that asks for this pool alone does not fit, or nothing starts at all.
    fn nobody_is_left_waiting(&self, pools: &BTreeSet<PoolName>) -> Result<(), String> {
        for pool in pools {
            let Some(ledger) = self.cache.ledger(pool) else { continue };
            let (settings, now) = (ledger.settings(), self.clock.now());
            let queue = ledger.queue(now);
            let Some(first) = queue.first().filter(|first| first.with.is_empty()) else { continue };
            let (least, has) = match first.upgrade.filter(|_| first.state.counts()) {
                Some(upgrade) => (upgrade.parallel, first.units()),
                None if settings.policy != Policy::Halving => (first.asked, 0),
                None => (first.least, 0),
            };
            let room = settings.limit_at(now).saturating_sub(ledger.usage());
            if settings.paused.is_none() && first.weight.units(least).saturating_sub(has) <= room {
                return Err(format!("{pool}: {first:?} waits although {room} units are free"));
            }
        }
        Ok(())
    }

    async fn look_for_faults(&mut self) -> Result<(), String> {
        let mut auditor = self.auditor.lock().await;
        let mut tx = self.store.read().await.map_err(told)?;
        auditor.check(&mut tx).await?;
        drop(auditor);
        if self.dice.chance(6) {
            let name = self.dice.pick(&names()).unwrap().clone();
            self.remembers_what_is_stored(&mut tx, &name).await?;
            // The whole log each time: seldom, because it grows.
            if self.dice.chance(8) {
                let audited = tx.pools().verify(&name).await.map_err(told)?.unwrap();
                if !audited.differences.is_empty() {
                    return Err(format!("{name}: {:?}", audited.differences));
                }
            }
        }
        tx.rollback().await.map_err(told)
    }

    /// What is remembered and brought up to date is what somebody finds who reads everything.
    async fn remembers_what_is_stored(
        &mut self,
        tx: &mut tidemill_store::Tx,
        pool: &PoolName,
    ) -> Result<(), String> {
        self.store.pool_refresh(&mut self.cache, &BTreeSet::from([pool.clone()])).await.map_err(told)?;
        let read = tx.pools().ledger(pool).await.map_err(told)?.unwrap();
        let known = self.cache.ledger(pool).unwrap();
        if known.version() != read.version() {
            return Ok(());
        }
        let finds = |ledger: &Ledger| {
            let is_found =
                |ticket: &Ticket| ledger.of_holder(&ticket.holder).is_some_and(|found| found.id == ticket.id);
            ledger.tickets().all(is_found)
        };
        if *known != read || known.usage() != read.usage() || !finds(known) || !finds(&read) {
            return Err(format!("{pool}: what is remembered is not what is stored"));
        }
        Ok(())
    }
}

fn told(error: tidemill_store::StoreError) -> String {
    format!("{error:?}")
}
