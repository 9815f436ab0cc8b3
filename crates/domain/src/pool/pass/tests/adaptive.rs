//! The adaptive policy in passes: reservations, early starts, estimates, and grants that are raised.

use super::*;
use crate::pool::breaker::BreakerChange;
use crate::pool::decide::{OVERTAKES_MAX, SLACK, Size, Turn};
use crate::pool::run_times::RunKind;
use crate::pool::simulate::model::{Scenario, workload};
use crate::pool::simulate::random::Random;
use crate::pool::simulate::{Batch, MIDNIGHT, RunLength, Workload, score::score, simulate};

/// A pool ADW that has seen these runs with these parallelisms.
fn bench(units: u32, runs: &[(&str, u32, u32)]) -> Bench {
    let mut bench = Bench::with(Policy::Adaptive, &[("ADW", units)]);
    for (dag, parallel, seconds) in runs {
        let kind =
            RunKind { dag_id: (*dag).to_owned(), table: "SALES_ORDER".to_owned(), parallel: some(*parallel) };
        let ledger = bench.ledgers.get_mut(&pool("ADW")).unwrap();
        for _ in 0..5 {
            ledger.run_times.add_seconds(kind.clone(), Class::Normal, *seconds);
        }
    }
    bench
}

fn of_grant(bench: &Bench, dag: &str) -> (u32, Turn, Size) {
    let ticket = bench.ticket("ADW", dag).unwrap().id;
    let records = bench.log[&pool("ADW")].iter();
    let mut grants = records.filter_map(|record| match record.event {
        Event::Granted { ticket: id, parallel, turn, size, .. } if id == ticket => {
            Some((parallel.get(), turn, size))
        }
        _ => None,
    });
    grants.next().unwrap()
}

/// Asks for all or nothing.
fn ask_whole(bench: &mut Bench, dag: &str, parallel: u32) -> Answer {
    let mut wish = bench.wish(dag, &[("ADW", parallel)]);
    wish.parts[0].least = NonZeroU32::new(parallel);
    bench.acquire(wish)
}

#[test]
fn a_short_request_starts_before_a_large_one_that_does_not_fit() {
    let mut bench = bench(20, &[("long", 14, 900), ("wide", 16, 600), ("short", 4, 60), ("slow", 4, 5_000)]);
    admitted(&bench.ask("long", 14));

    assert_eq!(waits(&ask_whole(&mut bench, "wide", 16)).reason, Reason::PoolFull);
    assert_eq!(admitted(&ask_whole(&mut bench, "short", 4)), [4]);
    assert_eq!(of_grant(&bench, "short"), (4, Turn::EndsBefore, Size::Full));
    assert_eq!(bench.ticket("ADW", "wide").unwrap().overtaken, 1);

    bench.release("short");
    assert_eq!(admitted(&ask_whole(&mut bench, "slow", 4)), [4], "16 of 20 are reserved, so 4 are left over");
    assert_eq!(of_grant(&bench, "slow").1, Turn::SpareUnits);
    assert_eq!(bench.ticket("ADW", "wide").unwrap().overtaken, 2);

    bench.later(900);
    bench.release("long");
    assert_eq!(bench.has("wide"), Some(16));
}

#[test]
fn a_request_that_should_end_earlier_in_full_waits_although_less_fits() {
    let mut bench = bench(20, &[("long", 14, 50), ("wide", 16, 600)]);
    admitted(&bench.ask("long", 14));
    let mut wish = bench.wish("wide", &[("ADW", 16)]);
    // Pressure does not make it smaller: it could not keep its deadline.
    wish.deadline = Some(bench.now);

    assert_eq!(waits(&bench.acquire(wish)).reason, Reason::EndsEarlierInFull);
}

#[test]
fn a_request_that_waits_too_long_makes_the_pool_drain() {
    let mut bench = bench(20, &[("long", 14, 900), ("wide", 16, 600), ("short", 4, 60)]);
    admitted(&bench.ask("long", 14));
    waits(&ask_whole(&mut bench, "wide", 16));
    let eta = bench.ticket("ADW", "wide").unwrap().eta.unwrap();
    assert_eq!(eta.p50, bench.now.plus(Duration::from_secs(900)));

    bench.now = eta.p50.plus(SLACK);
    assert_eq!(admitted(&ask_whole(&mut bench, "short", 4)), [4], "not yet");
    bench.release("short");

    bench.later(1);
    assert_eq!(waits(&ask_whole(&mut bench, "short", 4)).reason, Reason::PoolDraining);
}

#[test]
fn who_is_overtaken_was_not_heard_of() {
    let mut bench = bench(20, &[("long", 14, 900), ("wide", 16, 600), ("short", 4, 60)]);
    admitted(&bench.ask("long", 14));
    waits(&ask_whole(&mut bench, "wide", 16));
    assert_eq!(bench.last.unheard, BTreeSet::new(), "it has just asked");

    admitted(&ask_whole(&mut bench, "short", 4));

    let overtaken = bench.ticket("ADW", "wide").unwrap();
    assert_eq!((overtaken.overtaken, &bench.last.unheard), (1, &BTreeSet::from([overtaken.id])));
}

#[test]
fn a_request_that_will_start_early_is_told_so() {
    let runs = [("long", 12, 900), ("soon", 8, 100), ("wide", 16, 600), ("short", 8, 60)];
    let mut bench = bench(20, &runs);
    admitted(&bench.ask("long", 12));
    admitted(&ask_whole(&mut bench, "soon", 8));

    let wide = waits(&ask_whole(&mut bench, "wide", 16)).estimate.unwrap();
    let short = waits(&ask_whole(&mut bench, "short", 8)).estimate.unwrap();

    assert_eq!(wide.p50.as_secs(), 900);
    assert_eq!(short.p50.as_secs(), 100, "it ends before the wide one can start");
    bench.later(100);
    bench.release("soon");
    assert_eq!(of_grant(&bench, "short"), (8, Turn::EndsBefore, Size::Full));
}

#[test]
fn after_a_pause_the_estimates_come_little_by_little() {
    let mut bench = bench(4, &[]);
    let pause = crate::pool::settings::Pause { by: "ann".into(), reason: "patch".into(), at: bench.now };
    bench.configure("ADW", |settings| settings.paused = Some(pause));
    for number in 0..250 {
        ask_whole(&mut bench, &format!("batch-{number}"), 4);
    }
    let estimated = |bench: &Bench| {
        let records = bench.last.records[&pool("ADW")].iter();
        records.filter(|record| matches!(record.event, Event::Estimated { .. })).count()
    };

    bench.configure("ADW", |settings| settings.paused = None);
    assert_eq!(estimated(&bench), 100);
    ask_whole(&mut bench, "batch-249", 4);
    assert_eq!(estimated(&bench), 101, "who asks is told");
    bench.release("batch-0");
    assert_eq!(estimated(&bench), 48, "the rest");
}

#[test]
fn a_grant_is_raised_before_it_is_claimed() {
    // Both wait, so both get half; when nobody waits any more, they get all.
    let mut bench = bench(32, &[("all", 32, 60), ("a", 16, 600), ("b", 16, 600)]);
    admitted(&bench.ask("all", 32));
    waits(&bench.ask("a", 16));
    waits(&bench.ask("b", 16));

    bench.release("all");

    assert_eq!((bench.has("a"), bench.has("b")), (Some(16), Some(16)));
}

#[test]
fn nothing_is_raised_while_the_breaker_is_open() {
    let mut bench = bench(20, &[("all", 20, 60), ("a", 16, 600), ("b", 16, 600), ("c", 16, 600)]);
    admitted(&bench.ask("all", 20));
    waits(&bench.ask("a", 16));
    waits(&ask_whole(&mut bench, "b", 16));
    waits(&ask_whole(&mut bench, "c", 16));
    bench.release("all");
    assert_eq!((bench.has("a"), bench.has("b")), (Some(8), None));

    let (by, reason) = ("ann".to_owned(), "maintenance".to_owned());
    let change = BreakerChange::Open { by: by.clone(), reason: reason.clone() };
    bench.one(Command::Breaker { pool: pool("ADW"), change });
    bench.release("b");
    bench.release("c");
    assert_eq!(bench.has("a"), Some(8));

    let change = BreakerChange::Close { by, reason };
    bench.one(Command::Breaker { pool: pool("ADW"), change });
    assert_eq!(bench.has("a"), Some(16));
}

#[test]
fn a_deadline_decides_whether_less_is_taken_under_pressure() {
    let told = |within: u64| {
        let mut bench = bench(20, &[("long", 12, 900), ("late", 16, 600)]);
        admitted(&bench.ask("long", 12));
        bench.later(890);
        let mut wish = bench.wish("late", &[("ADW", 16)]);
        wish.deadline = Some(bench.now.plus(Duration::from_secs(within)));
        bench.acquire(wish);
        bench.has("late")
    };
    // With half it takes 783 s, and 1,253 s with the margin.
    assert_eq!((told(1_300), told(1_200)), (Some(8), None));
}

/// One pool, batches of any width, and run times that are nothing like the history.
fn random_night(seed: u64) -> Workload {
    let mut random = Random::new(seed);
    let mut night = workload(Scenario::Busy, 1);
    night.pools.truncate(1);
    let limit = 4 + u32::try_from(random.draw() % 60).unwrap();
    let start = &mut night.pools[0];
    start.settings = Settings { max_units: limit, threshold_percent: 100, ..start.settings.clone() };
    start.settings.min_units = some(1 + u32::try_from(random.draw() % 4).unwrap());
    let template = night.batches[0].clone();
    let count = 5 + random.draw() % 40;
    let batch = |number: u64, random: &mut Random| {
        let asked = some(1 + u32::try_from(random.draw() % u64::from(limit)).unwrap());
        let seconds = (10.0 * (random.normal() * 1.5).exp() * 60.0).clamp(5.0, 20_000.0);
        Batch {
            pool: night.pools[0].settings.name.clone(),
            holder: Holder::run(&format!("batch_{}", random.draw() % 8), &number.to_string()).unwrap(),
            arrives_at: MIDNIGHT.plus(Duration::from_secs(random.draw() % 7_200)),
            shape: crate::pool::Shape { parallel: asked, sessions: NonZeroU32::MIN },
            asked,
            least: random.draw().is_multiple_of(2).then_some(asked),
            run: RunLength { seconds, parallel: asked, share: random.unit() },
            ..template.clone()
        }
    };
    let mut batches: Vec<Batch> = (0..count).map(|number| batch(number, &mut random)).collect();
    batches.sort_by_key(|batch| batch.arrives_at);
    night.batches = batches;
    night
}

/// `cargo xtask test --long` plays 100,000 nights.
#[test]
fn no_width_starves_in_random_nights() {
    let nights = if std::env::var_os("TIDEMILL_TEST_LONG").is_some() { 100_000 } else { 100 };
    for seed in 0..nights {
        let workload = random_night(seed);

        let night = simulate(&workload).unwrap();

        let score = score(&workload, &night);
        assert_eq!((score.violations, score.failures), (0.0, 0.0), "night {seed}");
        assert!(score.overtakes <= f64::from(OVERTAKES_MAX), "night {seed}: {score:?}");
        if seed % 10 == 0 {
            assert_eq!(night, simulate(&workload).unwrap(), "night {seed} again");
        }
    }
}

/// The figures that the policy promises, over a few nights; `tidemill pool simulate` shows them over any.
#[test]
fn a_crisis_night_keeps_its_promises() {
    let seeds = 1..=6;
    let mean = |scenario: Scenario| {
        let scores: Vec<_> = seeds
            .clone()
            .map(|seed| {
                let workload = workload(scenario, seed);
                score(&workload, &simulate(&workload).unwrap())
            })
            .collect();
        crate::pool::simulate::Score::mean(&scores)
    };

    let crisis = mean(Scenario::Crisis);
    assert_eq!((crisis.violations, crisis.failures), (0.0, 0.0));
    assert!(crisis.sla_misses <= 2.5, "{crisis:?}");
    assert!(crisis.wait_p95 <= 540.0 && crisis.wide_wait_p95 <= 680.0, "{crisis:?}");
    assert!(crisis.overtakes <= 60.0 && crisis.flow_mean <= 1_900.0, "{crisis:?}");
    assert!(crisis.eta_error <= 150.0, "{crisis:?}");
    let storm = mean(Scenario::Storm);
    assert!(storm.sla_misses <= 12.0 && storm.eta_error <= 150.0, "{storm:?}");
}

/// A history that says twice of what is true makes the estimates visibly wrong.
#[test]
fn a_biased_history_is_noticed_in_the_score_of_the_estimates() {
    let mut workload = workload(Scenario::Crisis, 1);
    let honest = score(&workload, &simulate(&workload).unwrap());
    for start in &mut workload.pools {
        let mut biased = crate::pool::run_times::RunTimes::default();
        for (kind, class, runs) in start.run_times.kinds() {
            runs.iter().for_each(|seconds| biased.add_seconds(kind.clone(), class, seconds * 2));
        }
        start.run_times = biased;
    }
    let biased = score(&workload, &simulate(&workload).unwrap());

    assert!(honest.eta_error <= 150.0, "{honest:?}");
    assert!(biased.eta_error > 150.0, "{biased:?}");
}
