//! What the workers need dies: a node, the server of nexrender, its jobs, the database. Nothing is lost, and nothing is
//! rendered again that was rendered.

use super::site::{Farm, Site, State, eventually, make_old};
use std::time::Duration;
use tidemill_domain::time::Clock;
use tidemill_engine::SystemClock;

/// Longer than a healthy node is silent on a busy machine.
const STALL: (&str, &str) = ("TIDEMILL_RENDER_STALL_TIMEOUT", "20s");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_killed_is_missed_and_its_render_begins_anew() {
    let Some(farm) = Farm::own(1) else { return };
    let Some(site) = Site::new(farm).await else { return };
    let mut site = site.with(STALL.0, STALL.1);
    let id = site.order("gate=node").await;
    let worker = site.worker("one");
    site.until(id, "rendering", |state| state.phase == "rendering").await;

    site.farm.mine().kill_node(0);
    site.farm.open_gate("node");
    site.farm.mine().start_node(0).unwrap();
    let inventory = site.ended(&[id]).await;

    assert_eq!(inventory.statuses(), ["completed"]);
    assert_eq!(inventory.outcomes[&id], ["retried", "completed"], "{}", worker.log());
    assert_eq!(site.renders(id), [format!("rq-{id}-1"), format!("rq-{id}-2")]);
    assert!(worker.log().contains("TM1529"), "{}", worker.log());
    worker.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_away_costs_no_second_render() {
    let Some(farm) = Farm::own(2) else { return };
    let Some(site) = Site::new(farm).await else { return };
    let mut site = site.with(STALL.0, STALL.1);
    // One ends while the server is away, so that nobody hears of it; the other one later.
    let ids = [site.order("gate=meanwhile").await, site.order("gate=later").await];
    let worker = site.worker("one");
    for id in ids {
        site.until(id, "rendering", |state| state.phase == "rendering").await;
    }

    site.farm.mine().kill_server();
    site.farm.open_gate("meanwhile");
    let staged = site.nas.join(format!(".staging/rq-{}-1.mp4", ids[0]));
    let is_there = eventually(async || staged.exists().then_some(()));
    assert!(is_there.await.is_some(), "the node has left no file");
    site.until_unheard(&format!("rq-{}-1", ids[0])).await;
    site.farm.mine().restart_server().unwrap();
    site.farm.open_gate("later");
    let inventory = site.ended(&ids).await;

    assert_eq!(inventory.statuses(), ["completed"; 2]);
    assert!(inventory.outcomes.values().all(|all| *all == ["completed"]), "{inventory:#?} {}", worker.log());
    for id in ids {
        assert_eq!((site.posted(id).len(), site.renders(id).len()), (1, 1));
    }
    assert!(worker.log().contains("is there, although nexrender does not say so"), "{}", worker.log());
    worker.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_render_that_waits_for_a_server_goes_on_when_the_server_is_back() {
    let Some(farm) = Farm::own(1) else { return };
    let Some(site) = Site::new(farm).await else { return };
    // The default.
    let mut site = site.with("TIDEMILL_RENDER_BASE_RETRY_DELAY", "1m");
    site.farm.mine().kill_server();
    let id = site.order("").await;
    let worker = site.worker("one");
    let is_waiting = |state: &State| state.error_code.as_deref() == Some("TM1520");
    let state = site.until(id, "put off", is_waiting).await;
    assert_eq!((state.status.as_str(), state.attempts), ("pending", 1), "{state:?}");

    site.farm.mine().restart_server().unwrap();
    let clock = SystemClock::new();
    let begun = clock.monotonic();
    site.until(id, "completed", |state| state.status == "completed").await;
    let took = clock.monotonic().since(begun);
    let inventory = site.ended(&[id]).await;

    assert!(took < Duration::from_secs(20), "{took:?}: {}", worker.log());
    assert_eq!(inventory.outcomes[&id], ["retried", "completed"]);
    assert_eq!((site.posted(id).len(), site.renders(id).len()), (1, 1));
    worker.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_farm_without_nodes_fails_a_render_and_keeps_no_job_of_it() {
    let Some(farm) = Farm::own(0) else { return };
    let Some(site) = Site::new(farm).await else { return };
    let site = site.with("TIDEMILL_RENDER_QUEUE_TIMEOUT", "2s");
    let id = site.order("").await;

    let worker = site.worker("one");
    // Nothing of it is left in nexrender then.
    let inventory = site.ended(&[id]).await;

    let state = &inventory.states[&id];
    assert_eq!((state.status.as_str(), state.error_code.as_deref()), ("failed", Some("TM1530")), "{state:?}");
    assert_eq!((site.posted(id), site.renders(id)), (vec![format!("rq-{id}-1")], Vec::new()));
    worker.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_farm_that_forgets_its_jobs_gets_them_again_and_the_late_file_is_removed() {
    let Some(farm) = Farm::own(2) else { return };
    let Some(mut site) = Site::new(farm).await else { return };
    let id = site.order("gate=late").await;
    let worker = site.worker("one");
    site.until(id, "rendering", |state| state.phase == "rendering").await;

    site.farm.mine().kill_server();
    site.farm.mine().forget_jobs().unwrap();
    site.farm.mine().restart_server().unwrap();
    site.until_rendered(id, 2).await;
    site.farm.open_gate("late");
    site.until(id, "completed", |state| state.status == "completed").await;
    let late = site.nas.join(format!(".staging/rq-{id}-1.mp4"));
    let is_there = eventually(async || late.exists().then_some(()));
    assert!(is_there.await.is_some(), "the node that nobody knows of any more has left no file");
    // It is there for a day, and then a worker looks.
    make_old(&late);
    let next = site.worker("next");
    let is_gone = eventually(async || (!late.exists()).then_some(()));
    assert!(is_gone.await.is_some(), "{}", next.log());
    let inventory = site.ended(&[id]).await;

    assert_eq!(inventory.statuses(), ["completed"]);
    assert_eq!(inventory.outcomes[&id], ["retried", "completed"], "{}", worker.log());
    assert_eq!(site.posted(id), [format!("rq-{id}-1"), format!("rq-{id}-2")]);
    worker.end();
    next.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_crashes_is_waited_for_in_every_phase() {
    let Some(farm) = Farm::shared() else { return };
    let Some((mut server, site)) = Site::with_server(farm).await else { return };
    let ids = [site.order("gate=database").await, site.order("").await, site.order("").await];
    let worker = site.worker("one");
    site.until(ids[0], "rendering", |state| state.phase == "rendering").await;
    // The last that is written of the others is somewhere between the look at the file and the end.
    site.until(ids[1], "uploading", |state| state.status == "uploading" || state.has_ended()).await;

    server.crash();
    server.restart().unwrap();
    site.until(ids[2], "ended", super::site::State::has_ended).await;
    server.crash();
    site.farm.open_gate("database");
    server.restart().unwrap();
    let inventory = site.ended(&ids).await;

    assert_eq!(inventory.statuses(), ["completed"; 3]);
    for id in ids {
        assert_eq!((site.posted(id).len(), site.renders(id).len()), (1, 1), "{inventory:#?}");
    }
    worker.end();
}
