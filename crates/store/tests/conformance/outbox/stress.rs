//! Many writers and several relays at once, on PostgreSQL: the writers lock, write, go back to savepoints and abort; the
//! relays read small pages, hand slots to each other, fall silent and are replaced. In the end everything that committed
//! was settled exactly once, and of each aggregate in the order in which it happened.

use super::reader::{LEASE, Reader, Settled, assert_no_gap, retire};
use super::stage::{TABLES, Version, Writer, are_in_causal_order};
use crate::Bench;
use crate::dice::{self, Dice};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use tidemill_domain::outbox::Slot;
use tidemill_domain::time::FakeClock;
use tidemill_store::Store;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

const WRITERS: u64 = 8;
const RELAYS: u64 = 3;
const AGGREGATES: usize = 12;

/// Transactions of each writer; the variable is for who has more time.
const TRANSACTIONS: u64 = 60;
const TRANSACTIONS_VARIABLE: &str = "TIDEMILL_TEST_TRANSACTIONS";

/// What the relays have in common.
struct Common {
    clock: Arc<FakeClock>,
    /// Ids of relays are never used again.
    next: AtomicU32,
    writing: AtomicUsize,
    settled: Mutex<Vec<Settled>>,
    /// How often slots were taken, and how often a relay was replaced.
    taken: AtomicUsize,
    replaced: AtomicUsize,
}

/// Rounds in which all that is to be tried has to come about at least once.
const ROUNDS: u64 = 8;

/// How often something came about that makes it hard.
#[derive(Default, Debug)]
struct Tried {
    taken: usize,
    replaced: usize,
    /// Events that were read after one with a higher id.
    late: usize,
}

impl Tried {
    fn is_enough(&self) -> bool {
        self.taken > 10 && self.replaced > 0 && self.late > 0
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_that_committed_is_settled_once_and_in_order() {
    let seed = dice::seed();
    let told = dice::repeat(seed);
    let mut tried = Tried::default();
    for round in 0..ROUNDS {
        let Some(bench) = Bench::postgres().await else { return };
        run_round(&bench, seed + 1000 * round, &told, &mut tried).await;
        if tried.is_enough() {
            return;
        }
    }
    panic!("{tried:?} in {ROUNDS} rounds; {told}");
}

async fn run_round(bench: &Bench, seed: u64, told: &str, tried: &mut Tried) {
    let transactions =
        std::env::var(TRANSACTIONS_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(TRANSACTIONS);
    let mut usher = Writer::new(bench.scratch.url()).await;
    usher.run(TABLES).await;
    let common = Arc::new(Common {
        clock: bench.clock.clone(),
        next: AtomicU32::new(1),
        writing: AtomicUsize::new(usize::try_from(WRITERS).unwrap()),
        settled: Mutex::default(),
        taken: AtomicUsize::new(0),
        replaced: AtomicUsize::new(0),
    });

    let mut all = JoinSet::new();
    for number in 0..WRITERS {
        let (url, common) = (bench.scratch.url().to_owned(), Arc::clone(&common));
        all.spawn(async move {
            write(&url, transactions, Dice::new(seed + number)).await;
            common.writing.fetch_sub(1, Ordering::SeqCst);
        });
    }
    for number in 0..RELAYS {
        let (store, common) = (bench.store.clone(), Arc::clone(&common));
        all.spawn(async move { relay(&store, &common, Dice::new(seed + 100 + number)).await });
    }
    while let Some(ended) = all.join_next().await {
        ended.unwrap_or_else(|error| panic!("{error}; {told}"));
    }
    let mut last = Reader::of_all(&bench.store, 0, 7).await;
    last.drain().await;

    let mut settled = common.settled.lock().await.clone();
    settled.extend(last.settled);
    assert_no_gap(&settled);
    settled.sort_by_key(|one| (one.event.slot, one.seq));
    let read: Vec<Version> = settled.iter().map(|one| Version::of(&one.event)).collect();
    let (set, committed) = (read.iter().cloned().collect::<BTreeSet<_>>(), usher.committed().await);
    assert_eq!(committed.difference(&set).collect::<Vec<_>>(), Vec::<&Version>::new(), "were lost; {told}");
    assert_eq!((set.len(), read.len()), (committed.len(), committed.len()), "something came twice; {told}");
    assert!(are_in_causal_order(&read), "{told}");
    tried.taken += common.taken.load(Ordering::SeqCst);
    tried.replaced += common.replaced.load(Ordering::SeqCst);
    tried.late += settled
        .windows(2)
        .filter(|pair| pair[0].event.slot == pair[1].event.slot && pair[0].event.id > pair[1].event.id)
        .count();
}

/// Several in each slot, so that slots have more to keep in order than one aggregate.
fn aggregates() -> Vec<String> {
    let names = (0..).map(|n| format!("aggregate {n}"));
    names.filter(|name| Slot::of(name).get().is_multiple_of(64)).take(AGGREGATES).collect()
}

/// A program that has to do with several aggregates at a time. It locks them in one order, as every program does that
/// has others beside it, and writes in any.
async fn write(url: &str, transactions: u64, mut dice: Dice) {
    let mut writer = Writer::new(url).await;
    let aggregates = aggregates();
    for _ in 0..transactions {
        writer.begin().await;
        if dice.chance(50) {
            writer.write_elsewhere().await;
            pause(&mut dice).await;
        }
        let mut mine = BTreeSet::new();
        for _ in 0..=dice.below(3) {
            mine.insert(dice.pick(&aggregates).unwrap().clone());
        }
        for aggregate in &mine {
            writer.lock(aggregate).await;
            pause(&mut dice).await;
        }
        let mine: Vec<String> = mine.into_iter().collect();
        for _ in 0..=dice.below(4) {
            let aggregate = dice.pick(&mine).unwrap();
            if dice.chance(25) {
                writer.run("savepoint one").await;
                writer.event(aggregate).await;
                let end = if dice.chance(50) { "rollback to savepoint one" } else { "release savepoint one" };
                writer.run(end).await;
            } else {
                writer.event(aggregate).await;
            }
            pause(&mut dice).await;
        }
        if dice.chance(15) {
            writer.rollback().await
        } else {
            writer.commit().await
        }
        pause(&mut dice).await;
    }
}

/// Lets others go first.
async fn pause(dice: &mut Dice) {
    for _ in 0..dice.below(20) {
        tokio::task::yield_now().await;
    }
}

/// A relay, and after its end the next one, until all writers are done.
async fn relay(store: &Store, common: &Common, mut dice: Dice) {
    while common.writing.load(Ordering::SeqCst) > 0 {
        let number = u128::from(common.next.fetch_add(1, Ordering::SeqCst));
        let mut reader = Reader::join(store, number, 1).await;
        while common.writing.load(Ordering::SeqCst) > 0 && live_on(&mut reader, common, &mut dice).await {}
        common.settled.lock().await.extend(reader.end().await);
    }
}

/// One turn of a relay; whether it still counts.
async fn live_on(reader: &mut Reader, common: &Common, dice: &mut Dice) -> bool {
    reader.limit = u32::try_from(1 + dice.below(7)).unwrap();
    let is_live = match dice.below(100) {
        0..20 => {
            let wanted: Vec<Slot> = Slot::all().filter(|_| dice.chance(60)).collect();
            let taken = reader.take(&wanted).await;
            let count = taken.as_ref().map_or(0, Vec::len);
            common.taken.fetch_add(count, Ordering::SeqCst);
            taken.is_some()
        }
        20..30 => {
            let leaving: Vec<Slot> = reader.slots().into_iter().filter(|_| dice.chance(40)).collect();
            reader.leave(&leaving).await
        }
        30..40 => reader.look().await.is_some(),
        40 if dice.chance(30) => {
            common.clock.advance(LEASE);
            common.replaced.fetch_add(retire(&reader.store).await.len(), Ordering::SeqCst);
            true
        }
        _ => match reader.read().await {
            None => true,
            Some(batch) => {
                pause(dice).await;
                let events = batch.page.events.len();
                let count = if dice.chance(80) { events } else { below(dice, events) };
                reader.settle(batch, count).await
            }
        },
    };
    pause(dice).await;
    is_live
}

fn below(dice: &mut Dice, most: usize) -> usize {
    usize::try_from(dice.below(most as u64)).unwrap()
}
