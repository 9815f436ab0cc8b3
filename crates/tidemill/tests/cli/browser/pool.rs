//! Pools on the overview: they change on an open page, and they look well.

use super::has_row;
use super::look::{THEMES, choose_theme, take_picture};
use super::scene::{SOON, Scene};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::pool::command::{Acquire, Command, Part, Release, ReleaseBy};
use tidemill_domain::pool::estimate::Pace;
use tidemill_domain::pool::event::End;
use tidemill_domain::pool::settings::Pause;
use tidemill_domain::pool::{Class, Holder, PoolName, Settings};
use tidemill_domain::time::{Clock, FakeClock};
use tidemill_engine::SystemClock;
use tidemill_engine::clock::SystemIds;
use tidemill_store::Store;
use tidemill_store::pool::{Lapses, PassRequest, PoolCache};

const POOLS: &str = "#pools tbody[data-live=pools] tr";
const EVENTS: &str = "#pools tbody[data-live=pool-events] tr";

async fn create(store: &Store, name: &str, id: i64, max_units: u32, is_paused: bool) {
    let mut settings = Settings::new(name.parse().unwrap(), max_units);
    settings.external_id = Some(id);
    let at = SystemClock::new().now();
    settings.paused = is_paused.then(|| Pause { by: "ann".into(), reason: "patch day".into(), at });
    let mut tx = store.begin().await.unwrap();
    tx.create_pool(&settings, &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
}

async fn pass(store: &Store, pool: &PoolName, command: Command) {
    let (pools, commands) = (BTreeSet::from([pool.clone()]), [command]);
    let request =
        PassRequest { pools: &pools, commands: &commands, pace: Pace::default(), lapses: Lapses::Left };
    store.pool_pass(&mut PoolCache::default(), request).await.unwrap();
}

async fn ask(store: &Store, pool: &str, dag: &str, asked: u32, least: u32) {
    let (request, pool) = (SystemIds.ticket(), pool.parse::<PoolName>().unwrap());
    let part = Part {
        pool: pool.clone(),
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
        stays: Duration::from_secs(600),
        call: None,
    };
    pass(store, &pool, Command::Acquire(Box::new(acquire))).await;
}

async fn give_back(store: &Store, pool: &str, dag: &str) {
    let pool: PoolName = pool.parse().unwrap();
    let by = ReleaseBy::Run { dag_id: dag.into(), run_id: "run".into() };
    let end = End::Released { failed: false };
    let release = Release { pool: pool.clone(), by, epoch: None, end, call: None };
    pass(store, &pool, Command::Release(Box::new(release))).await;
}

#[test]
fn pools_appear_fill_and_empty_on_an_open_overview() {
    let Some(scene) = Scene::usual() else { return };
    let page = scene.visit("/");
    assert!(has_row(page, POOLS, &["There are no pools yet."]).unwrap());
    page.wait_until(SOON, |page| Ok(page.text("#link")?.contains("Live"))).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // A little in the past, so that somebody can have waited.
    let clock = Arc::new(FakeClock::at(SystemClock::new().now().minus(Duration::from_secs(60))));
    let store = runtime.block_on(scene.store(clock.clone()));

    runtime.block_on(async {
        create(&store, "ADW", 4, 1_000, false).await;
        create(&store, "ERP", 5, 500, false).await;
        create(&store, "archive", 6, 40, true).await;
        ask(&store, "ADW", "batch_100", 712, 712).await;
        ask(&store, "ADW", "batch_101", 230, 230).await;
        ask(&store, "ADW", "batch_421", 16, 8).await;
        ask(&store, "ADW", "batch_398", 200, 200).await;
        ask(&store, "ERP", "batch_7", 320, 320).await;
    });
    page.wait_until(SOON, |page| {
        has_row(page, POOLS, &["requests wait", "ADW", "950 / 950", "1000", "95 %"])
    })
    .unwrap();
    page.wait_until(SOON, |page| has_row(page, POOLS, &["paused", "archive"])).unwrap();
    page.wait_until(SOON, |page| {
        has_row(page, EVENTS, &["ADW", "batch_421 downgraded: PARALLEL(16) → PARALLEL(8)"])
    })
    .unwrap();
    clock.advance(Duration::from_secs(45));
    runtime.block_on(async {
        give_back(&store, "ADW", "batch_101").await;
        ask(&store, "ERP", "batch_8", 300, 300).await;
    });

    page.wait_until(SOON, |page| has_row(page, EVENTS, &["batch_398 waited 45s before acquire"])).unwrap();
    page.wait_until(SOON, |page| has_row(page, POOLS, &["open", "ADW", "920 / 950"])).unwrap();
    assert_eq!(page.console_errors().unwrap(), Vec::<String>::new());
    for theme in THEMES {
        choose_theme(page, &scene.address("/settings"), theme);
        scene.visit("/");
        take_picture(page, &format!("pools-{theme}-1280.png"), 1280);
    }
    runtime.block_on(store.close());
}
