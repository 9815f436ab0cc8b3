//! A night of the demo: 1,200 batches ask two source databases for connections, in accelerated time. They behave as the
//! clients of the document do: who is told to wait asks again when it was told to. How many connections are open is
//! counted by the batches themselves, and not by the pools.

mod workload;

use super::verdict::Verdicts;
use crate::context::Context;
use crate::report::Failure;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::pool::command::{Acquire, Admitted, Answer, Command, Part, Release, ReleaseBy};
use tidemill_domain::pool::estimate::Pace;
use tidemill_domain::pool::event::End;
use tidemill_domain::pool::{Class, Holder, PoolName, Settings};
use tidemill_domain::time::{FakeClock, Timestamp};
use tidemill_engine::SystemIds;
use tidemill_engine::pool::{Ask, AskPart, PoolError, Pools};
use tidemill_store::pool::{Lapses, PassRequest, PoolCache};
use tidemill_store::{Init, Store, StoreError, StoreOptions};
use tokio::task::JoinSet;
use workload::Batch;

/// Whatever is drawn by chance follows from it.
const SEED: u64 = 20_240_125;

/// The two databases: name, the document's id, connections, and how many of a hundred are given out.
const DATABASES: [(&str, i64, u32, u8); 2] = [("ADW", 4, 1_000, 95), ("ERP", 5, 500, 90)];

pub(super) async fn perform(context: &Context, verdicts: &mut Verdicts) -> Result<(), Failure> {
    context.note("a night of batches asks for connections to ADW and ERP, in accelerated time");
    let midnight = Timestamp::from_micros(1_706_140_800_000_000);
    let clock = Arc::new(FakeClock::at(midnight));
    let options = StoreOptions { clock: Some(clock.clone()), ..StoreOptions::default() };
    let store = Store::open("sqlite::memory:".parse()?, &options).await?;
    store.initialise(Init::Always).await?;
    let pools = create_pools(&store, 1).await?;
    let limits = pools.into_iter().map(|pool| (pool.name.clone(), pool.limit_at(midnight))).collect();
    let mut night = Night::new(store, clock, midnight, limits);
    night.play().await?;
    night.judge(verdicts).await
}

/// The pools of both databases, with this share of their connections.
async fn create_pools(store: &Store, share: u32) -> Result<Vec<Settings>, Failure> {
    let mut pools = Vec::new();
    for (name, id, max_units, threshold_percent) in DATABASES {
        let mut settings = Settings::new(name.parse().map_err(unexpected)?, max_units / share);
        settings.external_id = Some(id);
        settings.threshold_percent = threshold_percent;
        let mut tx = store.begin().await?;
        tx.pools().create(&settings, &Actor::system()).await?;
        tx.commit().await?;
        pools.push(settings);
    }
    Ok(pools)
}

fn unexpected(error: impl std::error::Error) -> Failure {
    Failure::unexpected("the night of the demo cannot be played", &error)
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Turn {
    Asks,
    Ends,
}

struct Night {
    store: Store,
    clock: Arc<FakeClock>,
    midnight: Timestamp,
    batches: Vec<Batch>,
    limits: BTreeMap<PoolName, u64>,
    /// The connections that batches have open now, by their own count.
    open: BTreeMap<PoolName, u64>,
    peaks: BTreeMap<PoolName, u64>,
    decisions: u64,
    downgraded: u64,
    waited: Vec<Duration>,
    violations: u64,
    ended: u64,
}

impl Night {
    fn new(
        store: Store,
        clock: Arc<FakeClock>,
        midnight: Timestamp,
        limits: BTreeMap<PoolName, u64>,
    ) -> Self {
        Self {
            store,
            clock,
            midnight,
            batches: workload::night(SEED),
            limits,
            open: BTreeMap::new(),
            peaks: BTreeMap::new(),
            decisions: 0,
            downgraded: 0,
            waited: Vec::new(),
            violations: 0,
            ended: 0,
        }
    }

    async fn play(&mut self) -> Result<(), Failure> {
        let mut cache = PoolCache::default();
        let mut held: BTreeMap<usize, Admitted> = BTreeMap::new();
        let mut turns: BinaryHeap<Reverse<(Duration, Turn, usize)>> = self
            .batches
            .iter()
            .enumerate()
            .map(|(index, batch)| Reverse((batch.arrives, Turn::Asks, index)))
            .collect();
        while let Some(Reverse((at, turn, index))) = turns.pop() {
            self.clock.jump_to(self.midnight.plus(at));
            let Some(batch) = self.batches.get(index).cloned() else { continue };
            let command = match turn {
                Turn::Asks => ask(&batch, index)?,
                Turn::Ends => give_back(&batch, index)?,
            };
            match self.decide(&mut cache, command).await? {
                Answer::Admitted { parts, .. } => {
                    let Some(admitted) = parts.into_iter().next() else { continue };
                    let parallel = admitted.ticket.granted.unwrap_or(NonZeroU32::MIN);
                    self.opens(&batch, &admitted, at);
                    turns.push(Reverse((at + batch.takes(parallel), Turn::Ends, index)));
                    held.insert(index, admitted);
                }
                Answer::Waits(waits) => {
                    let pause = Duration::from_secs(waits.wait_seconds.into());
                    turns.push(Reverse((at + pause, Turn::Asks, index)));
                }
                Answer::Released(_) => {
                    if let Some(admitted) = held.remove(&index) {
                        self.closes(&admitted);
                    }
                }
                other => {
                    tracing::error!(?other, "an answer that nobody expects");
                    self.violations += 1;
                }
            }
        }
        Ok(())
    }

    async fn decide(&mut self, cache: &mut PoolCache, command: Command) -> Result<Answer, StoreError> {
        let pools: BTreeSet<PoolName> = command.pools();
        let commands = [command];
        let request =
            PassRequest { pools: &pools, commands: &commands, pace: Pace::default(), lapses: Lapses::Sought };
        let mut outcome = self.store.pool_pass(cache, &request).await?;
        self.decisions += 1;
        Ok(outcome.answers.pop().unwrap_or(Answer::Gone))
    }

    fn opens(&mut self, batch: &Batch, admitted: &Admitted, at: Duration) {
        let open = self.open.entry(admitted.pool.clone()).or_default();
        *open += admitted.ticket.units();
        let peak = self.peaks.entry(admitted.pool.clone()).or_default();
        *peak = (*peak).max(*open);
        if self.limits.get(&admitted.pool).is_none_or(|limit| *open > *limit) {
            self.violations += 1;
        }
        self.downgraded += u64::from(admitted.ticket.is_downgraded());
        let waited = at.saturating_sub(batch.arrives);
        if !waited.is_zero() {
            self.waited.push(waited);
        }
    }

    fn closes(&mut self, admitted: &Admitted) {
        if let Some(open) = self.open.get_mut(&admitted.pool) {
            *open -= admitted.ticket.units();
        }
        self.ended += 1;
    }

    async fn judge(mut self, verdicts: &mut Verdicts) -> Result<(), Failure> {
        for pool in self.limits.keys() {
            let mut tx = self.store.read().await?;
            let audited = tx.pools().verify(pool).await?;
            let differences = audited.map_or(1, |audited| audited.differences.len() as u64 + audited.usage);
            self.violations += differences;
        }
        self.store.close().await;
        let all = self.batches.len() as u64;
        let waits = self.waited.len() as u64;
        let mean = self.waited.iter().sum::<Duration>().as_secs().checked_div(waits).unwrap_or(0);
        let peak = |name: &str| {
            let found = self.peaks.iter().find(|(pool, _)| pool.as_str() == name);
            found.map_or(0, |(_, units)| *units)
        };
        let [(adw, _, adw_max, _), (erp, _, erp_max, _)] = DATABASES;
        verdicts.add(
            self.violations == 0 && self.ended == all && self.downgraded > 0 && waits > 0,
            format!(
                "a night of {all} batches: {} decisions, {} downgrades, {waits} waits ({mean} s on average), peak usage \
                 {} of {adw_max} ({adw}) and {} of {erp_max} ({erp}), {} violations",
                self.decisions,
                self.downgraded,
                peak(adw),
                peak(erp),
                self.violations
            ),
        );
        Ok(())
    }
}

fn run_of(index: usize) -> String {
    format!("scheduled__2024-01-25T00:00:00+00:00#{index}")
}

fn ask(batch: &Batch, index: usize) -> Result<Command, Failure> {
    let ticket = SystemIds.ticket();
    let part = Part {
        pool: batch.database.parse().map_err(unexpected)?,
        ticket,
        parallel: Some(batch.parallel),
        sessions: None,
        least: None,
    };
    Ok(Command::Acquire(Box::new(Acquire {
        request: ticket,
        parts: vec![part],
        holder: Holder::run(&batch.dag_id, &run_of(index)).map_err(unexpected)?,
        class: Class::Normal,
        table: batch.table.clone(),
        hint: None,
        lease_for: None,
        stays: Duration::ZERO,
        call: None,
    })))
}

fn give_back(batch: &Batch, index: usize) -> Result<Command, Failure> {
    Ok(Command::Release(Box::new(Release {
        pool: batch.database.parse().map_err(unexpected)?,
        by: ReleaseBy::Run { dag_id: batch.dag_id.clone(), run_id: run_of(index) },
        epoch: None,
        end: End::Released { failed: false },
        call: None,
    })))
}

const SHARE: u32 = 10;
const BATCHES: usize = 120;
const SPEED: u32 = 720;

/// How long a batch stays for an answer before it asks again.
const WAIT: Duration = Duration::from_secs(5);

/// Makes the pools of the nights that the dashboard shows.
pub(super) async fn create_live_pools(store: &Store) -> Result<(), Failure> {
    create_pools(store, SHARE).await.map(drop)
}

/// Plays one night on the pools that the dashboard shows: a tenth of the batches, in a tenth of the connections, 720 times as
/// fast. Batches wait in the queue until it is their turn. Each night is another one.
pub(super) async fn play(pools: &Pools, round: u32) -> Result<(), Failure> {
    let mut running = JoinSet::new();
    for batch in workload::night(round.into()).into_iter().take(BATCHES) {
        let pool: PoolName = batch.database.parse().map_err(unexpected)?;
        let holder = Holder::run(&batch.dag_id, &format!("night-{round}")).map_err(unexpected)?;
        running.spawn(run(pools.clone(), pool, holder, batch));
    }
    while let Some(ended) = running.join_next().await {
        match ended {
            Ok(ended) => ended.map_err(unexpected)?,
            Err(error) => return Err(unexpected(error)),
        }
    }
    Ok(())
}

/// A batch: it comes, waits, works and gives back.
async fn run(pools: Pools, pool: PoolName, holder: Holder, batch: Batch) -> Result<(), PoolError> {
    tokio::time::sleep(batch.arrives / SPEED).await;
    let part = AskPart::new(pool.clone(), Some(batch.parallel));
    let ask = Ask { table: batch.table.clone(), ..Ask::new(holder.clone(), part) };
    let granted = loop {
        match pools.acquire(&ask, WAIT).await? {
            Answer::Admitted { parts, .. } => break parts.first().and_then(|part| part.ticket.granted),
            Answer::Waits(_) => {}
            other => {
                tracing::warn!(?other, "{} is not admitted", batch.dag_id);
                return Ok(());
            }
        }
    };
    tokio::time::sleep(batch.takes(granted.unwrap_or(NonZeroU32::MIN)) / SPEED).await;
    let end = End::Released { failed: false };
    pools.release(Release { pool, by: ReleaseBy::Holder(holder), epoch: None, end, call: None }).await?;
    Ok(())
}
