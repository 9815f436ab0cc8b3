//! Pools: on the overview, in their list and on their pages; and what is done about them there.

mod define;
mod replay;
mod rule;

use super::{Browser, HOSTILE, between, has_button};
use crate::App;
use axum::http::{Method, StatusCode};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;
use tidemill_domain::audit::{Actor, Role};
use tidemill_domain::pool::command::{Acquire, Command, Part, Release, ReleaseBy};
use tidemill_domain::pool::estimate::Pace;
use tidemill_domain::pool::event::End;
use tidemill_domain::pool::settings::Pause;
use tidemill_domain::pool::{Class, Holder, PoolName, Settings};
use tidemill_domain::time::Clock;
use tidemill_engine::clock::SystemIds;
use tidemill_store::audit::AuditFilter;
use tidemill_store::pool::{Lapses, PassRequest, PoolCache};

fn adw() -> PoolName {
    "ADW".parse().unwrap()
}

fn settings(max_units: u32) -> Settings {
    let mut settings = Settings::new(adw(), max_units);
    settings.external_id = Some(4);
    settings
}

async fn create(app: &App) {
    let mut tx = app.store.begin().await.unwrap();
    tx.pools().create(&settings(20), &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
}

async fn pass(app: &App, command: Command) {
    let (pools, commands) = (BTreeSet::from([adw()]), [command]);
    let request =
        PassRequest { pools: &pools, commands: &commands, pace: Pace::default(), lapses: Lapses::Left };
    app.store.pool_pass(&mut PoolCache::default(), &request).await.unwrap();
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
        deadline: None,
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
    tx.pools().set(settings, &Actor::system(), None).await.unwrap();
    tx.commit().await.unwrap();
}

async fn panel(app: &App) -> String {
    panel_of(app, "/", "pools").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_overview_shows_how_full_pools_are_and_what_was_decided() {
    let app = App::open().await;
    assert!(panel(&app).await.contains("No pools yet."));
    create(&app).await;

    ask(&app, "batch_1", 8, 8).await;
    ask(&app, "batch_421", 16, 4).await;
    ask(&app, "batch_398", 8, 8).await;
    app.clock.advance(Duration::from_secs(45));

    // The limit is 95 % of 20.
    let full = panel(&app).await;
    assert!(
        full.contains("requests waiting ADW (4) 16 of 20 units in use, limit 19 16 of 19 (84 %) 20 2 1"),
        "{full}"
    );
    assert!(full.contains("ADW batch_421 downgraded: PARALLEL(16) → PARALLEL(8)"), "{full}");
    give_back(&app, "batch_1").await;
    let told = panel(&app).await;
    assert!(told.contains("ADW batch_398 waited 45s before acquire"), "{told}");
    assert!(told.contains("open ADW (4) 16 of 20 units in use, limit 19 16 of 19 (84 %) 20"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_that_is_paused_or_over_its_limit_says_so() {
    let app = App::open().await;
    create(&app).await;
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
    assert!(over.contains("over by 7 ADW (4) 16 of 10 units in use, limit 9 16 of 9 (178 %) 10 1"), "{over}");
}

/// The words of a part of a page, without its tags.
fn words(html: &str) -> String {
    let words = html.split('<').filter_map(|piece| piece.split_once('>')).map(|(_, text)| text.trim());
    words.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
}

async fn get(app: &App, path: &str) -> String {
    let answer = app.ask(Method::GET, path, &[], "").await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
    answer.text
}

/// A panel of a page, in words.
async fn panel_of(app: &App, path: &str, id: &str) -> String {
    let page = get(app, path).await;
    words(&format!("<{}", between(&page, &format!("<section class=\"panel\" id=\"{id}\""), "</section>")))
}

/// A pool of 20 units, of which 19 may be in use: 16 are, half of what the second wanted, and the third waits.
async fn crowded(app: &App) {
    create(app).await;
    ask(app, "batch_1", 8, 8).await;
    ask(app, "batch_421", 16, 4).await;
    ask(app, "batch_398", 12, 8).await;
    app.clock.advance(Duration::from_secs(45));
}

/// What was done to the pool by people, the newest first: action and reason.
async fn audited(app: &App) -> Vec<(String, String)> {
    let filter = AuditFilter { object: Some("pool/ADW".into()), ..AuditFilter::default() };
    let mut tx = app.store.read().await.unwrap();
    let records = tx.audit().entries(&filter, 50).await.unwrap();
    tx.rollback().await.unwrap();
    records.into_iter().map(|record| (record.entry.action, record.entry.reason.unwrap_or_default())).collect()
}

async fn usage(app: &App) -> (u64, u64) {
    let mut tx = app.store.read().await.unwrap();
    let pool = tx.pools().find(&adw()).await.unwrap().unwrap();
    tx.rollback().await.unwrap();
    (pool.usage, pool.waiting)
}

/// The address of the first link that asks something.
pub(super) fn asked(page: &str) -> String {
    let tab = page.split_once("id=\"tab\"").unwrap().1;
    between(tab, "data-ask href=\"", "\"").to_owned()
}

#[tokio::test]
async fn the_list_has_what_is_in_use_and_beside_it_who_holds_and_who_waits() {
    let app = App::open().await;
    assert!(
        panel_of(&app, "/pools", "pools")
            .await
            .contains("No pools yet. Create one: New pool or tidemill pool")
    );
    crowded(&app).await;

    let list = panel_of(&app, "/pools", "pools").await;
    let page = get(&app, "/pools").await;

    assert!(
        list.contains(
            "requests waiting ADW (4) 16 of 20 units in use, limit 19 16 of 19 (84 %) 20 2 1 45 s adaptive Pause"
        ),
        "{list}"
    );
    assert!(
        page.contains("<rect class=\"used\" width=\"80.00\""),
        "the bar has no part for who waits: {page}"
    );
    assert!(page.contains("<a href=\"/pools/ADW\">ADW</a>"));
}

#[tokio::test]
async fn one_click_pauses_a_pool_and_another_undoes_it() {
    let app = App::closed().await;
    crowded(&app).await;
    let operator = Browser::log_in(&app, Role::Operator).await;

    let answer = operator.submit("/pools", "/pools/ADW/pause", "key=k1&back=/pools").await;
    assert_eq!((answer.status, answer.header("location")), (StatusCode::SEE_OTHER, "/pools?paused=ADW"));
    let again = operator.submit("/pools", "/pools/ADW/pause", "key=k1&back=/pools").await;
    assert_eq!(again.status, StatusCode::SEE_OTHER);
    let page = operator.get("/pools?paused=ADW").await.text;
    assert!(
        page.contains("is paused. No request starts")
            && has_button(&page, "Undo")
            && has_button(&page, "Resume")
    );
    assert!(words(&page).contains("paused ADW"), "{}", words(&page));
    let one = operator.get("/pools/ADW").await.text;
    assert!(words(&one).contains("by the operator: with one click on the dashboard"), "{}", words(&one));

    let undone = operator
        .submit("/pools", "/pools/ADW/resume", "key=k1&back=/pools/ADW%3Ftab%3Dqueue%26range%3D24h")
        .await;
    assert_eq!(undone.header("location"), "/pools/ADW?tab=queue&range=24h&resumed=ADW");
    let page = operator.get("/pools/ADW?tab=queue&resumed=ADW").await.text;
    assert!(page.contains(" has resumed.") && has_button(&page, "Undo"));
    assert!(!operator.get("/pools?paused=ADW").await.text.contains("is paused"), "only what is so is said");

    let evil =
        operator.submit("/pools", "/pools/ADW/pause", "key=k2&reason=patch+day&back=//evil.example/").await;
    assert_eq!(evil.header("location"), "/pools?paused=ADW");
    let done = audited(&app).await;
    let actions: Vec<&str> = done.iter().map(|(action, _)| action.as_str()).collect();
    assert_eq!(
        actions,
        ["pool.pause", "pool.resume", "pool.pause", "pool.create"],
        "a double click is one order"
    );
    assert_eq!(done[0].1, "patch day");
}

#[tokio::test]
async fn a_breaker_is_opened_and_closed_with_a_reason() {
    let app = App::closed().await;
    crowded(&app).await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    let page = operator.get("/pools/ADW").await.text;
    assert!(words(&page).contains("Breaker closed"), "{}", words(&page));
    assert!(page.contains("/pools/ADW/breaker/open") && !page.contains("/pools/ADW/breaker/close"));
    let question = operator.get("/pools/ADW/breaker/open").await.text;
    assert!(question.contains("No request starts until somebody closes it"), "{}", words(&question));
    assert!(operator.get("/pools/ADW/breaker/close").await.text.contains("The breaker is closed."));

    let path = "/pools/ADW/breaker/open";
    let missing = operator.submit("/pools", path, "key=k1").await;
    assert_eq!(missing.status, StatusCode::BAD_REQUEST, "a reason is needed");
    let answer = operator.submit("/pools", path, "key=k2&reason=patch+day&back=/pools/ADW").await;
    assert_eq!((answer.status, answer.header("location")), (StatusCode::SEE_OTHER, "/pools/ADW"));

    let page = words(&operator.get("/pools/ADW").await.text);
    assert!(page.contains("breaker open") && page.contains("by the operator: patch day"), "{page}");
    assert!(words(&operator.get("/pools").await.text).contains("breaker open ADW"));
    let history = words(&operator.get("/pools/ADW?tab=history").await.text);
    assert!(history.contains("Breaker opened by the operator: patch day"), "{history}");
    assert!(words(&operator.get("/").await.text).contains("Breaker opened by the operator: patch day"));
    let closed = operator.submit("/pools", "/pools/ADW/breaker/close", "key=k3&reason=done").await;
    assert_eq!(closed.status, StatusCode::SEE_OTHER);
    assert!(words(&operator.get("/pools/ADW").await.text).contains("Breaker closed since"));
}

#[tokio::test]
async fn who_may_only_look_sees_why_nothing_can_be_done() {
    let app = App::closed().await;
    crowded(&app).await;
    let viewer = Browser::log_in(&app, Role::Viewer).await;

    for path in ["/pools", "/pools/ADW", "/pools/ADW?tab=queue", "/pools/ADW?tab=settings"] {
        let page = viewer.get(path).await.text;
        assert!(page.contains("The role viewer may not operate."), "{path}");
        for word in ["Pause", "Release…", "Cancel…", "Change…", "Create pool"] {
            assert!(!has_button(&page, word), "{path}: {word}");
        }
        assert!(!page.contains("data-ask"), "{path}");
    }
    let operator = Browser::log_in(&app, Role::Operator).await;
    let release = asked(&operator.get("/pools/ADW").await.text);
    let refused = viewer.get(&release).await.text;
    assert!(refused.contains("The role viewer may not operate.") && !refused.contains("name=\"reason\""));
    for (path, body) in [
        ("/pools/ADW/pause", ""),
        ("/pools/ADW/resume", ""),
        ("/pools/ADW/change", "max_units=1&threshold_percent=100&policy=fifo"),
        (release.as_str(), "reason=x"),
    ] {
        let answer = viewer.submit("/pools", path, body).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}");
        let forged = operator.post(path, &format!("{body}&form_token=forged")).await;
        assert!(forged.status == StatusCode::FORBIDDEN && forged.text.contains("TM0503"), "{path}");
    }
    assert_eq!(usage(&app).await, (16, 1));
    assert_eq!(audited(&app).await.len(), 1, "nothing but the making");
}

#[tokio::test]
async fn whoever_is_limited_to_other_pools_is_told_so() {
    let app = App::closed().await;
    crowded(&app).await;
    let limited = Browser::log_in_scoped(&app, "pool/ERP").await;

    let page = limited.get("/pools/ADW").await.text;

    assert!(words(&page).contains("this token is limited to pool/ERP"), "{}", words(&page));
    assert!(!has_button(&page, "Pause"), "{page}");
    assert!(words(&limited.get("/pools/ADW?tab=settings").await.text).contains("limited to pool/ERP"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_are_taken_away_after_a_question_and_for_a_reason() {
    let app = App::closed().await;
    crowded(&app).await;
    let operator = Browser::log_in(&app, Role::Operator).await;
    let page = operator.get("/pools/ADW").await.text;
    let holders = words(between(&page, "id=\"tab\"", "</section>"));
    assert!(holders.contains("running batch_421/run 8 16 → 8 ▲ downgraded normal"), "{holders}");
    assert!(holders.contains("expires in 23 h no heartbeats"), "{holders}");
    assert!(holders.contains("it was first in the queue, and all of its units fit"), "{holders}");
    let head = words(between(&page, "id=\"now\"", "</section>"));
    assert!(head.contains("Estimates too few waits yet to judge the estimates (0 of 20)"), "{head}");

    let release = asked(&page);
    let question = operator.get(&release).await.text;
    assert!(question.contains("Release lease of “batch_1/run”?"), "{question}");
    assert!(question.contains("16 → 8 units in use; 1 request waits and may start at once."), "{question}");
    assert!(question.contains("tidemill pool release "));
    let empty = operator.submit("/pools", &release, "reason=+&key=a").await;
    assert_eq!(empty.status, StatusCode::BAD_REQUEST);
    assert_eq!(usage(&app).await, (16, 1));

    let done = operator.submit("/pools", &release, "reason=host+is+gone&key=b").await;
    assert_eq!((done.status, done.header("location")), (StatusCode::SEE_OTHER, "/pools/ADW"), "{done:?}");
    let again = operator.submit("/pools", &release, "reason=host+is+gone&key=b").await;
    assert_eq!(again.status, StatusCode::SEE_OTHER, "the same form twice is one order");
    assert_eq!(usage(&app).await, (16, 0), "8 came back, and the queue got 8 of the 12 that it wanted");
    let late = operator.submit("/pools", &release, "reason=once+more&key=c").await;
    assert_eq!(late.status, StatusCode::CONFLICT);
    assert!(operator.get(&release).await.text.contains("It has already ended: "));
    assert_eq!(audited(&app).await[0], ("pool.release".into(), "host is gone".into()));
    let elsewhere = release.replace("/pools/ADW/", "/pools/OTHER/");
    assert_eq!(operator.get(&elsewhere).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_queue_tells_place_reason_and_estimate_and_a_request_can_leave_it() {
    let app = App::closed().await;
    crowded(&app).await;
    ask(&app, "batch_500", 4, 4).await;
    let operator = Browser::log_in(&app, Role::Operator).await;

    let page = operator.get("/pools/ADW?tab=queue").await.text;
    let queue = words(between(&page, "id=\"tab\"", "</section>"));
    let api = app.ask_as(Role::Viewer, Method::GET, "/api/v1/pools/ADW/queue", "").await.json();
    for (place, dag) in [(0, "batch_398"), (1, "batch_500")] {
        let item = &api["items"][place];
        assert_eq!(item["holder"]["dag_id"], dag);
        let (message, reason) = (item["message"].as_str().unwrap(), item["reason"].as_str().unwrap());
        assert!(queue.contains(&format!("{message} {reason}")), "the same words as the API: {queue}");
    }
    assert!(queue.contains("1 batch_398/run 12 at least 8 normal 45 s"), "{queue}");
    assert!(queue.contains("about ") && queue.contains("90 % within "), "{queue}");
    assert!(!queue.contains("overtaken by"), "{queue}");

    let question = operator.get(&asked(&page)).await.text;
    assert!(
        question.contains("Cancel request of “batch_398/run”?")
            && question.contains("; 1 other request waits.")
    );
    let done =
        operator.submit("/pools", &asked(&page), "reason=not+needed&back=/pools/ADW%3Ftab%3Dqueue").await;
    assert_eq!(done.header("location"), "/pools/ADW?tab=queue");
    let page = operator.get("/pools/ADW?tab=queue").await.text;
    assert!(!page.contains("batch_398"), "it has left");
    let nobody = operator.submit("/pools", &asked(&page), "reason=nor+this").await;
    assert_eq!(nobody.status, StatusCode::SEE_OTHER);
    assert!(operator.get("/pools/ADW?tab=queue").await.text.contains("No waiting requests."));
}

#[tokio::test]
async fn the_history_is_read_page_by_page() {
    let app = App::open().await;
    crowded(&app).await;
    for number in 0..26 {
        ask(&app, &format!("late_{number}"), 8, 8).await;
        give_back(&app, &format!("late_{number}")).await;
    }

    let first = get(&app, "/pools/ADW?tab=history").await;
    let older = between(&first, "class=\"button\" href=\"", "\"").replace("&amp;", "&");
    assert!(older.contains("&before=") && older.ends_with("#tab"), "{older}");
    let second = get(&app, older.trim_end_matches("#tab")).await;

    let rows = |page: &str| between(page, "id=\"tab\"", "</section>").matches("<tr>").count() - 1;
    assert_eq!(rows(&first), 50);
    assert_eq!(
        rows(&second),
        3 * 26 + 9 - 50,
        "each asked, got an estimate and left; before, a pool was made and three asked"
    );
    assert!(words(&first).contains("ended Released by its holder late_25/run"), "{}", words(&first));
    let told = words(&second);
    assert!(
        told.contains("with less it should end earlier than if it waits for all of its units batch_421/run"),
        "{told}"
    );
    assert!(told.contains(": 20 units with a limit of 95 %"), "{told}");
    assert!(second.contains("Newest") && !second.contains(">Older<"));
    let odd = get(&app, "/pools/ADW?tab=history&before=x").await;
    assert_eq!(rows(&odd), 50, "what is not understood is as if it were not there");
}

#[tokio::test]
async fn the_graph_tells_what_was_seen_and_what_nobody_knows() {
    let app = App::open().await;
    crowded(&app).await;
    let nobody = panel_of(&app, "/pools/ADW", "usage").await;
    assert!(nobody.contains("No data yet"), "{nobody}");

    for pause in [0, 10, 600] {
        app.clock.advance(Duration::from_secs(pause));
        let mut tx = app.store.begin().await.unwrap();
        tx.pools().sample_usage().await.unwrap();
        tx.commit().await.unwrap();
    }
    let hour = get(&app, "/pools/ADW?range=1h").await;
    let told = panel_of(&app, "/pools/ADW?range=1h", "usage").await;

    assert!(
        told.contains(
            "Peak: 16 units in use, 1 request waiting (sampled every ten seconds; no data for 5 min). \
             No data before 2026-11-15 02:00:00 UTC ."
        ),
        "{told}"
    );
    assert!(told.contains("2026-11-15 02:00:00 UTC 16 16 16 19 1"), "{told}");
    assert!(told.contains("2026-11-15 02:05:00 UTC unknown 19 unknown"), "{told}");
    assert!(hour.contains("<desc>Peak: 16 units") && hour.contains("viewBox=\"0 0 30 1000\""));
    app.clock.advance(Duration::from_secs(24 * 3600));
    let nobody = panel_of(&app, "/pools/ADW?range=1h", "usage").await;
    assert!(nobody.contains("No data in the last 1 h"), "{nobody}");
    let mut tx = app.store.begin().await.unwrap();
    tx.pools().sample_usage().await.unwrap();
    tx.commit().await.unwrap();
    let day = get(&app, "/pools/ADW").await;
    assert!(day.contains("viewBox=\"0 0 2880 1000\"") && !day.contains("No data before"));
    assert_eq!(between(&day, "Show as a table", "</table>").matches("<th scope=\"row\"").count(), 24);
}

/// A pool of which all that people can say is hostile: who has units, who waits, and why it is paused.
pub(super) async fn crowd_hostile(app: &App) {
    crowded(app).await;
    give_back(app, "batch_1").await;
    give_back(app, "batch_398").await;
    ask(app, HOSTILE, 8, 8).await;
    ask(app, &format!("{HOSTILE}2"), 8, 8).await;
    let pause = Pause { by: HOSTILE.into(), reason: HOSTILE.into(), at: app.clock.now() };
    set(app, &Settings { paused: Some(pause), ..settings(20) }).await;
}

#[tokio::test]
async fn hostile_words_about_a_pool_are_text() {
    let app = App::open().await;
    crowd_hostile(&app).await;

    let mut paths = vec!["/pools".to_owned(), format!("/pools?paused={}", "%3Cscript%3Ealert(1)")];
    for tab in ["holders", "queue", "history", "settings"] {
        paths.push(format!("/pools/ADW?tab={tab}"));
    }
    paths.push(asked(&get(&app, "/pools/ADW").await));
    paths.push(asked(&get(&app, "/pools/ADW?tab=queue").await));
    for path in &paths {
        let page = get(&app, path).await;
        assert!(!page.contains("<script>alert"), "{path}: {page}");
    }
    assert!(
        get(&app, "/pools/ADW?tab=queue")
            .await
            .contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;'&amp;2")
    );
    let bad = app.ask(Method::GET, "/pools/%3Cscript%3Ealert(1)%3C%2Fscript%3E", &[], "").await;
    assert!(bad.status == StatusCode::NOT_FOUND && !bad.text.contains("<script>alert"));
}
