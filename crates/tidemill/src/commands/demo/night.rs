//! A night of the demo: 1,200 batches request connections to two databases, in accelerated time. Like EMR Batch Agents, a
//! batch that has to wait asks again later. The batches count their open connections themselves, to check the pools.

mod workload;

use super::{Stage, Verdicts, unexpected};
use crate::report::Failure;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::pool::command::{Admitted, Answer, Release, ReleaseBy};
use tidemill_domain::pool::event::End;
use tidemill_domain::pool::{Holder, Settings};
use tidemill_domain::time::{FakeClock, Timestamp};
use tidemill_engine::pool::{AcquirePart, AcquireRequest, PoolError, PoolOptions, Pools};
use tidemill_store::{Init, Store, StoreOptions};
use tokio::task::JoinSet;
use workload::Batch;

/// Seed of all random numbers.
const SEED: u64 = 20_240_125;

const MIDNIGHT: Timestamp = Timestamp::from_micros(1_706_140_800_000_000);

/// Name, external id, connections, and threshold in percent.
const DATABASES: [(&str, i64, u32, u8); 2] = [("ADW", 4, 1_000, 95), ("ERP", 5, 500, 90)];

pub(super) async fn perform(stage: &Stage<'_>, verdicts: &mut Verdicts) -> Result<(), Failure> {
    stage.context.note("a night of batches requests connections to ADW and ERP, in accelerated time");
    let clock = Arc::new(FakeClock::at(MIDNIGHT));
    let options = StoreOptions { clock: Some(clock.clone()), ..StoreOptions::default() };
    let store = Store::open("sqlite::memory:".parse()?, &options).await?;
    store.initialise(Init::Always).await?;
    let settings = create_pools(&store, 1).await?;
    let pools = Pools::start(store.clone(), PoolOptions::default());
    let batches = workload::night(SEED);
    let mut totals = Totals::default();
    totals.play(&batches, &pools, &settings, &clock).await?;
    for pool in &settings {
        let verified = store.read().await?.pools().verify(&pool.name).await?;
        totals.violations += verified.map_or(1, |found| found.differences.len() as u64 + found.usage);
    }
    store.close().await;
    let Totals { peaks, decisions, downgraded, waited, violations, ended, .. } = totals;
    let waits = waited.len() as u64;
    let mean = waited.iter().sum::<Duration>().as_secs().checked_div(waits).unwrap_or(0);
    let peaks =
        DATABASES.map(|(name, _, max, _)| format!("{} of {max} ({name})", peaks.get(name).unwrap_or(&0)));
    verdicts.add(
        violations == 0 && ended == batches.len() && downgraded > 0 && waits > 0,
        format!(
            "a night of {} batches: {decisions} decisions, {downgraded} downgrades, {waits} waits ({mean} s on average), \
             peak usage {}, {violations} violations",
            batches.len(),
            peaks.join(" and ")
        ),
    );
    Ok(())
}

/// Creates the pools, with a part of the connections: `max_units / divisor`.
pub(super) async fn create_pools(store: &Store, divisor: u32) -> Result<Vec<Settings>, Failure> {
    let mut pools = Vec::new();
    for (name, id, max_units, threshold_percent) in DATABASES {
        let mut settings = Settings::new(name.parse().map_err(unexpected)?, max_units / divisor);
        settings.external_id = Some(id);
        settings.threshold_percent = threshold_percent;
        let mut tx = store.begin().await?;
        tx.pools().create(&settings, &Actor::system()).await?;
        tx.commit().await?;
        pools.push(settings);
    }
    Ok(pools)
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Turn {
    Asks,
    Ends,
}

#[derive(Default)]
struct Totals {
    /// Open connections by database, as the batches count them.
    open: BTreeMap<&'static str, u64>,
    peaks: BTreeMap<&'static str, u64>,
    decisions: u64,
    downgraded: u64,
    waited: Vec<Duration>,
    violations: u64,
    ended: usize,
}

impl Totals {
    async fn play(
        &mut self,
        batches: &[Batch],
        pools: &Pools,
        settings: &[Settings],
        clock: &FakeClock,
    ) -> Result<(), Failure> {
        let mut units: BTreeMap<usize, u64> = BTreeMap::new();
        let arrivals = batches.iter().enumerate();
        let mut turns: BinaryHeap<Reverse<(Duration, Turn, usize)>> =
            arrivals.map(|(index, batch)| Reverse((batch.arrives, Turn::Asks, index))).collect();
        while let Some(Reverse((at, turn, index))) = turns.pop() {
            clock.jump_to(MIDNIGHT.plus(at));
            let batch = &batches[index];
            let ask = ask(batch, "night")?;
            let answer = match turn {
                Turn::Asks => pools.acquire(&ask, Duration::ZERO).await,
                Turn::Ends => release(pools, ask).await,
            };
            self.decisions += 1;
            match answer.map_err(unexpected)? {
                Answer::Admitted { parts, .. } => {
                    let Some(admitted) = parts.first() else { continue };
                    self.admit(batch, admitted, at, settings);
                    units.insert(index, admitted.ticket.units());
                    let parallel = admitted.ticket.granted.unwrap_or(NonZeroU32::MIN);
                    turns.push(Reverse((at + batch.takes(parallel), Turn::Ends, index)));
                }
                Answer::Waits(waits) => {
                    let pause = Duration::from_secs(waits.wait_seconds.into());
                    turns.push(Reverse((at + pause, Turn::Asks, index)));
                }
                Answer::Released(_) => {
                    *self.open.entry(batch.database).or_default() -= units.remove(&index).unwrap_or(0);
                    self.ended += 1;
                }
                other => {
                    tracing::error!(?other, "unexpected answer");
                    self.violations += 1;
                }
            }
        }
        Ok(())
    }

    fn admit(&mut self, batch: &Batch, admitted: &Admitted, at: Duration, settings: &[Settings]) {
        let open = self.open.entry(batch.database).or_default();
        *open += admitted.ticket.units();
        let peak = self.peaks.entry(batch.database).or_default();
        *peak = (*peak).max(*open);
        let pool = settings.iter().find(|pool| pool.name == admitted.pool);
        if pool.is_none_or(|pool| *open > pool.limit_at(MIDNIGHT)) {
            self.violations += 1;
        }
        self.downgraded += u64::from(admitted.ticket.is_downgraded());
        self.waited.extend(Some(at.saturating_sub(batch.arrives)).filter(|waited| !waited.is_zero()));
    }
}

fn ask(batch: &Batch, run: &str) -> Result<AcquireRequest, Failure> {
    let pool = batch.database.parse().map_err(unexpected)?;
    let holder = Holder::run(&batch.dag_id, run).map_err(unexpected)?;
    Ok(AcquireRequest {
        table: batch.table.clone(),
        ..AcquireRequest::new(holder, AcquirePart::new(pool, Some(batch.parallel)))
    })
}

async fn release(pools: &Pools, ask: AcquireRequest) -> Result<Answer, PoolError> {
    let Some(part) = ask.parts.into_iter().next() else { return Ok(Answer::Gone) };
    let (by, end) = (ReleaseBy::Holder(ask.holder), End::Released { failed: false });
    pools.release(Release { pool: part.pool, by, epoch: None, end, call: None }).await
}

/// The pools of the dashboard have a tenth of the connections.
pub(super) const DIVISOR: u32 = 10;
const BATCHES: usize = 120;
const SPEED: u32 = 720;

/// How long a batch waits for an answer before it asks again.
const WAIT: Duration = Duration::from_secs(5);

/// Plays one night on the pools of the dashboard: a tenth of the batches and connections, 720 times as fast. Every round
/// is different.
pub(super) async fn play(pools: &Pools, round: u32) -> Result<(), Failure> {
    let mut running = JoinSet::new();
    for batch in workload::night(round.into()).into_iter().take(BATCHES) {
        let ask = ask(&batch, &format!("night-{round}"))?;
        running.spawn(run(pools.clone(), ask, batch));
    }
    while let Some(ended) = running.join_next().await {
        ended.map_err(unexpected)?.map_err(unexpected)?;
    }
    Ok(())
}

/// One batch: arrives, waits, works and releases.
async fn run(pools: Pools, ask: AcquireRequest, batch: Batch) -> Result<(), PoolError> {
    tokio::time::sleep(batch.arrives / SPEED).await;
    let granted = loop {
        match pools.acquire(&ask, WAIT).await? {
            Answer::Admitted { parts, .. } => break parts.first().and_then(|part| part.ticket.granted),
            Answer::Waits(_) => {}
            other => {
                tracing::warn!(?other, "{} was not admitted", batch.dag_id);
                return Ok(());
            }
        }
    };
    tokio::time::sleep(batch.takes(granted.unwrap_or(NonZeroU32::MIN)) / SPEED).await;
    release(&pools, ask).await.map(drop)
}
