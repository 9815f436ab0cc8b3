//! A night of the demo: 1,200 batches request connections to two databases, in accelerated time. Like EMR Batch Agents, a
//! batch that has to wait asks again later. The batches count their open connections themselves, to check the pools.

use super::{GRACE, PAUSE, Stage, Verdicts, unexpected};
use crate::report::Result;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::pool::command::{Admitted, Answer, Release, ReleaseBy};
use tidemill_domain::pool::event::End;
use tidemill_domain::pool::simulate::model::{self, Scenario};
use tidemill_domain::pool::simulate::{Batch, MIDNIGHT};
use tidemill_domain::pool::{Holder, PoolName, Settings};
use tidemill_domain::time::{FakeClock, Timestamp};
use tidemill_engine::pool::{AcquirePart, AcquireRequest, PoolError, PoolOptions, Pools};
use tidemill_store::{Init, Store, StoreOptions};
use tokio::sync::watch;
use tokio::task::JoinSet;

const SEED: u64 = 20_240_125;

/// A third more than the databases can take at the peak.
const SCENARIO: Scenario = Scenario::Crisis;

pub(super) async fn perform(stage: &Stage<'_>, verdicts: &mut Verdicts) -> Result<()> {
    stage.context.note("a night of batches requests connections to ADW and ERP, in accelerated time");
    let clock = Arc::new(FakeClock::at(MIDNIGHT));
    let options = StoreOptions { clock: Some(clock.clone()), ..StoreOptions::default() };
    let store = Store::open("sqlite::memory:".parse()?, &options).await?;
    store.initialise(Init::Always).await?;
    let settings = create_pools(&store, 1).await?;
    let pools = Pools::start(store.clone(), PoolOptions::default());
    let batches = model::workload(SCENARIO, SEED).batches;
    let mut totals = Totals::default();
    totals.play(&batches, &pools, &settings, &clock).await?;
    for pool in &settings {
        let verified = store.read().await?.pools().verify(&pool.name).await?;
        totals.violations += verified.map_or(1, |found| found.violations + found.usage);
    }
    store.close().await;
    let Totals { peaks, decisions, downgraded, waited, violations, ended, .. } = totals;
    let waits = waited.len() as u64;
    let mean = waited.iter().sum::<Duration>().as_secs().checked_div(waits).unwrap_or(0);
    let peak = |Settings { name, max_units, .. }: &Settings| {
        format!("{} of {max_units} ({name})", peaks.get(name).unwrap_or(&0))
    };
    let peaks: Vec<String> = settings.iter().map(peak).collect();
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
pub(super) async fn create_pools(store: &Store, divisor: u32) -> Result<Vec<Settings>> {
    let mut pools = Vec::new();
    for mut settings in model::pools() {
        settings.max_units /= divisor;
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
    open: BTreeMap<PoolName, u64>,
    peaks: BTreeMap<PoolName, u64>,
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
    ) -> Result<()> {
        let mut units: BTreeMap<usize, u64> = BTreeMap::new();
        let arrivals = batches.iter().enumerate();
        let mut turns: BinaryHeap<Reverse<(Timestamp, Turn, usize)>> =
            arrivals.map(|(index, batch)| Reverse((batch.arrives_at, Turn::Asks, index))).collect();
        while let Some(Reverse((at, turn, index))) = turns.pop() {
            clock.jump_to(at);
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
                    turns.push(Reverse((at.plus(batch.run.with(parallel)), Turn::Ends, index)));
                }
                Answer::Waits(waits) => {
                    let pause = Duration::from_secs(waits.wait_seconds.into());
                    turns.push(Reverse((at.plus(pause), Turn::Asks, index)));
                }
                Answer::Released(_) => {
                    *self.open.entry(batch.pool.clone()).or_default() -= units.remove(&index).unwrap_or(0);
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

    fn admit(&mut self, batch: &Batch, admitted: &Admitted, at: Timestamp, settings: &[Settings]) {
        let open = self.open.entry(batch.pool.clone()).or_default();
        *open += admitted.ticket.units();
        let peak = self.peaks.entry(batch.pool.clone()).or_default();
        *peak = (*peak).max(*open);
        let pool = settings.iter().find(|pool| pool.name == admitted.pool);
        if pool.is_none_or(|pool| *open > pool.limit_at(MIDNIGHT)) {
            self.violations += 1;
        }
        self.downgraded += u64::from(admitted.ticket.is_downgraded());
        self.waited.extend(Some(at.since(batch.arrives_at)).filter(|waited| !waited.is_zero()));
    }
}

fn ask(batch: &Batch, run: &str) -> Result<AcquireRequest> {
    let holder = Holder::run(batch.holder.dag_id(), run).map_err(unexpected)?;
    Ok(AcquireRequest {
        table: batch.table.clone(),
        ..AcquireRequest::new(holder, AcquirePart::new(batch.pool.clone(), Some(batch.asked)))
    })
}

async fn release(pools: &Pools, ask: AcquireRequest) -> Result<Answer, PoolError> {
    let Some(part) = ask.parts.into_iter().next() else { return Ok(Answer::Gone) };
    let (by, end) = (ReleaseBy::Holder(ask.holder), End::Released { failed: false });
    pools.release(Release { pool: part.pool, by, epoch: None, end, call: None }).await
}

/// The pools of the dashboard have a tenth of the connections.
pub(super) const DIVISOR: u32 = 10;
const SPEED: u32 = 720;

/// How long a batch waits for an answer before it asks again.
const WAIT: Duration = Duration::from_secs(5);

/// Plays one night on the pools of the dashboard: a tenth of the batches and connections, 720 times as fast. Every round
/// is different. At the end of the demo, the batches stop and release their units.
pub(super) async fn play(pools: &Pools, round: u32, ended: &watch::Receiver<bool>) -> Result<()> {
    let mut running = JoinSet::new();
    for batch in model::workload(SCENARIO, round.into()).batches.into_iter().step_by(DIVISOR as usize) {
        let ask = ask(&batch, &format!("night-{round}"))?;
        running.spawn(run(pools.clone(), ask, batch, ended.clone()));
    }
    while let Some(ran) = running.join_next().await {
        ran.map_err(unexpected)?;
    }
    Ok(())
}

/// One batch: arrives, waits, works and releases. It always releases, because it may have units of which it has not heard.
async fn run(pools: Pools, ask: AcquireRequest, batch: Batch, mut ended: watch::Receiver<bool>) {
    tokio::select! {
        () = work(&pools, &ask, &batch) => {}
        _ended = ended.wait_for(|ended| *ended) => {}
    }
    let released = async {
        while let Err(error) = release(&pools, ask.clone()).await {
            tracing::warn!(%error, "{} could not release its units, will try again", batch.holder);
            tokio::time::sleep(PAUSE).await;
        }
    };
    let gave_up = async {
        drop(ended.wait_for(|ended| *ended).await);
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        () = released => {}
        () = gave_up => tracing::error!("{} still has its units at the end of the demo", batch.holder),
    }
}

async fn work(pools: &Pools, ask: &AcquireRequest, batch: &Batch) {
    tokio::time::sleep(batch.arrives_at.since(MIDNIGHT) / SPEED).await;
    let granted = loop {
        match pools.acquire(ask, WAIT).await {
            Ok(Answer::Admitted { parts, .. }) => break parts.first().and_then(|part| part.ticket.granted),
            Ok(Answer::Waits(_)) => {}
            Ok(other) => return tracing::warn!(?other, "{} was not admitted", batch.holder),
            Err(error) => {
                tracing::warn!(%error, "{} could not request units, will try again", batch.holder);
                tokio::time::sleep(PAUSE).await;
            }
        }
    };
    tokio::time::sleep(batch.run.with(granted.unwrap_or(NonZeroU32::MIN)) / SPEED).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_store::scratch::Scratch;

    /// Live tickets of all pools.
    async fn live(store: &Store) -> usize {
        let mut count = 0;
        for Settings { name, .. } in model::pools() {
            let mut tx = store.read().await.unwrap();
            let ledger = tx.pools().ledger(&name).await.unwrap().unwrap();
            count += ledger.tickets().count();
        }
        count
    }

    /// Keeps another connection in a write transaction until three requests have failed because of it.
    async fn lock_for_a_while(url: &str, pools: &Pools) {
        let other = Store::connect(url).await.unwrap();
        let mut tx = other.begin().await.unwrap();
        tx.execute_for_test("update tidemill_pool set version = version").await.unwrap();
        for _ in 0..3 {
            let request = ask(&model::workload(SCENARIO, 0).batches[0], "other").unwrap();
            let failed = release(pools, request).await;
            assert!(failed.is_err(), "{failed:?}");
        }
        tx.rollback().await.unwrap();
        other.close().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_night_that_meets_a_locked_database_leaves_nothing_behind() {
        let scratch = Scratch::file();
        let options = StoreOptions { busy_timeout: Duration::from_millis(200), ..StoreOptions::default() };
        let store = Store::open(scratch.url().parse().unwrap(), &options).await.unwrap();
        store.initialise(Init::Always).await.unwrap();
        create_pools(&store, DIVISOR).await.unwrap();
        let pools = Pools::start(store.clone(), PoolOptions::default());
        let (end, ended) = watch::channel(false);
        let playing = tokio::spawn({
            let pools = pools.clone();
            async move { play(&pools, 1, &ended).await }
        });
        super::super::until("a batch with units", async || Ok((live(&store).await > 0).then_some(())))
            .await
            .unwrap();

        lock_for_a_while(scratch.url(), &pools).await;
        end.send_replace(true);
        lock_for_a_while(scratch.url(), &pools).await;

        playing.await.unwrap().unwrap();
        assert_eq!(live(&store).await, 0);
    }
}
