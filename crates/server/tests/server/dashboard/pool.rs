//! Pools on the overview.

use crate::App;
use axum::http::Method;
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::pool::command::{Acquire, Command, Part, Release, ReleaseBy};
use tidemill_domain::pool::estimate::Pace;
use tidemill_domain::pool::event::End;
use tidemill_domain::pool::settings::Pause;
use tidemill_domain::pool::{Class, Holder, PoolName, Settings};
use tidemill_domain::time::Clock;
use tidemill_engine::clock::SystemIds;
use tidemill_store::pool::{Lapses, PassRequest, PoolCache};

fn adw() -> PoolName {
    "ADW".parse().unwrap()
}

fn settings(max_units: u32) -> Settings {
    let mut settings = Settings::new(adw(), max_units);
    settings.external_id = Some(4);
    settings
}

async fn pass(app: &App, command: Command) {
    let (pools, commands) = (BTreeSet::from([adw()]), [command]);
    let request =
        PassRequest { pools: &pools, commands: &commands, pace: Pace::default(), lapses: Lapses::Left };
    app.store.pool_pass(&mut PoolCache::default(), request).await.unwrap();
}

async fn ask(app: &App, dag: &str, asked: u32, least: u32) {
    let request = SystemIds.ticket();
    let part = Part {
        pool: adw(),
        ticket: request,
        parallel: NonZeroU32::new(asked),
        sessions: None,
        least: NonZeroU32::new(least),
    };
    let acquire = Acquire {
        request,
        parts: vec![part],
        holder: Holder::run(dag, "run").unwrap(),
        class: Class::Normal,
        table: String::new(),
        hint: None,
        lease_for: None,
        stays: Duration::ZERO,
        call: None,
    };
    pass(app, Command::Acquire(Box::new(acquire))).await;
}

async fn give_back(app: &App, dag: &str) {
    let by = ReleaseBy::Run { dag_id: dag.into(), run_id: "run".into() };
    let end = End::Released { failed: false };
    let release = Release { pool: adw(), by, epoch: None, end, call: None };
    pass(app, Command::Release(Box::new(release))).await;
}

async fn set(app: &App, settings: &Settings) {
    let mut tx = app.store.begin().await.unwrap();
    tx.set_pool(settings, &Actor::system(), None).await.unwrap();
    tx.commit().await.unwrap();
}

/// The text of the panel, without its tags.
async fn panel(app: &App) -> String {
    let page = app.ask(Method::GET, "/", &[], "").await.text;
    let panel = super::between(&page, "<section class=\"panel\" id=\"pools\"", "</section>");
    let words = panel.split('<').filter_map(|piece| piece.split_once('>')).map(|(_, text)| text.trim());
    words.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_overview_shows_how_full_pools_are_and_what_was_decided() {
    let app = App::open().await;
    assert!(panel(&app).await.contains("There are no pools yet."));
    let mut tx = app.store.begin().await.unwrap();
    tx.create_pool(&settings(20), &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();

    ask(&app, "batch_1", 8, 8).await;
    ask(&app, "batch_421", 16, 4).await;
    ask(&app, "batch_398", 8, 8).await;
    app.clock.advance(Duration::from_secs(45));

    // The limit is 95 % of 20.
    let full = panel(&app).await;
    assert!(full.contains("requests wait ADW (4) 16 / 19 20 80 % 80 % 2 1"), "{full}");
    assert!(full.contains("ADW batch_421 downgraded: PARALLEL(16) → PARALLEL(8)"), "{full}");
    give_back(&app, "batch_1").await;
    let told = panel(&app).await;
    assert!(told.contains("ADW batch_398 waited 45s before acquire"), "{told}");
    assert!(told.contains("open ADW (4) 16 / 19 20"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_is_paused_or_over_its_limit_says_so() {
    let app = App::open().await;
    let mut tx = app.store.begin().await.unwrap();
    tx.create_pool(&settings(20), &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
    ask(&app, "batch_1", 16, 16).await;

    let pause = Pause { by: "<b>ann</b>".into(), reason: "patch day".into(), at: app.clock.now() };
    set(&app, &Settings { paused: Some(pause), ..settings(20) }).await;
    let paused = panel(&app).await;
    assert!(
        paused.contains("paused ADW") && paused.contains("&lt;b&gt;ann&lt;/b&gt;: patch day"),
        "{paused}"
    );
    set(&app, &settings(10)).await;
    let over = panel(&app).await;
    assert!(over.contains("over by 7 ADW (4) 16 / 9 10 160 %"), "{over}");
}
