//! `pool simulate`, `replay` and `advise`.

use crate::Stage;
use crate::pool::{json_of, stage};
use std::fs;
use tidemill_store::scratch::Scratch;

tidemill_store::on_both![the_past_of_a_pool_is_replayed, advice_needs_nights];

#[test]
fn a_night_is_simulated_without_a_database() {
    let stage = Stage::on("postgres://nobody@127.0.0.1:1/none");

    let args =
        ["pool", "simulate", "--scenario", "busy", "--seeds", "1..2", "--policy", "fifo", "-o", "json"];
    let found = json_of(&stage.run(&args));

    let items = found["items"].as_array().unwrap();
    let seeds: Vec<Option<u64>> = items.iter().map(|item| item["seed"].as_u64()).collect();
    assert_eq!(seeds, [Some(1), Some(2), None], "the mean comes last");
    for item in items {
        assert_eq!((&item["violations"], &item["failures"]), (&0.0.into(), &0.0.into()), "{item}");
        assert!(item["flow_ratio"].as_f64().unwrap() >= 1.0, "{item}");
    }
    let mean = (items[0]["wait_mean"].as_f64().unwrap() + items[1]["wait_mean"].as_f64().unwrap()) / 2.0;
    assert!((items[2]["wait_mean"].as_f64().unwrap() - mean).abs() < 0.01, "{found}");
}

#[test]
fn a_night_of_a_file_is_simulated_with_every_policy() {
    let stage = Stage::on("sqlite::memory:");
    let file = stage.path("night.json");
    fs::write(
        &file,
        r#"{"pools": [{"name": "p", "max_units": 10, "threshold_percent": 100}],
            "batches": [{"pool": "p", "dag": "a", "arrives_seconds": 0, "parallel": 8, "min": 8, "run_seconds": 400},
                        {"pool": "p", "dag": "b", "arrives_seconds": 100, "parallel": 4, "run_seconds": 600}]}"#,
    )
    .unwrap();

    let found =
        json_of(&stage.run(&["pool", "simulate", "--scenario", file.to_str().unwrap(), "-o", "json"]));

    let items = found["items"].as_array().unwrap();
    let of =
        |policy: &str| items.iter().find(|item| item["policy"] == policy && item["seed"].is_null()).unwrap();
    assert_eq!(of("fifo")["wait_max"], 300.0);
    assert_eq!((&of("halving")["wait_max"], &of("halving")["downgrades"]), (&0.0.into(), &1.0.into()));
}

#[test]
fn what_cannot_be_simulated_is_refused_with_the_reason() {
    let stage = Stage::on("sqlite::memory:");
    let refused = |args: &[&str]| {
        let ran = stage.run(&[&["pool", "simulate"], args].concat());
        assert_eq!(ran.code, Some(2), "{ran:#?}");
        ran.stderr
    };

    assert!(refused(&["--scenario", "calm"]).contains("busy, crisis or storm"));
    assert!(refused(&["--seeds", "9..3"]).contains("9 is more than 3"));
    assert!(refused(&["--seeds", "many"]).contains("use 1..30"));
    assert!(refused(&["--seeds", "1..99999"]).contains("more than 10000 nights"));
    assert!(refused(&["--policy", "luck"]).contains("luck"));
    let file = stage.path("bad.json");
    fs::write(&file, r#"{"pools": [], "batches": [{"pool": "p"}]}"#).unwrap();
    assert!(refused(&["--scenario", file.to_str().unwrap()]).contains("missing field"));
}

async fn the_past_of_a_pool_is_replayed(database: Scratch) {
    let stage = stage(&database);
    let nothing = stage.run(&["pool", "replay", "etl"]);
    assert!(nothing.stdout.contains("No requests in this time"), "{nothing:#?}");
    for _ in 0..2 {
        stage.run(&["run", "--pool", "etl", "--units", "8", "--", "true"]).succeeds();
    }

    let found =
        json_of(&stage.run(&["pool", "replay", "etl", "--limit", "8", "--since", "1h", "-o", "json"]));

    for course in ["as_it_was", "as_it_would_have_been"] {
        assert_eq!(found[course]["batches"], 2.0, "{found}");
        assert_eq!(found[course]["peak"], 8.0, "{found}");
    }
    assert_eq!(found["pool"], "etl");
    let steps = found["steps"].as_array().unwrap();
    assert!((12..=14).contains(&steps.len()), "{}", steps.len());
    let table = stage.run(&["pool", "replay", "4", "--policy", "fifo"]).succeeds().stdout.clone();
    assert!(table.contains("wait_p95") && table.contains("sla_misses"), "{table}");
    assert_eq!(stage.run(&["pool", "replay", "none"]).code, Some(3));
    assert!(stage.run(&["pool", "replay", "etl", "--since", "soon"]).stderr.contains("such as 12h"));
}

async fn advice_needs_nights(database: Scratch) {
    let stage = stage(&database);

    let ran = stage.run(&["pool", "advise", "etl"]);

    assert!(ran.succeeds().stdout.contains("Too little history"), "{ran:#?}");
    assert!(ran.stderr.contains("the log has 0 nights, and advice needs 3"), "{ran:#?}");
    assert!(ran.stderr.contains("`pools.history`"), "how to keep more: {ran:#?}");
    let found = json_of(&stage.run(&["pool", "advise", "etl", "-o", "json"]));
    assert_eq!((&found["nights"], &found["nights_needed"]), (&0.into(), &3.into()), "{found}");
    assert_eq!(found["items"].as_array().map(Vec::len), Some(0), "{found}");
}
