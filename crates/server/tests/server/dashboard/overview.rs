//! The overview as a whole: what is counted at the top, what needs attention, and where everything leads.

use super::{HOSTILE, between, fire_alert};
use crate::App;
use axum::http::{Method, StatusCode};
use std::time::Duration;
use tidemill_domain::audit::Actor;
use tidemill_domain::pool::Settings;
use tidemill_domain::time::Clock;

async fn overview(app: &App) -> String {
    app.ask(Method::GET, "/", &[], "").await.text
}

/// The words of a part of a page, without its tags.
fn words(html: &str) -> String {
    let words = html.split('<').filter_map(|piece| piece.split_once('>')).map(|(_, text)| text.trim());
    words.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
}

fn attention(page: &str) -> String {
    words(&format!("<{}", between(page, "<section class=\"panel\" id=\"attention\"", "</section>")))
}

fn tiles(page: &str) -> String {
    words(&format!("<{}", between(page, "<div class=\"tiles\"", "<section")))
}

async fn run(app: &App, sql: &str) {
    let mut tx = app.store.begin().await.unwrap();
    tx.execute_for_test(sql).await.unwrap();
    tx.commit().await.unwrap();
}

async fn add_pool(app: &App, name: &str, max_units: u32) {
    let mut tx = app.store.begin().await.unwrap();
    tx.pools().create(&Settings::new(name.parse().unwrap(), max_units), &Actor::system()).await.unwrap();
    tx.commit().await.unwrap();
}

/// Executions as Spring Batch writes them: one that runs, one that failed today, and one that failed and was gone on with.
const EXECUTIONS: &str = "
    insert into batch_job_instance (job_instance_id, version, job_name, job_key)
    values (1, 0, 'nightly', 'a'), (2, 0, 'load', 'b'), (3, 0, 'report', 'c');
    insert into batch_job_execution (job_execution_id, version, job_instance_id, create_time, end_time, status, exit_message)
    values (1, 1, 1, '2026-11-15 01:00:00.000000', null, 'STARTED', ''),
           (2, 1, 2, '2026-11-15 01:00:00.000000', '2026-11-15 01:30:00.000000', 'FAILED', 'no <b>disk</b>
at line 2'),
           (3, 1, 3, '2026-11-15 01:00:00.000000', '2026-11-15 01:10:00.000000', 'FAILED', 'mended'),
           (4, 1, 3, '2026-11-15 01:20:00.000000', '2026-11-15 01:40:00.000000', 'COMPLETED', '')";

#[tokio::test]
async fn a_new_installation_says_how_to_begin() {
    let app = App::open().await;

    let page = overview(&app).await;
    assert!(page.contains("Nothing has run yet.") && page.contains("<code>tidemill demo</code>"));
    assert_eq!(
        tiles(&page),
        "0 ○ executions running 0 ● failed in 24 h none ○ oldest unpublished event 0 ○ renders waiting"
    );
    assert!(attention(&page).contains("Nothing needs attention."), "{}", attention(&page));

    add_pool(&app, "ADW", 40).await;
    assert!(!overview(&app).await.contains("Nothing has run yet."));
}

#[tokio::test]
async fn the_tiles_count_and_lead_to_what_they_count() {
    let app = App::open().await;
    run(&app, EXECUTIONS).await;
    run(&app, "insert into render_queue (status) values ('pending'), ('pending'), ('failed')").await;

    let page = overview(&app).await;

    assert_eq!(
        tiles(&page),
        "1 ● executions running 2 ✖ failed in 24 h none ○ oldest unpublished event 2 ● renders waiting"
    );
    let links = between(&page, "<div class=\"tiles\"", "<section");
    for link in ["/executions?status=running", "/executions?status=FAILED", "/outbox", "/render"] {
        assert!(links.contains(&format!("<a href=\"{link}\">")), "{link}: {links}");
    }
    app.clock.advance(Duration::from_secs(24 * 3600));
    assert!(tiles(&overview(&app).await).contains("0 ● failed in 24 h"));
}

#[tokio::test]
async fn what_needs_attention_comes_by_severity_and_age_and_leads_to_it() {
    let app = App::open().await;
    run(&app, EXECUTIONS).await;
    fire_alert(&app, HOSTILE).await;

    let page = overview(&app).await;
    let told = attention(&page);
    let (alert, failed) = (told.find("✖ critical Alert process_died"), told.find("▲ warning load #2 failed"));
    assert!(alert.is_some() && alert < failed, "the worst first: {told}");
    assert!(
        told.contains("no &lt;b&gt;disk&lt;/b&gt; 2026-11-15 01:30:00 UTC"),
        "the first line of why, and when: {told}"
    );
    assert!(!told.contains("report #3"), "somebody has gone on with it: {told}");
    assert!(page.contains("<a href=\"/executions/2\">") && !page.contains("<script>alert"));

    app.clock.advance(Duration::from_secs(20));
    assert!(attention(&overview(&app).await).contains("▲ warning Process node-a No heartbeat"));
}

#[tokio::test]
async fn no_more_than_ten_are_shown_and_the_rest_is_counted() {
    let app = App::open().await;
    for number in 0..12 {
        fire_alert(&app, &format!("subject-{number:02}")).await;
    }

    let told = attention(&overview(&app).await);

    assert_eq!(told.matches("✖ critical").count(), 10);
    assert!(told.contains("The first 10 of 12."), "{told}");
}

#[tokio::test]
async fn the_day_of_the_busiest_pool_is_drawn() {
    let app = App::open().await;
    for (name, usage) in [("calm", 5), ("busy", 30), ("idle", 0)] {
        add_pool(&app, name, 40).await;
        run(&app, &format!("update tidemill_pool set usage = {usage} where name = '{name}'")).await;
    }
    let mut tx = app.store.begin().await.unwrap();
    tx.pools().sample_usage().await.unwrap();
    tx.commit().await.unwrap();

    let page = overview(&app).await;

    assert!(page.contains("Busiest pool in the last 24 h: <a href=\"/pools/busy\">busy</a>"), "{page}");
    assert!(page.contains("Peak: 30 units in use"), "{page}");
    assert_eq!(page.matches("<figure").count(), 1);
}

#[tokio::test]
async fn renders_that_wait_for_a_person_need_no_worker() {
    let app = App::open().await;
    run(&app, "insert into render_queue (status) values ('pending')").await;
    let workers = async || {
        let page = overview(&app).await;
        let part = between(&page, "data-live=\"renders\"", "</dl>").to_owned();
        let workers = between(&part, "<a href=\"/render/workers\">", "</a>").to_owned();
        (part, workers)
    };
    let (part, none) = workers().await;
    assert!(none.contains('✖') && !part.contains("Waiting for approval"), "{part}");

    run(&app, "update render_queue set approval = 'awaiting'").await;

    let (part, none) = workers().await;
    assert!(none.contains("none") && !none.contains('✖'), "{part}");
    assert!(part.contains("<dt>Waiting for approval</dt>") && part.contains("▲</span> 1"), "{part}");
}

#[tokio::test]
async fn the_renders_are_counted_and_each_number_leads_to_its_renders() {
    let app = App::open().await;
    let now = app.clock.now().as_micros();
    let renders = format!(
        "insert into render_queue (composition_id, status, deadline, ended_at)
         values ('late', 'pending', 1, null), ('waits', 'pending', null, null), ('broken', 'failed', null, {now})"
    );
    run(&app, &renders).await;

    let page = overview(&app).await;
    let part = between(&page, "data-live=\"renders\"", "</dl>");
    let numbers: Vec<&str> = part.split("<dd>").skip(1).map(|dd| between(dd, "<a href=\"", "\"")).collect();

    let paths = [
        "/render?status=pending",
        "/render?show=active",
        "/render?show=failed_24h",
        "/render?show=late",
        "/render/workers",
    ];
    assert_eq!(numbers, paths);
    for part_of in ["Waiting", ">2<", "✖</span> 1</span>", "none"] {
        assert!(part.contains(part_of), "{part_of}: {part}");
    }
    for (path, names) in [
        ("/render?show=active", &[][..]),
        ("/render?show=failed_24h", &["broken"]),
        ("/render?show=late", &["late"]),
    ] {
        let list = app.ask(Method::GET, path, &[], "").await.text;
        for name in ["late", "waits", "broken"] {
            let link = format!("\">{name}</a>");
            assert_eq!(list.contains(&link), names.contains(&name), "{path} {name}: {list}");
        }
    }
    let bad = app.ask(Method::GET, "/render?show=all", &[], "").await;
    assert_eq!(bad.status, StatusCode::BAD_REQUEST);
}
