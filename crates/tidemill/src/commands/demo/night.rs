//! A night of the demo: 1,200 batches request connections to two databases, in accelerated time. Like EMR Batch Agents, a
//! batch that has to wait asks again later. The batches count their open connections themselves, to check the pools.

use super::{GRACE, PAUSE, Stage, Verdicts, unexpected};
use crate::report::Result;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::f64::consts::TAU;
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
use tokio::sync::watch;
use tokio::task::JoinSet;

const SEED: u64 = 20_240_125;

const MIDNIGHT: Timestamp = Timestamp::from_micros(1_706_140_800_000_000);

/// Name, external id, connections, and threshold in percent.
const DATABASES: [(&str, i64, u32, u8); 2] = [("ADW", 4, 1_000, 95), ("ERP", 5, 500, 90)];

pub(super) async fn perform(stage: &Stage<'_>, verdicts: &mut Verdicts) -> Result<()> {
    stage.context.note("a night of batches requests connections to ADW and ERP, in accelerated time");
    let clock = Arc::new(FakeClock::at(MIDNIGHT));
    let options = StoreOptions { clock: Some(clock.clone()), ..StoreOptions::default() };
    let store = Store::open("sqlite::memory:".parse()?, &options).await?;
    store.initialise(Init::Always).await?;
    let settings = create_pools(&store, 1).await?;
    let pools = Pools::start(store.clone(), PoolOptions::default());
    let batches = night(SEED);
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
pub(super) async fn create_pools(store: &Store, divisor: u32) -> Result<Vec<Settings>> {
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
    ) -> Result<()> {
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

fn ask(batch: &Batch, run: &str) -> Result<AcquireRequest> {
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
const BATCHES_SHOWN: usize = 120;
const SPEED: u32 = 720;

/// How long a batch waits for an answer before it asks again.
const WAIT: Duration = Duration::from_secs(5);

/// Plays one night on the pools of the dashboard: a tenth of the batches and connections, 720 times as fast. Every round
/// is different. At the end of the demo, the batches stop and release their units.
pub(super) async fn play(pools: &Pools, round: u32, ended: &watch::Receiver<bool>) -> Result<()> {
    let mut running = JoinSet::new();
    for batch in night(round.into()).into_iter().take(BATCHES_SHOWN) {
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
            tracing::warn!(%error, "{} could not release its units, will try again", batch.dag_id);
            tokio::time::sleep(PAUSE).await;
        }
    };
    let gave_up = async {
        drop(ended.wait_for(|ended| *ended).await);
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        () = released => {}
        () = gave_up => tracing::error!("{} still has its units at the end of the demo", batch.dag_id),
    }
}

async fn work(pools: &Pools, ask: &AcquireRequest, batch: &Batch) {
    tokio::time::sleep(batch.arrives / SPEED).await;
    let granted = loop {
        match pools.acquire(ask, WAIT).await {
            Ok(Answer::Admitted { parts, .. }) => break parts.first().and_then(|part| part.ticket.granted),
            Ok(Answer::Waits(_)) => {}
            Ok(other) => return tracing::warn!(?other, "{} was not admitted", batch.dag_id),
            Err(error) => {
                tracing::warn!(%error, "{} could not request units, will try again", batch.dag_id);
                tokio::time::sleep(PAUSE).await;
            }
        }
    };
    tokio::time::sleep(batch.takes(granted.unwrap_or(NonZeroU32::MIN)) / SPEED).await;
}

const BATCHES: usize = 1_200;

/// Median run in seconds of a batch with parallelism 8: about a third more than the databases can take at the peak.
const MEDIAN: f64 = 1_260.0;

/// Start-up in seconds, which is not parallel.
const START_UP: f64 = 90.0;

/// Begin and end of an interval in hours, and the share of batches that arrive before its end.
const ARRIVALS: [((f64, f64), f64); 4] =
    [((0.0, 1.0), 0.1), ((1.0, 3.0), 0.7), ((3.0, 6.0), 0.9), ((6.0, 7.5), 1.0)];

/// Parallelism, and the share of batches that request at most this.
const PARALLEL: [(u32, f64); 6] = [(1, 0.1), (2, 0.2), (4, 0.45), (8, 0.75), (16, 0.92), (32, 1.0)];

#[derive(Clone, PartialEq, Debug)]
struct Batch {
    dag_id: String,
    table: String,
    database: &'static str,
    arrives: Duration,
    parallel: NonZeroU32,
    /// In seconds, with the requested parallelism.
    run: f64,
    /// Share of the work that is parallel.
    share: f64,
}

impl Batch {
    fn takes(&self, parallel: NonZeroU32) -> Duration {
        let effort = |parallel: f64| (1.0 - self.share) + self.share / parallel;
        let work = (self.run - START_UP).max(1.0) / effort(f64::from(self.parallel.get()));
        Duration::from_secs_f64(START_UP + work * effort(f64::from(parallel.get())))
    }
}

/// All batches of a night, unsorted.
fn night(seed: u64) -> Vec<Batch> {
    let mut random = Random(seed);
    (1..=BATCHES).map(|number| batch(number, &mut random)).collect()
}

fn batch(number: usize, random: &mut Random) -> Batch {
    let database = if number % 10 < 7 { "ADW" } else { "ERP" };
    let parallel = random.pick(&PARALLEL);
    let arrives = arrival(random);
    let median = MEDIAN * (f64::from(parallel) / 8.0).powf(0.2);
    let run = (median * (0.8 * random.normal()).exp()).clamp(180.0, 7_200.0);
    Batch {
        dag_id: format!("batch_{number:04}"),
        table: format!("TABLE_{:03}", number % 400),
        database,
        arrives: Duration::from_secs_f64(arrives),
        parallel: NonZeroU32::new(parallel).unwrap_or(NonZeroU32::MIN),
        run,
        share: 0.80 + 0.19 * random.unit(),
    }
}

/// In seconds after midnight. Three of four start by cron, a little late.
fn arrival(random: &mut Random) -> f64 {
    let (begin, end) = random.pick(&ARRIVALS);
    let at = (begin + (end - begin) * random.unit()) * 3_600.0;
    if random.unit() < 0.75 {
        let late = (-12.0 * (1.0 - random.unit()).ln()).min(60.0);
        return (at / 300.0).floor() * 300.0 + late;
    }
    at
}

/// Repeatable random numbers: SplitMix64, and the normal distribution by Box and Muller.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (first, second) = (1.0 - self.unit(), self.unit());
        (-2.0 * first.ln()).sqrt() * (TAU * second).cos()
    }

    /// The first value whose share is above a random number.
    fn pick<T: Copy + Default>(&mut self, shares: &[(T, f64)]) -> T {
        let drawn = self.unit();
        shares.iter().find(|(_, share)| drawn < *share).map(|(value, _)| *value).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_store::scratch::Scratch;

    /// Live tickets of all pools.
    async fn live(store: &Store) -> usize {
        let mut count = 0;
        for (name, ..) in DATABASES {
            let mut tx = store.read().await.unwrap();
            let ledger = tx.pools().ledger(&name.parse().unwrap()).await.unwrap().unwrap();
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
            let request = ask(&night(0)[0], "other").unwrap();
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

    #[test]
    fn a_night_is_the_same_every_time_and_busiest_after_one() {
        let batches = night(1);

        assert_eq!(batches, night(1));
        assert_ne!(batches, night(2));
        let hours = |from: u64, to: u64| {
            let within = Duration::from_secs(from * 3_600)..Duration::from_secs(to * 3_600);
            batches.iter().filter(|batch| within.contains(&batch.arrives)).count()
        };
        assert!(hours(1, 3) > BATCHES / 2);
        assert_eq!(hours(0, 8), BATCHES);
    }

    #[test]
    fn less_parallelism_takes_longer() {
        for batch in night(3) {
            let asked = batch.takes(batch.parallel);
            assert!(batch.takes(NonZeroU32::MIN) >= asked);
            assert!(asked >= Duration::from_secs(90) && asked <= Duration::from_secs(7_201));
        }
    }
}
