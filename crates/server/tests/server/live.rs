//! Live updates over the whole way: a change in the database, the producer, the stream of a page.

use crate::App;
use axum::body::{Body, BodyDataStream};
use axum::http::{Method, Request, StatusCode};
use futures_core::Stream;
use serde_json::Value;
use std::pin::Pin;
use std::time::Duration;
use tidemill_domain::audit::{Actor, AuditEntry, Role};
use tidemill_domain::process::Identity;
use tidemill_engine::{Process, ProcessOptions};
use tidemill_server::live;
use tokio::sync::watch;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(120);

/// A patch, as it came over a stream.
pub(crate) struct Patch {
    pub(crate) id: String,
    pub(crate) region: String,
    pub(crate) html: String,
}

/// An open stream, read event by event.
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    body: BodyDataStream,
    text: String,
}

impl Page {
    pub(crate) async fn open(app: &App, path: &str, headers: &[(&str, &str)]) -> Self {
        use tower::ServiceExt;
        let mut request = Request::builder().uri(path).header("host", "127.0.0.1:7790");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = app.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        Self { status: response.status(), body: response.into_body().into_data_stream(), text: String::new() }
    }

    /// The next event as it is on the wire; none at the end.
    async fn event(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(event);
            }
            let chunk = std::future::poll_fn(|context| Pin::new(&mut self.body).poll_next(context));
            let chunk = timeout(PATIENCE, chunk).await.expect("an event comes in time")?.unwrap();
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next patch of this region: its id and its text.
    pub(crate) async fn patch(&mut self, region: &str) -> (String, String) {
        loop {
            let patch = self.any_patch().await;
            if patch.region == region {
                return (patch.id, patch.html);
            }
        }
    }

    /// The next patch of whichever region; none when none comes in time.
    pub(crate) async fn patch_in_time(&mut self) -> Option<Patch> {
        timeout(PATIENCE / 2, self.any_patch()).await.ok()
    }

    async fn any_patch(&mut self) -> Patch {
        loop {
            let event = self.event().await.expect("the stream is open");
            let line =
                |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("").to_owned();
            if line("event: ") == "patch" {
                let data: Value = serde_json::from_str(&line("data: ")).unwrap();
                let text = |name: &str| data[name].as_str().unwrap().to_owned();
                return Patch { id: line("id: "), region: text("r"), html: text("h") };
            }
        }
    }
}

/// Runs the producer as the server does.
pub(crate) fn produce(app: &App) -> watch::Sender<bool> {
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(live::run(app.state.clone(), stopped));
    stop
}

async fn worker(app: &App, name: &str) -> Process {
    let identity = Identity { name: name.into(), host: "h".into(), pid: 8, version: "0.1.0".into() };
    let options = ProcessOptions { identity, ttl: Duration::from_secs(15) };
    Process::register(app.store.clone(), app.clock.clone(), options).await.unwrap()
}

#[tokio::test]
async fn a_patch_is_word_for_word_what_the_page_has() {
    let app = App::open().await;
    worker(&app, "worker-<b>").await;
    let _stop = produce(&app);
    let mut page = Page::open(&app, "/ui/events?page=overview", &[]).await;
    assert_eq!(page.status, StatusCode::OK);

    for region in ["processes", "leases", "attention", "outbox", "database", "events", "failing", "status"] {
        let mut fresh = Page::open(&app, "/ui/events?page=overview", &[]).await;
        let (_, patch) = fresh.patch(region).await;
        let html = app.ask(Method::GET, "/", &[], "").await.text;
        assert!(html.contains(&patch), "{region}: {patch}");
        assert!(patch.contains(&format!("data-live=\"{region}\"")));
    }
    let (_, processes) = page.patch("processes").await;
    assert!(processes.contains("worker-&lt;b&gt;"));
}

#[tokio::test]
async fn the_death_of_a_process_reaches_the_page_as_its_row() {
    let app = App::open().await;
    let worker = worker(&app, "worker-b").await;
    let _stop = produce(&app);
    let mut page = Page::open(&app, "/ui/events?page=overview", &[]).await;
    let (_, before) = page.patch("processes").await;
    assert!(before.contains("● ".trim()) && before.contains("worker-b"));

    app.clock.advance(Duration::from_secs(2));
    let mut tx = app.store.begin().await.unwrap();
    tx.processes().stop(worker.id(), None).await.unwrap().unwrap();
    tx.commit().await.unwrap();

    let (_, row) = page.patch(&format!("process:{}", worker.id())).await;
    assert!(row.starts_with("<tr data-live=\"process:") && row.contains("stopped"), "{row}");
    let html = app.ask(Method::GET, "/", &[], "").await.text;
    assert!(html.contains(&row), "the page has the same row: {row}");
}

#[tokio::test]
async fn a_broken_stream_goes_on_where_it_broke() {
    let app = App::open().await;
    let _stop = produce(&app);
    let mut watcher = Page::open(&app, "/ui/events?page=overview", &[]).await;
    let mut page = Page::open(&app, "/ui/events?page=overview", &[]).await;
    let (id, _) = page.patch("events").await;
    watcher.patch("events").await;
    drop(page);

    app.clock.advance(Duration::from_secs(2));
    let mut tx = app.store.begin().await.unwrap();
    tx.audit().record(&AuditEntry::new(Actor::system(), "test.missed", "test/1")).await.unwrap();
    tx.commit().await.unwrap();
    watcher.patch("events").await;

    let mut back = Page::open(&app, "/ui/events?page=overview", &[("last-event-id", &id)]).await;
    assert_eq!(back.event().await.unwrap(), "retry: 3000");
    let (_, missed) = back.patch("events").await;
    assert!(missed.contains("test.missed"));
    let mut stranger = Page::open(&app, "/ui/events?page=overview", &[("last-event-id", "0-1")]).await;
    assert_eq!(stranger.event().await.unwrap(), "retry: 3000");
    assert_eq!(stranger.event().await.unwrap(), "event: reload\ndata: 1");
}

#[tokio::test]
async fn a_quiet_stream_beats() {
    let app = App::open().await;
    let mut page = Page::open(&app, "/ui/events?page=other", &[]).await;

    assert_eq!(page.event().await.unwrap(), "retry: 3000");
    assert_eq!(page.event().await.unwrap(), ": beat\nevent: beat\ndata: 1");
}

#[tokio::test]
async fn other_pages_get_the_status_line_but_no_tables() {
    let app = App::open().await;
    let _stop = produce(&app);
    let mut overview = Page::open(&app, "/ui/events?page=overview", &[]).await;
    overview.patch("processes").await;

    let mut settings = Page::open(&app, "/ui/events?page=other", &[]).await;
    let mut regions = Vec::new();
    while regions.len() < 2 {
        let event = settings.event().await.unwrap();
        regions.extend(event.lines().filter_map(|line| line.strip_prefix("data: {")).map(str::to_owned));
    }
    assert!(
        regions.iter().all(|region| region.contains("\"failing\"") || region.contains("\"status\"")),
        "{regions:?}"
    );
}

#[tokio::test]
async fn nobody_listens_without_credentials_or_beyond_the_limit() {
    let app = App::closed().await;
    let without = Page::open(&app, "/ui/events?page=overview", &[]).await;
    assert_eq!(without.status, StatusCode::UNAUTHORIZED);
    let worker = format!("Bearer {}", app.token(Role::Worker).await);
    let refused = Page::open(&app, "/ui/events?page=overview", &[("authorization", &worker)]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);

    let viewer = format!("Bearer {}", app.token(Role::Viewer).await);
    let mut open = Vec::new();
    for _ in 0..20 {
        open.push(Page::open(&app, "/ui/events?page=overview", &[("authorization", &viewer)]).await);
    }
    assert!(open.iter().all(|page| page.status == StatusCode::OK));
    let one_more = Page::open(&app, "/ui/events?page=overview", &[("authorization", &viewer)]).await;
    assert_eq!(one_more.status, StatusCode::TOO_MANY_REQUESTS);
    open.pop();
    let next = Page::open(&app, "/ui/events?page=overview", &[("authorization", &viewer)]).await;
    assert_eq!(next.status, StatusCode::OK);
}

#[tokio::test]
async fn streams_end_when_the_server_stops() {
    let app = App::open().await;
    let stop = produce(&app);
    let mut page = Page::open(&app, "/ui/events?page=overview", &[]).await;
    page.patch("processes").await;

    stop.send_replace(true);

    while page.event().await.is_some() {}
    let late = Page::open(&app, "/ui/events?page=overview", &[]).await;
    assert_eq!(late.status, StatusCode::SERVICE_UNAVAILABLE);
}
