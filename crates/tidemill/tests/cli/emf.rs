//! `tidemill serve --emf`: the metrics of pools for CloudWatch, and nothing else, on standard output.

use crate::Stage;
use crate::serve::Served;
use serde_json::Value;
use std::fs::{self, File};
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::pool::Settings;
use tidemill_store::scratch::Scratch;
use tidemill_testkit::Signal;

/// What a server prints from its start to its end.
async fn printed(scratch: &Scratch, arguments: &[&str]) -> String {
    let stage = Stage::on(scratch.url()).with("TIDEMILL_LOG_LEVEL", "debug");
    let output = stage.path("emf.log");
    let mut served = Served::start_to(&stage, arguments, File::create(&output).unwrap().into());
    served.child.signal(Signal::TERM).unwrap();
    assert!(served.child.wait_deadline(Duration::from_secs(120)).unwrap().success());
    assert!(fs::read_to_string(stage.path("serve.log")).unwrap().contains("INFO"), "the log is on the other");
    fs::read_to_string(output).unwrap()
}

#[test]
fn metrics_and_events_do_not_share_the_standard_output() {
    // Whatever is not refused at once goes on to a database that is not there.
    let stage = || Stage::on("postgres://nobody@127.0.0.1:1/x");
    let published = || stage().with("TIDEMILL_OUTBOX_SINK", "stdout");

    for refused in [
        published().run(&["serve", "--emf"]),
        published().with("TIDEMILL_SERVER_EMF", "true").run(&["serve"]),
    ] {
        refused.fails("TM1402", 2);
        assert!(refused.stderr.contains("both go to the standard output"), "{refused:#?}");
    }
    published().run(&["serve"]).fails("TM0202", 6);
    stage().with("TIDEMILL_OUTBOX_SINK", "file:events.jsonl").run(&["serve", "--emf"]).fails("TM0202", 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_prints_the_metrics_of_each_pool_at_its_end() {
    let scratch = Scratch::file();
    let store = scratch.store(None).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    for (name, id, max_units) in [("ADW", Some(4), 1_000), ("ERP", None, 500)] {
        let settings = Settings { external_id: id, ..Settings::new(name.parse().unwrap(), max_units) };
        tx.pools().create(&settings, &Actor::system()).await.unwrap();
    }
    tx.commit().await.unwrap();

    let printed_with = printed(&scratch, &["--emf"]).await;
    let lines: Vec<Value> = printed_with.lines().map(|line| serde_json::from_str(line).unwrap()).collect();

    let ids: Vec<&str> = lines.iter().map(|line| line["src_db_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["4", "ERP"]);
    for line in &lines {
        assert_eq!(line["_aws"]["CloudWatchMetrics"][0]["Namespace"], "EmrBatchAgent");
        assert_eq!((&line["ConnectionUsage"], &line["AcquireRequests"]), (&0.into(), &0.into()));
        assert_eq!(line["UnitsWantedIn15MinP90"], 0);
    }
    assert_eq!(printed(&scratch, &[]).await, "");
}
