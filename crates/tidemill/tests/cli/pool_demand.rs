//! A server that scales with the demand of a pool, and a stub for the program that does it.

use crate::Stage;
use crate::serve::Served;
use std::fs;
use std::num::NonZeroU32;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::pool::{Answer, Holder, Settings};
use tidemill_engine::pool::{AcquirePart, AcquireRequest, PoolOptions, Pools};
use tidemill_store::scratch::Scratch;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_runs_the_program_and_measures_the_demand() {
    let scratch = Scratch::file();
    let store = scratch.store(None).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.pools().create(&Settings::new("ADW".parse().unwrap(), 100), &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
    let pools = Pools::start(store, PoolOptions::default());
    let part = AcquirePart::new("ADW".parse().unwrap(), NonZeroU32::new(40));
    let request = AcquireRequest::new(Holder::run("dag", "run").unwrap(), part);
    let answer = pools.acquire(&request, Duration::ZERO).await.unwrap();
    assert!(matches!(answer, Answer::Admitted { .. }), "{answer:?}");
    let stage = Stage::on(scratch.url());
    let (script, output) = (stage.path("scale.sh"), stage.path("scaled.txt"));
    let text =
        "#!/bin/sh\necho \"$TIDEMILL_POOL $TIDEMILL_DIRECTION $TIDEMILL_UNITS_IN_15_MIN_P90\" >> \"$1\"\n";
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let config = format!(
        "[pools.on_demand.ADW]\ncommand = [{script:?}, {output:?}]\nscale_up_at = 40\nscale_down_at = 10\nevery = \"1s\"\n"
    );
    fs::write(stage.path("tidemill.toml"), config).unwrap();

    let served = Served::start(&stage, &[]);

    let counted = [
        "tidemill_pool_demand_units{pool=\"ADW\",horizon=\"now\",percentile=\"p50\"} 40",
        "tidemill_pool_demand_units{pool=\"ADW\",horizon=\"15m\",percentile=\"p90\"} 40",
        "tidemill_pool_on_demand_runs_total{pool=\"ADW\",direction=\"up\",outcome=\"succeeded\"} 1",
    ];
    let mut metrics = String::new();
    let is_there = (0..6_000).any(|_| {
        metrics = served.get("/metrics", None).1;
        counted.iter().all(|line| metrics.contains(line)) || {
            std::thread::sleep(Duration::from_millis(20));
            false
        }
    });
    assert!(is_there, "{metrics}");
    assert_eq!(fs::read_to_string(output).unwrap(), "ADW up 40\n");
}
