//! Simulated nights: compared with another program, and small ones by hand.

mod past;

use super::model::{Scenario, workload};
use super::night::{Night, Run, Start, simulate};
use super::score::{Score, score, usage_steps};
use super::*;
use crate::pool::Policy;
use crate::pool::settings::Pause;
use crate::pool::tests::some;

fn after(seconds: u64) -> Timestamp {
    MIDNIGHT.plus(Duration::from_secs(seconds))
}

fn with_policy(scenario: Scenario, seed: u64, policy: Policy) -> Workload {
    let mut workload = workload(scenario, seed);
    workload.change(|settings| settings.policy = policy);
    workload
}

fn close(found: f64, expected: f64, percent: f64) {
    assert!((found - expected).abs() <= expected * percent / 100.0, "{found} is not about {expected}");
}

/// The figures come from another program, in another language.
#[test]
fn a_seed_gives_the_same_night_as_in_other_programs() {
    let batches = workload(Scenario::Crisis, 1).batches;

    for (place, arrives, pool, asked, run, share, p80, number) in [
        (0, 0.378_530_6, "ADW", 4, 1_252.862_45, 0.974_612_457, 1_963.469_703, 356),
        (599, 8_417.157_238, "ADW", 8, 1_631.920_542, 0.986_698_516, 1_086.991_308, 801),
        (1_199, 26_997.586_115, "ERP", 8, 2_639.422_380, 0.921_081_992, 3_510.915_820, 1_103),
    ] {
        let batch: &Batch = &batches[place];
        close(batch.arrives_at.since(MIDNIGHT).as_secs_f64(), arrives, 0.001);
        assert_eq!((batch.pool.as_str(), batch.asked.get()), (pool, asked));
        close(batch.run.seconds, run, 0.000_1);
        close(batch.run.share, share, 0.000_1);
        close(batch.target.as_secs_f64(), 2.0 * p80 + 900.0, 0.000_1);
        assert_eq!(batch.holder.dag_id(), format!("batch_{number:04}"));
    }
    assert_eq!(batches.len(), 1_200);
    assert_eq!(batches.iter().map(|batch| batch.asked.get()).sum::<u32>(), 10_404);
    assert_ne!(batches, workload(Scenario::Crisis, 2).batches);
}

/// The same program simulated first come, first served.
#[test]
fn fifo_waits_as_long_as_in_another_program() {
    let workload = with_policy(Scenario::Crisis, 1, Policy::Fifo);

    let score = score(&workload, &simulate(&workload).unwrap());

    assert_eq!((score.violations, score.failures, score.downgrades, score.overtakes), (0.0, 0.0, 0.0, 0.0));
    close(score.wait_mean, 407.9, 0.5);
    close(score.wait_p95, 1_516.7, 0.5);
    close(score.wait_max, 2_611.6, 0.5);
    close(score.wide_wait_p95, 1_807.3, 0.5);
    close(score.flow_mean, 2_085.2, 0.5);
    close(score.sla_misses, 19.0, 6.0);
    assert!(score.flow_ratio > 1.0 && score.flow_bound >= 1_677.0, "{score:?}");
}

#[test]
fn no_policy_grants_too_much_or_leaves_a_batch_out() {
    for policy in Policy::ALL {
        for scenario in Scenario::ALL {
            let workload = with_policy(scenario, 2, policy);

            let score = score(&workload, &simulate(&workload).unwrap());

            assert_eq!((score.violations, score.failures), (0.0, 0.0), "{policy} {scenario}");
            assert!(score.peak <= 950.0 && score.flow_ratio >= 1.0, "{policy} {scenario}: {score:?}");
            assert!(score.clear_hours >= 3.0 && score.wait_p95 <= score.wait_max);
        }
    }
}

/// The published figures of the model: nearly no waits, and many downgrades, but late ends.
#[test]
fn halving_shortens_waits_and_lengthens_runs() {
    let nights: Vec<(Score, Score)> = (1..=3)
        .map(|seed| {
            let of = |policy| {
                let workload = with_policy(Scenario::Crisis, seed, policy);
                score(&workload, &simulate(&workload).unwrap())
            };
            (of(Policy::Halving), of(Policy::Fifo))
        })
        .collect();

    let (halving, fifo): (Vec<Score>, Vec<Score>) = nights.into_iter().unzip();
    let (halving, fifo) = (Score::mean(&halving), Score::mean(&fifo));
    assert!(halving.wait_p95 < fifo.wait_p95 / 4.0, "{halving:?}");
    assert!(halving.clear_hours > fifo.clear_hours + 1.0, "{halving:?}");
    assert!(halving.downgrades > 50.0, "{halving:?}");
}

/// Two batches that do not fit together.
fn two_batches() -> Workload {
    let text = r#"{
        "pools": [{"name": "p", "max_units": 10, "threshold_percent": 100}],
        "batches": [
            {"pool": "p", "dag": "a", "arrives_seconds": 0, "parallel": 8, "min": 8, "run_seconds": 400},
            {"pool": "p", "dag": "b", "arrives_seconds": 100, "parallel": 4, "min": 4, "run_seconds": 600}
        ]
    }"#;
    file::read(text.as_bytes()).unwrap()
}

#[test]
fn a_batch_waits_for_the_end_of_another_and_was_told_so() {
    let workload = two_batches();

    let night = simulate(&workload).unwrap();

    let starts: Vec<Start> = night.runs.iter().filter_map(|run| run.start).collect();
    assert_eq!((starts[0].at, starts[0].until, starts[0].units), (after(0), after(400), 8));
    assert_eq!((starts[1].at, starts[1].until, starts[1].units), (after(400), after(1_000), 4));
    assert_eq!(night.runs[1].estimate.map(|told| told.p50.as_secs()), Some(300));
    let score = score(&workload, &night);
    assert_eq!((score.wait_max, score.wait_mean, score.eta_error, score.peak), (300.0, 150.0, 0.0, 8.0));
    assert_eq!(score.flow_mean, (400.0 + 900.0) / 2.0);
    assert!(score.values().all(f64::is_sign_positive), "no wide request is no wait: {score:?}");
}

#[test]
fn who_can_never_start_has_failed_and_the_night_still_ends() {
    let mut workload = two_batches();
    workload.change(|settings| {
        settings.paused = Some(Pause { by: "ann".into(), reason: "patch".into(), at: MIDNIGHT });
    });

    let night = simulate(&workload).unwrap();

    assert_eq!(score(&workload, &night).failures, 2.0);
    let steps = usage_steps(&workload, &night, &workload.batches[0].pool, MIDNIGHT, after(600));
    assert_eq!(steps.iter().map(|step| step.most_waiting).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn a_change_of_the_settings_counts_from_its_instant() {
    let mut workload = two_batches();
    let larger = Settings { max_units: 20, ..workload.pools[0].settings.clone() };
    workload.pools[0].changes.push((after(150), larger));

    let night = simulate(&workload).unwrap();

    assert_eq!(night.runs[1].start.map(|start| start.at), Some(after(150)));
    assert_eq!(night.violations, 0);
}

#[test]
fn steps_have_the_usage_of_their_time() {
    let workload = two_batches();
    let start = |at, until, units| Run {
        start: Some(Start { at: after(at), until: after(until), parallel: some(units), units: units.into() }),
        ..Run::default()
    };
    let night = Night { runs: vec![start(0, 450, 8), start(450, 900, 4)], violations: 0 };

    let steps = usage_steps(&workload, &night, &workload.batches[0].pool, MIDNIGHT, after(900));

    let found: Vec<_> =
        steps.iter().map(|step| (step.least, step.total, step.most, step.most_waiting)).collect();
    assert_eq!(found, [(8, 8, 8, 1), (4, 6, 8, 1), (4, 4, 4, 0)]);
}

#[test]
fn overtakes_are_counted_for_the_one_that_suffers_most() {
    let mut workload = two_batches();
    let third = Batch { arrives_at: after(200), ..workload.batches[1].clone() };
    workload.batches.push(third);
    let start = |at| Run {
        start: Some(Start { at: after(at), until: after(2_000), parallel: some(2), units: 2 }),
        ..Run::default()
    };
    let overtakes = |starts: [u64; 3]| {
        score(&workload, &Night { runs: starts.map(start).into(), violations: 0 }).overtakes
    };

    assert_eq!(overtakes([500, 300, 400]), 2.0);
    assert_eq!(overtakes([500, 500, 600]), 0.0, "together is not later");
    assert_eq!(overtakes([150, 700, 650]), 1.0);
}

#[test]
fn a_file_that_makes_no_sense_is_refused_with_the_place() {
    let refused = |pool: &str, batch: &str| {
        let text = format!(r#"{{"pools": [{pool}], "batches": [{batch}]}}"#);
        file::read(text.as_bytes()).unwrap_err()
    };
    let pool = r#"{"name": "p", "max_units": 10}"#;
    let batch = |change: &str| {
        format!(
            r#"{{"pool": "p", "dag": "a", "arrives_seconds": 0, "parallel": 8, "run_seconds": 60, {change}}}"#
        )
    };

    assert!(refused(pool, r#"{"pool": "p"}"#).contains("missing field"));
    assert!(refused(pool, &batch(r#""sessions": 3"#)).contains("unknown field"));
    assert!(refused(pool, &batch(r#""parallel_share": 1.5"#)).contains("batch 1: parallel_share"));
    assert!(refused("", &batch(r#""min": 1"#)).contains("the pool p is not in `pools`"));
    assert!(refused(&format!("{pool}, {pool}"), "").contains("twice"));
    let zero = r#"{"name": "p", "max_units": 10, "threshold_percent": 0}"#;
    assert!(refused(zero, "").contains("threshold_percent"));
}
