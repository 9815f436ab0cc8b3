//! Twelve renders of every kind on two workers: each ends as it should, and everybody who counts says the same.

use super::site::{Farm, Site, eventually};
use crate::serve::Served;
use std::time::Duration;
use tidemill_testkit::NexrenderOptions;

/// What a node is asked for, how the render ends, its code, and how often it is rendered.
const RENDERS: [(&str, &str, Option<&str>, usize); 12] = [
    ("", "completed", None, 1),
    ("", "completed", None, 1),
    ("", "completed", None, 1),
    // A film of pure black has a few kB and is a good one.
    ("black", "completed", None, 1),
    ("black,sound", "completed", None, 1),
    ("fail", "failed", Some("TM1527"), 2),
    ("noout", "failed", Some("TM1527"), 2),
    ("hang", "failed", Some("TM1527"), 2),
    ("nxerr", "failed", Some("TM1526"), 1),
    ("partial", "failed", Some("TM1534"), 2),
    ("holed", "failed", Some("TM1534"), 2),
    ("size=640x360", "failed", Some("TM1534"), 2),
];

/// All of a counter, on all servers.
fn counted(servers: &[Served], name: &str) -> u64 {
    let lines = servers.iter().map(|served| served.get("/metrics", None).1);
    let count = |text: String| {
        let lines = text.lines().filter(|line| line.starts_with(name)).map(str::to_owned);
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>()
    };
    lines.map(count).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twelve_renders_of_every_kind_end_as_they_should() {
    let silence = Duration::from_secs(8);
    let Some(farm) = Farm::with(&NexrenderOptions { nodes: 3, silence, ..NexrenderOptions::default() })
    else {
        return;
    };
    let Some(site) = Site::new(farm).await else { return };
    let site = site.with("MAX_RETRIES", "1").with("TIDEMILL_RENDER_CAPACITY", "3");
    let stages = ["one", "two"].map(|name| site.stage().with("WORKER_ID", name));
    let servers = stages.each_ref().map(|stage| Served::start(stage, &[]));

    let mut ids = Vec::new();
    for (wishes, ..) in RENDERS {
        ids.push(site.order(wishes).await);
    }
    let inventory = site.ended(&ids).await;

    for (id, (wishes, status, code, rendered)) in ids.iter().zip(RENDERS) {
        let state = &inventory.states[id];
        assert_eq!(
            (state.status.as_str(), state.error_code.as_deref()),
            (status, code),
            "{wishes}: {state:?}"
        );
        assert_eq!(site.renders(*id).len(), rendered, "{wishes}: {state:?}");
        assert_eq!(site.posted(*id).len(), rendered, "{wishes}: {state:?}");
    }
    let small = &inventory.states[&ids[3]];
    assert!(small.output_bytes.unwrap() < 10_000, "{small:?}");
    let workers: std::collections::BTreeSet<_> =
        inventory.states.values().map(|state| state.worker_name.clone()).collect();
    assert_eq!(workers.len(), 2, "both work: {workers:?}");

    assert_eq!(counted(&servers, "tidemill_render_ended_total{status=\"completed\"}"), 5);
    assert_eq!(counted(&servers, "tidemill_render_ended_total{status=\"failed\"}"), 7);
    assert_eq!(counted(&servers, "tidemill_render_failures_total{code=\"TM1534\"}"), 6);
    assert_eq!(counted(&servers, "tidemill_render_failures_total{code=\"TM1527\"}"), 6);
    assert_eq!(counted(&servers, "tidemill_render_failures_total{code=\"TM1526\"}"), 1);
    assert_eq!(counted(&servers, "tidemill_render_claims_total"), 18);
    assert_eq!(counted(&servers, "tidemill_render_recoveries_total"), 0);
    // Those of the whole queue are looked at now and then.
    for line in
        ["tidemill_render_success_ratio 0.41", "tidemill_render_leftover_jobs 0", "tidemill_render_workers 2"]
    {
        let told = eventually(async || servers[0].get("/metrics", None).1.contains(line).then_some(()));
        assert!(told.await.is_some(), "{line}");
    }
}
