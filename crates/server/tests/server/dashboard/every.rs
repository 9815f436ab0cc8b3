//! Every page and its stream: for every role and for nobody, and with hostile words wherever a page has words.
//!
//! The list is held against the table of routes: a new page is not forgotten.

use super::job::{run_hostile, schedule, sql};
use super::outbox::refuse;
use super::pool::{asked, crowd_hostile};
use super::render::composition::{know, mapping, profile};
use super::render::{beat, claim, fail, new_render, render_to, submit};
use super::{HOSTILE, join_hostile};
use crate::App;
use crate::live::{Page, produce};
use axum::http::{Method, StatusCode};
use serde_json::json;
use std::collections::BTreeSet;
use tidemill_domain::access::{Permission, ROLES, allows};
use tidemill_domain::audit::Role;
use tidemill_domain::time::Clock;
use tidemill_server::route::{Access, Route, Surface, routes};
use tidemill_store::render::WorkerState;

/// Whether a page has words of others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Words {
    Hostile,
    Own,
}

use Words::{Hostile, Own};

/// Every page: its route in the table, its address in the world of these tests, and whose words are on it.
const PAGES: &[(&str, &str, Words)] = &[
    ("/", "/", Hostile),
    ("/jobs", "/jobs", Hostile),
    ("/jobs/{name}", "/jobs/%3Cscript%3Ealert(1)%3C%2Fscript%3E%22'%26", Hostile),
    ("/jobs/{name}", "/jobs/double", Hostile),
    ("/executions", "/executions", Hostile),
    ("/executions/{id}", "/executions/100", Hostile),
    ("/pools", "/pools", Own),
    ("/pools/{name}", "/pools/ADW", Hostile),
    ("/pools/{name}", "/pools/ADW?tab=queue", Hostile),
    ("/pools/{name}", "/pools/ADW?tab=history", Hostile),
    ("/pools/{name}", "/pools/ADW?tab=settings", Hostile),
    ("/pools/{name}/replay", "/pools/ADW/replay?limit=5&policy=fifo&advice=yes", Own),
    ("/pools/{name}/change", "/pools/ADW/change?max_units=10&threshold_percent=95&policy=fifo", Own),
    ("/pools/{name}/breaker/open", "/pools/ADW/breaker/open", Own),
    ("/pools/{name}/breaker/close", "/pools/ADW/breaker/close", Own),
    ("/pools/{name}/tickets/{id}/release", "", Hostile),
    ("/outbox", "/outbox", Hostile),
    ("/outbox/failed", "/outbox/failed", Hostile),
    ("/outbox/failed/{id}", "/outbox/failed/1", Hostile),
    ("/outbox/failed/{id}/replay", "/outbox/failed/1/replay", Hostile),
    ("/outbox/failed/{id}/skip", "/outbox/failed/1/skip", Hostile),
    ("/outbox/failed/replay", "/outbox/failed/replay?all=1&error=%3Cscript%3Ealert", Hostile),
    ("/outbox/failed/skip", "/outbox/failed/skip?id=1&id=2", Own),
    ("/render", "/render", Hostile),
    ("/render/{id}", "/render/1", Hostile),
    ("/render/{id}", "/render/2", Hostile),
    ("/render/{id}/data", "/render/1/data", Hostile),
    ("/render/{id}/cancel", "/render/2/cancel", Hostile),
    ("/render/{id}/retry", "/render/1/retry", Hostile),
    ("/render/{id}/prioritize", "/render/1/prioritize", Hostile),
    ("/render/cancel", "/render/cancel?id=1&id=2", Own),
    ("/render/retry", "/render/retry?all=1&text=%3Cscript%3E", Own),
    ("/render/prioritize", "/render/prioritize?id=1", Own),
    ("/render/new", "/render/new", Hostile),
    ("/render/{id}/approve", "/render/2/approve", Hostile),
    ("/render/{id}/reject", "/render/2/reject", Hostile),
    ("/render/{id}/correct", "/render/1/correct", Hostile),
    ("/render/{id}/recover", "/render/2/recover", Hostile),
    ("/render/batch", "/render/batch", Own),
    ("/render/batches/{id}", "/render/batches/1", Hostile),
    ("/render/batches/{id}/retry", "/render/batches/1/retry", Own),
    ("/render/workers", "/render/workers", Hostile),
    ("/render/profiles", "/render/profiles", Hostile),
    ("/render/mappings", "/render/mappings", Hostile),
    ("/alerts", "/alerts", Hostile),
    ("/settings", "/settings", Hostile),
    ("/settings/tokens", "/settings/tokens", Hostile),
    ("/settings/audit", "/settings/audit", Hostile),
    ("/settings/configuration", "/settings/configuration", Own),
];

/// Those without a section of the dashboard around them, and files, which are not shown as pages.
const OTHERS: [&str; 7] = [
    "/login",
    "/executions/{id}/download",
    "/executions/{id}/logs",
    "/render/{id}/json",
    "/render/{id}/poster",
    "/render/{id}/clip",
    "/assets/{name}",
];

fn is_page(route: &Route) -> bool {
    route.surface == Surface::Page && route.method == Method::GET && !OTHERS.contains(&route.path)
}

/// Makes a world of hostile words; returns the pages, of which one has an address that is not known before.
async fn furnish(app: &App) -> Vec<(&'static str, String, Words)> {
    join_hostile(app).await;
    run_hostile(app).await;
    schedule(app, "nightly", "double").await;
    crowd_hostile(app).await;
    order_hostile(app).await;
    refuse_hostile(app).await;
    for (path, body) in [
        ("/api/v1/tokens", json!({ "name": HOSTILE, "role": "viewer", "scopes": ["pool/<script>"] })),
        (
            "/api/v1/alerts/silences",
            json!({ "rule": "process_died", "subject": HOSTILE, "minutes": 5, "reason": HOSTILE }),
        ),
        ("/api/v1/schedules/nightly/pause", json!({ "reason": HOSTILE })),
    ] {
        let answer = app.ask_as(Role::Admin, Method::POST, path, &body.to_string()).await;
        assert!(answer.status.is_success(), "{path}: {answer:?}");
    }
    let release = asked(&app.ask_as(Role::Admin, Method::GET, "/pools/ADW?tab=queue", "").await.text);
    let path = |path: &str| if path.is_empty() { release.clone() } else { path.to_owned() };
    PAGES.iter().map(|(route, page, words)| (*route, path(page), *words)).collect()
}

/// A render that failed and one that is at work, which are a batch, and what is known of their composition.
async fn order_hostile(app: &App) {
    let order = async || {
        let mut new = new_render(HOSTILE);
        new.cue_item = Some(HOSTILE.into());
        new.data = json!({ "single_fields": { "name": HOSTILE } });
        submit(app, &new).await;
        claim(app, HOSTILE).await
    };
    fail(app, &order().await, HOSTILE).await;
    render_to(app, &order().await, 40.0).await;
    sql(app, "update render_queue set batch_id = 1").await;
    beat(app, HOSTILE, 2, 1, WorkerState::Working).await;
    know(app, &[profile(HOSTILE)], &[mapping(HOSTILE, "Single - name")]).await;
}

/// Two events that were not taken, and a relay.
async fn refuse_hostile(app: &App) {
    refuse(app, 1, HOSTILE, "orders", &json!({ "x": HOSTILE }).to_string()).await;
    refuse(app, 2, "other", "orders", "{}").await;
    let (hostile, now) = (HOSTILE.replace('\'', "''"), app.clock.now().as_micros());
    let id = "00000000-0000-0000-0000-000000000001";
    sql(
        app,
        &format!(
            "update tidemill_outbox_exception set error = '{hostile}', event_type = '{hostile}', aggregate_type = '{hostile}';
             insert into tidemill_outbox_relay (id, process, name, host, pid, sink, joined_at, until)
             values ('{id}', '{id}', '{hostile}', '{hostile}', 7, '{hostile}', {now}, {now} + 3600000000);
             update tidemill_outbox_slot set owner = '{id}', epoch = 1 where slot < 9"
        ),
    )
    .await;
}

/// What a page would do with a hostile word if it did not take it for text.
fn is_tricked(html: &str) -> bool {
    ["<script>alert", "=\"<script>", " style=\"", " onclick"].iter().any(|trick| html.contains(trick))
}

/// A count of one with a noun for many, such as `1 events`.
fn wrong_plural(html: &str) -> Option<String> {
    let text: String =
        html.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect();
    let words: Vec<&str> = text.split_whitespace().collect();
    let nouns =
        ["attempts", "events", "executions", "holders", "leases", "renders", "requests", "streams", "units"];
    let is_wrong = |pair: &&[&str]| {
        pair[0] == "1" && nouns.contains(&pair[1].trim_end_matches(|letter: char| !letter.is_alphabetic()))
    };
    words.windows(2).find(is_wrong).map(|pair| pair.join(" "))
}

/// Where the stream of a page is.
fn stream(page: &str) -> String {
    super::between(page, "data-events=\"", "\"").replace("&amp;", "&")
}

#[test]
fn every_page_of_the_table_is_in_the_list() {
    let there: BTreeSet<&str> =
        routes().iter().filter(|route| is_page(route)).map(|route| route.path).collect();
    let listed: BTreeSet<&str> = PAGES.iter().map(|(route, _, _)| *route).collect();

    assert_eq!(there, listed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_and_its_stream_are_for_those_who_may_see_them() {
    let app = App::closed().await;
    let pages = furnish(&app).await;
    let all = routes();
    let answer = |is_allowed: bool| if is_allowed { StatusCode::OK } else { StatusCode::FORBIDDEN };
    let mut wrong = Vec::new();

    for (route, path, _) in &pages {
        let route = all.iter().find(|known| is_page(known) && known.path == *route).unwrap();
        let Access::Needs(needed) = route.access else { panic!("{route:?} is for everybody") };
        let nobody = app.ask(Method::GET, path, &[], "").await;
        assert_eq!((nobody.status, nobody.header("location")), (StatusCode::SEE_OTHER, "/login"), "{path}");
        let stream = stream(&app.ask_as(Role::Admin, Method::GET, path, "").await.text);
        assert_eq!(Page::open(&app, &stream, &[]).await.status, StatusCode::UNAUTHORIZED, "{stream}");
        for role in ROLES {
            let status = app.ask_as(role, Method::GET, path, "").await.status;
            if status != answer(allows(role, needed)) {
                wrong.push(format!("{role} {path}: {status}"));
            }
            let bearer = format!("Bearer {}", app.token(role).await);
            let status = Page::open(&app, &stream, &[("authorization", &bearer)]).await.status;
            if status != answer(allows(role, Permission::View)) {
                wrong.push(format!("{role} {stream}: {status}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_words_are_text_on_every_page_and_in_every_patch() {
    let app = App::open().await;
    let pages = furnish(&app).await;
    let _stop = produce(&app);
    let (mut streams, mut wrong) = (BTreeSet::new(), Vec::new());

    for (_, path, words) in &pages {
        let answer = app.ask(Method::GET, path, &[], "").await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
        let main = super::between(&answer.text, "<main", "</main>");
        assert!(!is_tricked(&answer.text), "{path}: {}", answer.text);
        wrong.extend(wrong_plural(main).map(|plural| format!("{path} says {plural:?}")));
        if main.contains("&lt;script&gt;") != (*words == Hostile) {
            wrong.push(format!("{path} has words of others, or has none"));
        }
        // Every region of the page comes over its stream, too.
        let address = stream(&answer.text);
        let mut missing: BTreeSet<&str> = regions(&answer.text);
        if !streams.insert((address.clone(), missing.iter().map(ToString::to_string).collect::<Vec<_>>())) {
            continue;
        }
        let mut open = Page::open(&app, &address, &[]).await;
        while !missing.is_empty() {
            let Some(patch) = open.patch_in_time().await else {
                wrong.push(format!("{path}: {missing:?} did not come"));
                break;
            };
            assert!(!is_tricked(&patch.html), "{path}: {}", patch.html);
            missing.remove(patch.region.as_str());
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(streams.len() > 10, "{streams:?}");
    assert!(is_tricked(HOSTILE) && is_tricked("<p style=\"color: red\">"), "a planted fault is not found");
    assert_eq!(wrong_plural("<b>1</b> events.").as_deref(), Some("1 events."));
    assert_eq!(wrong_plural("<b>21</b> events, 1 event"), None);
}

/// The regions of a page that are no rows of others.
fn regions(page: &str) -> BTreeSet<&str> {
    let tags = page.split('<').filter(|tag| !tag.starts_with("tr "));
    tags.filter_map(|tag| tag.split_once("data-live=\""))
        .map(|(_, rest)| rest.split('"').next().unwrap())
        .collect()
}
