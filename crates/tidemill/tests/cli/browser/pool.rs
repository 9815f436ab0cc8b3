//! Pools in a real browser: they change on open pages, and can be paused and released there.

use super::has_row;
use super::look::{faults, faults_at};
use super::scene::{SOON, Scene, instant};
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
    tx.pools().create(&settings, &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
}

async fn pass(store: &Store, pool: &PoolName, command: Command) {
    let (pools, commands) = (BTreeSet::from([pool.clone()]), [command]);
    let request =
        PassRequest { pools: &pools, commands: &commands, pace: Pace::default(), lapses: Lapses::Left };
    store.pool_pass(&mut PoolCache::default(), &request).await.unwrap();
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
        deadline: None,
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
    assert!(has_row(page, POOLS, &["No pools yet."]).unwrap());
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
        has_row(page, POOLS, &["requests waiting", "ADW", "950 of 950 (100 %)", "1,000"])
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
    page.wait_until(SOON, |page| has_row(page, POOLS, &["open", "ADW", "920 of 950 (97 %)"])).unwrap();
    assert_eq!(page.console_errors().unwrap(), Vec::<String>::new());
    runtime.block_on(store.close());
}

fn crowded(scene: &Scene) -> (tokio::runtime::Runtime, Store) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let clock = Arc::new(FakeClock::at(SystemClock::new().now().minus(Duration::from_secs(60))));
    let store = runtime.block_on(scene.store(clock));
    runtime.block_on(crowd(&store));
    (runtime, store)
}

/// A pool that is full, of which somebody has half of what was asked for, and for which somebody waits; and two others.
pub(super) async fn crowd(store: &Store) {
    create(store, "ADW", 4, 40, false).await;
    create(store, "ERP", 5, 500, false).await;
    create(store, "archive-of-the-north-east-region", 6, 40, true).await;
    ask(store, "ADW", "nightly_orders_to_the_warehouse", 16, 16).await;
    ask(store, "ADW", "batch_421", 32, 8).await;
    ask(store, "ADW", "batch_398", 16, 12).await;
    ask(store, "ERP", "batch_7", 320, 320).await;
    past(store, "ADW").await;
}

/// A day of usage, with a gap in which nobody looked and an hour in which many waited.
async fn past(store: &Store, pool: &str) {
    let mut tx = store.begin().await.unwrap();
    let now = tx.now().await.unwrap();
    let step = 300_000_000;
    let first = now.as_micros().div_euclid(step) * step - 287 * step;
    for number in 0..287_i64 {
        if (60..84).contains(&number) {
            continue;
        }
        let wave = (number * 7 % 23 + number % 60 / 4).min(38);
        let waiting = if (180..192).contains(&number) { number - 178 } else { 0 };
        let (least, most, at) = (wave * 2 / 3, wave, instant(store, first + number * step));
        tx.execute_for_test(&format!(
            "insert into tidemill_pool_usage (pool, at, least, most, total, samples, most_waiting)
             values ('{pool}', {at}, {least}, {most}, {}, 2, {waiting})",
            least + most
        ))
        .await
        .unwrap();
    }
    tx.commit().await.unwrap();
}

#[test]
fn a_pool_is_paused_with_one_click_and_the_click_is_undone() {
    let Some(scene) = Scene::usual() else { return };
    let (runtime, store) = crowded(&scene);
    let page = scene.visit("/pools");
    page.wait_until(SOON, |page| Ok(page.text("#link")?.contains("Live"))).unwrap();
    // By now every row came by the stream, and its button still works.
    page.wait_until(SOON, |page| {
        has_row(page, "#pools tbody tr", &["requests waiting", "ADW", "32 of 38 (84 %)"])
    })
    .unwrap();

    page.click("button[aria-label='Pause ADW']").unwrap();
    page.wait_until(SOON, |page| has_row(page, "#pools tbody tr", &["paused", "ADW", "Resume"])).unwrap();
    assert!(page.text(".banner.ok").unwrap().contains("ADW is paused. No request starts"));
    assert_eq!(scene.path(), "/pools?paused=ADW");

    page.click(".banner.ok button").unwrap();
    page.wait_until(SOON, |page| has_row(page, "#pools tbody tr", &["requests waiting", "ADW", "Pause"]))
        .unwrap();
    assert!(page.text(".banner.ok").unwrap().contains("has resumed"));
    assert_eq!(page.console_errors().unwrap(), Vec::<String>::new());
    runtime.block_on(store.close());
}

#[test]
fn a_holder_is_released_in_a_dialog_and_the_queue_goes_on_without_a_reload() {
    let Some(scene) = Scene::usual() else { return };
    let (runtime, store) = crowded(&scene);
    let page = scene.visit("/pools/ADW");
    page.wait_until(SOON, |page| Ok(page.text("#link")?.contains("Live"))).unwrap();
    assert!(has_row(page, "#tab tbody tr", &["batch_421/run", "32 → 16", "downgraded"]).unwrap());

    page.click("a[aria-label='Release batch_421/run…']").unwrap();
    page.wait_until(SOON, |page| page.exists("dialog[open] [name=reason]")).unwrap();
    assert!(page.text("dialog[open] h2").unwrap().contains("Release lease of “batch_421/run”?"));
    assert!(page.text("dialog[open]").unwrap().contains("32 → 16 units in use; 1 request waits"));
    page.click("dialog[open] [data-close]").unwrap();
    page.wait_until(SOON, |page| Ok(!page.exists("dialog[open]")?)).unwrap();
    assert!(has_row(page, "#tab tbody tr", &["batch_421/run"]).unwrap());

    page.click("a[aria-label='Release batch_421/run…']").unwrap();
    page.wait_until(SOON, |page| page.exists("dialog[open] [name=reason]")).unwrap();
    page.fill("dialog[open] [name=reason]", "host is gone").unwrap();
    page.click("dialog[open] button.end").unwrap();
    page.wait_until(SOON, |page| has_row(page, "#tab tbody tr", &["batch_398/run", "16 → 16"])).unwrap();
    assert!(!has_row(page, "#tab tbody tr", &["batch_421"]).unwrap());

    // What others do is seen on the open page.
    page.execute("window.isTheSamePage = true").unwrap();
    runtime.block_on(give_back(&store, "ADW", "batch_398"));
    page.wait_until(SOON, |page| Ok(!has_row(page, "#tab tbody tr", &["batch_398"])?)).unwrap();
    page.wait_until(SOON, |page| Ok(page.text("#now")?.contains("16 of 38 units in use"))).unwrap();
    assert_eq!(page.execute("return window.isTheSamePage === true").unwrap(), true);
    assert_eq!(page.console_errors().unwrap(), Vec::<String>::new());
    scene.visit("/settings/audit");
    assert!(has_row(page, "#entries tbody tr", &["pool.release", "host is gone"]).unwrap());
    runtime.block_on(store.close());
}

#[test]
fn a_pool_can_be_used_without_javascript() {
    let Some(scene) = Scene::without_javascript() else { return };
    let (runtime, store) = crowded(&scene);

    let page = scene.visit("/pools");
    page.click("button[aria-label='Pause ADW']").unwrap();
    page.wait_until(SOON, |page| has_row(page, "#pools tbody tr", &["paused", "ADW", "Resume"])).unwrap();
    scene.visit("/pools/ADW?tab=queue");
    assert!(
        has_row(page, "#tab tbody tr", &["1", "batch_398/run", "the pool is paused", "pool_paused"]).unwrap()
    );
    page.click("a[aria-label='Cancel the request of batch_398/run…']").unwrap();
    page.wait_until(SOON, |page| Ok(page.text("h2")?.contains("Cancel request of"))).unwrap();
    page.fill("[name=reason]", "not needed").unwrap();
    page.click("button.end").unwrap();
    page.wait_until(SOON, |page| has_row(page, "#tab tbody tr", &["No waiting requests."])).unwrap();

    scene.visit("/pools/ADW?tab=settings");
    page.fill("#tab [name=max_units]", "20").unwrap();
    page.fill("#tab [name=min_units]", "4").unwrap();
    page.click("#tab [name=policy][value=fifo]").unwrap();
    page.click("#tab form button").unwrap();
    page.wait_until(SOON, |page| {
        Ok(page.text("main")?.contains("nothing is killed; no grants until fewer than 19 units are in use"))
    })
    .unwrap();
    assert!(page.text("main").unwrap().contains("Minimum 2 → 4 units"));
    page.fill("[name=reason]", "smaller host").unwrap();
    page.click("button.do").unwrap();
    page.wait_until(SOON, |page| Ok(page.text("#now")?.contains("over by 13"))).unwrap();
    runtime.block_on(store.close());
}

/// Creates a pool by the form of the list, once with a name that is taken.
fn create_on_the_page(scene: &Scene) {
    let (runtime, store) = crowded(scene);
    let page = scene.visit("/pools");
    page.fill("#create [name=name]", "ADW").unwrap();
    page.fill("#create [name=max_units]", "60").unwrap();
    page.fill("#create [name=min_units]", "4").unwrap();
    page.click("#create [name=policy][value=fifo]").unwrap();
    page.click("#create button.do").unwrap();
    page.wait_until(SOON, |page| page.exists("#create [name=name][aria-invalid=true]")).unwrap();
    assert!(page.text("#create .fault").unwrap().contains("There is already a pool ADW"));
    assert_eq!(faults(page), Vec::<String>::new());
    assert_eq!(faults_at(page, 320), Vec::<String>::new());

    page.fill("#create [name=name]", "warehouse").unwrap();
    page.click("#create button.do").unwrap();
    page.wait_until(SOON, |page| Ok(page.text("h1")?.contains("warehouse"))).unwrap();

    assert_eq!(scene.path().split('#').next(), Some("/pools/warehouse"));
    assert!(page.text("#now").unwrap().contains("0 of 57 units in use"));
    assert!(page.text("#usage").unwrap().contains("No data"));
    scene.visit("/pools/warehouse?tab=settings");
    assert!(page.exists("#tab [name=min_units][value='4']").unwrap(), "what was typed first is kept");
    assert!(page.exists("#tab [name=policy][value=fifo]:checked").unwrap());
    runtime.block_on(store.close());
}

#[test]
fn a_pool_is_created_on_the_page() {
    let Some(scene) = Scene::usual() else { return };
    create_on_the_page(&scene);
}

#[test]
fn a_pool_is_created_on_the_page_without_javascript() {
    let Some(scene) = Scene::without_javascript() else { return };
    create_on_the_page(&scene);
}
